"""The OpenAPI document and the list of models say what is served, with examples that are true."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service import __version__
from service.bundle import Bundle, Manifest
from service.edge.openapi import calls, describe, document
from service.protocols.described import answered
from service.tasks import FAMILIES

SUITES = ["klue/ynat", "klue/nli", "klue/sts", "klue/re", "klue/ner", "klue/mrc", "clue/cmrc2018", "clue/c3"]
SUITES += [
    "cblue/cmeee-nested",
    "clinical-clue/remaining-los",
    "clue/chid",
    "klue/dp",
    "klue/wos",
    "cblue/cmeie",
    "cblue/chip-cdn",
]


@pytest.fixture(scope="module")
def bundles_by_name(bundle_of: Callable[[str], Path]) -> dict[str, Bundle]:
    return {suite.replace("/", "-"): Bundle(bundle_of(suite)) for suite in SUITES}


@pytest.fixture(scope="module")
def manifests(bundles_by_name: dict[str, Bundle]) -> dict[str, Manifest]:
    return {name: bundle.manifest for name, bundle in bundles_by_name.items()}


@pytest.fixture(scope="module")
def doc(manifests: dict[str, Manifest]) -> dict[str, Any]:
    """As a client reads it."""
    read: dict[str, Any] = json.loads(json.dumps(document(FAMILIES, manifests, __version__)))
    return read


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from nodes(part)
    elif isinstance(value, list):
        for part in value:
            yield from nodes(part)


def content(operation: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = operation["requestBody"]["content"]["application/json"]
    return found


def test_every_family_has_a_bundle_here(manifests: dict[str, Manifest]) -> None:
    assert {m.family for m in manifests.values()} == set(FAMILIES)


def test_every_endpoint_is_described(doc: dict[str, Any], manifests: dict[str, Manifest]) -> None:
    assert doc["openapi"].startswith("3.1")
    assert doc["info"]["version"] == __version__
    assert doc["paths"].keys() == {"/v1/models", "/parse"} | {
        f"/{n}{tail}" for n in manifests for tail in ("", "/batch")
    }


def test_every_example_request_is_one_that_its_family_takes(doc: dict[str, Any], manifests: dict[str, Any]) -> None:
    for name, manifest in manifests.items():
        model = FAMILIES[manifest.family].Input
        single = content(doc["paths"][f"/{name}"]["post"])["example"]
        (item,) = content(doc["paths"][f"/{name}/batch"]["post"])["example"]["items"]
        assert item == single == model.model_validate_json(json.dumps(single)).model_dump(exclude_unset=True)


def test_every_example_answer_is_one_that_its_family_gives(doc: dict[str, Any], manifests: dict[str, Any]) -> None:
    for name, manifest in manifests.items():
        answer = doc["paths"][f"/{name}"]["post"]["responses"]["200"]["content"]["application/json"]["example"]
        output = FAMILIES[manifest.family].Output
        assert output.model_validate(answer).model_dump() == answer


def test_every_reference_leads_somewhere(doc: dict[str, Any]) -> None:
    references = {node["$ref"] for node in nodes(doc) if isinstance(node.get("$ref"), str)}
    assert len(references) > len(SUITES)
    for reference in references:
        target: Any = doc
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]
        assert target["type"] == "object"


def test_request_schemas_close_the_door_that_requests_find_closed(doc: dict[str, Any]) -> None:
    """Unknown fields are refused, and the document says so."""
    for operations in doc["paths"].values():
        if "post" in operations:
            schema = content(operations["post"])["schema"]
            if "$ref" in schema:
                schema = doc["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
            assert schema["additionalProperties"] is False
            assert schema.get("required") or all(option["required"] for option in schema["anyOf"])


def test_every_refusal_that_a_caller_may_meet_is_listed(doc: dict[str, Any], manifests: dict[str, Manifest]) -> None:
    for name in manifests:
        responses = doc["paths"][f"/{name}"]["post"]["responses"]
        assert responses.keys() >= {"200", "400", "413", "415", "422", "429", "503", "504"}
        for status in responses.keys() - {"200"}:
            schema = responses[status]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Error"}


def test_an_entry_tells_what_a_client_needs(bundles_by_name: dict[str, Bundle], loaded: Callable[[str], Any]) -> None:
    bundle = bundles_by_name["klue-ynat"]
    manifest = bundle.manifest
    told = describe("news", None, bundle)
    assert (told["name"], told["endpoint"], told["ready"]) == ("news", "/news", False)
    assert told["labels"] == manifest.labels
    assert told["example"] == manifest.golden[0].item
    assert told["score_range"] is None
    assert describe("sts", None, bundles_by_name["klue-sts"])["score_range"] == [0, 5]
    assert describe("news", loaded("klue/ynat").task, bundle) == told | {"ready": True}


def test_who_may_ask_some_models_reads_nothing_of_the_others(manifests: dict[str, Manifest]) -> None:
    """Neither names, nor the examples of what is for any model, nor schemas that only others have."""
    listed = {"name": "model", "in": "path", "schema": {"type": "string", "enum": sorted(manifests)}}
    others = {"/models/{model}": {"post": answered("for any", [listed, {"name": "version"}])}}
    some = {"klue-dp": manifests["klue-dp"], "klue-ner": manifests["klue-ner"]}
    read = document(FAMILIES, some, __version__, others)
    assert read["paths"].keys() == {
        *("/v1/models", "/parse", "/models/{model}"),
        *("/klue-dp", "/klue-dp/batch", "/klue-ner", "/klue-ner/batch"),
    }
    named, version = read["paths"]["/models/{model}"]["post"]["parameters"]
    assert (named["schema"]["enum"], version["name"]) == (["klue-dp", "klue-ner"], "version")
    assert content(read["paths"]["/parse"]["post"])["example"]["tasks"][0] in some
    whole = json.dumps(read, ensure_ascii=False)
    assert not [name for name in manifests.keys() - some.keys() if name in whole or f"/{name}" in whole]
    assert read == document(FAMILIES, some, __version__, {path: dict(one) for path, one in others.items()})
    assert listed["schema"]["enum"] == sorted(manifests), "the next caller's are still there"
    assert "/parse" not in document(FAMILIES, {}, __version__, others)["paths"]


def test_bentomls_clients_are_told_of_what_their_key_may_ask() -> None:
    routes = [{"route": path} for path in ("/ner", "/ner/batch", "/nli", "/nli/batch")]
    schema = {"name": "clueserve", "routes": routes, "paths": {"/ner": {}, "/nli": {}, "/nli/batch": {}}}
    models = {"ner", "nli"}
    assert calls(schema, models, lambda _: True) == schema
    assert calls(schema, models, lambda name: name == "ner") == {
        "name": "clueserve",
        "routes": [{"route": "/ner"}, {"route": "/ner/batch"}],
        "paths": {"/ner": {}},
    }
