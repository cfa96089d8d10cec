"""Every manifest is what the API server would take, by Kubernetes' own schemas; the custom resources by small ones."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kustomizing import Object, build
from referencing import Registry, Resource

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
KUSTOMIZATIONS = [KUBERNETES / "base", *sorted((KUBERNETES / "overlays").iterdir())]
VERSIONS = ("1.30.0", kubernetes_validate.latest_version())
CUSTOM: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("crds.yaml").read_text(encoding="utf-8"))


@cache
def kubernetes_types(version: str) -> Registry[Any]:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict"
    return Resource.from_contents(json.loads((folder / "_definitions.json").read_text())) @ Registry()


def check(manifest: Object, version: str) -> None:
    if manifest["kind"] in CUSTOM:
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | CUSTOM[manifest["kind"]]
        jsonschema.Draft202012Validator(schema, registry=kubernetes_types(version)).validate(manifest)
    else:
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=lambda folder: folder.name)
def test_manifests_are_valid(folder: Path, version: str) -> None:
    objects = build(folder)
    assert len(objects) >= 8
    for manifest in objects:
        check(manifest, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", sorted((DEPLOY / "kserve").glob("*.yaml")), ids=lambda path: path.stem)
def test_kserve_resources_are_valid(path: Path, version: str) -> None:
    check(yaml.safe_load(path.read_text(encoding="utf-8")), version)


def test_a_misspelt_field_is_found_everywhere() -> None:
    deployment, monitor, runtime = (
        yaml.safe_load((DEPLOY / path).read_text(encoding="utf-8"))
        for path in (
            "kubernetes/base/deployment.yaml",
            "kubernetes/base/servicemonitor.yaml",
            "kserve/servingruntime.yaml",
        )
    )
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    monitor["spec"]["endpoints"][0]["targetport"] = "http"
    runtime["spec"]["containers"][0]["resource"] = {}
    for manifest in (deployment, monitor, runtime):
        with pytest.raises(jsonschema.ValidationError):
            check(manifest, VERSIONS[-1])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=lambda folder: folder.name)
def test_kustomize_makes_the_same_objects(folder: Path) -> None:
    """What these tests check is what a cluster gets; generated names apart, which kustomize ends in a hash."""
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True, timeout=60)
    theirs = list(yaml.safe_load_all(done.stdout))
    (generated,) = [o["metadata"]["name"] for o in theirs if o["kind"] == "ConfigMap"]
    plain = json.loads(json.dumps(theirs).replace(generated, "clueserve"))
    assert generated != "clueserve"
    assert by_kind(plain) == by_kind(build(folder))


def by_kind(objects: list[Object]) -> dict[str, Object]:
    assert len({o["kind"] for o in objects}) == len(objects)
    return {o["kind"]: o for o in objects}
