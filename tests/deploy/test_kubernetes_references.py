"""What the manifests say of each other, of the service's settings and of its metrics is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kustomizing import Object, build, find

from deploy.docker.dockerfile import chain, environment, parse
from service.config import PREFIX, Settings
from service.edge.gate import PROBES
from service.observability.telemetry import CATALOGUE
from service.observability.telemetry import PREFIX as METRICS
from service.process.lifecycle import RESERVE

DEPLOY = Path(__file__).parents[2] / "deploy"
OVERLAYS = {folder.name: build(folder) for folder in sorted((DEPLOY / "kubernetes/overlays").iterdir())}
overlays = pytest.mark.parametrize("objects", OVERLAYS.values(), ids=OVERLAYS.keys())


def pod(objects: list[Object]) -> Object:
    found: Object = find(objects, "Deployment")["spec"]["template"]["spec"]
    return found


def server(objects: list[Object]) -> Object:
    (found,) = pod(objects)["containers"]
    return dict(found)


def settings(values: dict[str, str]) -> Settings:
    """Read as the service reads its environment; a name that is no setting is refused."""
    return Settings(**{name.removeprefix(PREFIX).lower(): value for name, value in values.items()})


def seconds_to_end(read: Settings) -> float:
    """From SIGTERM until the last request that was let in has met its deadline, and the process is gone."""
    return (read.drain_ms + read.timeout_ms) / 1000 + RESERVE


@overlays
def test_every_selector_finds_the_pods(objects: list[Object]) -> None:
    labels = find(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    service = find(objects, "Service")
    selectors = [service["spec"]["selector"]]
    selectors += [
        find(objects, kind)["spec"]["selector"]["matchLabels"] for kind in ("Deployment", "PodDisruptionBudget")
    ]
    selectors += [find(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]]
    selectors += [c["labelSelector"]["matchLabels"] for c in pod(objects)["topologySpreadConstraints"]]
    for selector in selectors:
        assert selector
        assert selector.items() <= labels
    monitored = find(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= service["metadata"]["labels"].items()


@overlays
def test_ports_are_called_by_names_that_exist(objects: list[Object]) -> None:
    container = server(objects)
    names = {port["name"] for port in container["ports"]}
    (port,) = find(objects, "Service")["spec"]["ports"]
    assert port["targetPort"] in names
    assert {e["port"] for e in find(objects, "ServiceMonitor")["spec"]["endpoints"]} == {port["name"]}
    assert {p["port"] for rule in find(objects, "NetworkPolicy")["spec"]["ingress"] for p in rule["ports"]} <= names
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in names
        assert container[probe]["httpGet"]["path"] in PROBES


@overlays
def test_the_autoscaler_scales_the_deployment_and_nobody_else_does(objects: list[Object]) -> None:
    deployment = find(objects, "Deployment")
    assert "replicas" not in deployment["spec"]
    target = find(objects, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert target == {key: deployment[key] for key in ("apiVersion", "kind")} | {"name": deployment["metadata"]["name"]}


def test_the_autoscalers_metric_is_made_from_one_that_the_service_has() -> None:
    (rule,) = yaml.safe_load((DEPLOY / "kubernetes/prometheus-adapter.yaml").read_text())["rules"]["custom"]
    series = set(re.findall(r"(\w+)\{", rule["seriesQuery"] + rule["metricsQuery"]))
    assert {name.removeprefix(METRICS).removesuffix("_sum").removesuffix("_count") for name in series} <= set(CATALOGUE)
    for objects in OVERLAYS.values():
        metrics = find(objects, "HorizontalPodAutoscaler")["spec"]["metrics"]
        assert rule["name"]["as"] in [m["pods"]["metric"]["name"] for m in metrics if m["type"] == "Pods"]


@overlays
def test_every_setting_exists_and_has_a_value_that_can_be(objects: list[Object]) -> None:
    data = find(objects, "ConfigMap")["data"]
    assert set(data) <= {PREFIX + name.upper() for name in Settings.model_fields}
    assert settings(data)
    assert server(objects)["envFrom"] == [{"configMapRef": {"name": "clueserve"}}]


@overlays
def test_a_pod_has_time_to_answer_what_it_accepted(objects: list[Object]) -> None:
    """The cluster's patience > the service's own > drain and deadline."""
    read = settings(find(objects, "ConfigMap")["data"])
    assert pod(objects)["terminationGracePeriodSeconds"] >= read.grace_ms / 1000 + 5
    assert read.grace_ms / 1000 >= seconds_to_end(read)
    assert read.max_wait_ms < read.timeout_ms
    assert read.drain_ms >= 3000  # endpoints of a service take seconds to be told of everywhere


@overlays
def test_threads_are_the_cpus_that_are_asked_for(objects: list[Object]) -> None:
    """Without a quota the service would count the node's cores, and with one it would be throttled."""
    resources = server(objects)["resources"]
    read = settings(find(objects, "ConfigMap")["data"])
    assert read.threads == int(resources["requests"]["cpu"])
    assert "cpu" not in resources["limits"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"]


@overlays
def test_pods_meet_the_restricted_standard(objects: list[Object]) -> None:
    spec, container = pod(objects), server(objects)
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"emptyDir", "secret", "persistentVolumeClaim"}
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in spec["volumes"]}


@overlays
def test_the_pods_user_is_the_images_and_its_temporary_folder_can_be_written(objects: list[Object]) -> None:
    device = settings(find(objects, "ConfigMap")["data"]).device
    path = DEPLOY / "docker" / ("Dockerfile.gpu" if device == "cuda" else "Dockerfile.cpu")
    stages = chain(parse(path.read_text(encoding="utf-8")))
    user = stages[-1].last("USER")
    assert user is not None
    context = pod(objects)["securityContext"]
    assert user.text == f"{context['runAsUser']}:{context['runAsGroup']}"
    mounts = {m["mountPath"]: m for m in server(objects)["volumeMounts"]}
    assert environment(stages)["HOME"] in mounts
    assert all(m.get("readOnly") for path, m in mounts.items() if path != "/tmp")
    assert int(environment(stages)["BENTOML_PORT"]) == server(objects)["ports"][0]["containerPort"]
    if bundles := [path for path in mounts if "bentoml" in path]:
        assert bundles == [environment(stages)["BENTOML_HOME"] + "/models"]


@overlays
def test_pods_are_not_told_about_other_services(objects: list[Object]) -> None:
    """A Service called nlu-... would become a variable that begins as settings do, and ends the start."""
    assert pod(objects)["enableServiceLinks"] is False


def test_pods_of_kserve_are_not_told_about_other_services_either() -> None:
    service = yaml.safe_load((DEPLOY / "kserve/inferenceservice.yaml").read_text())["spec"]
    assert service["predictor"]["enableServiceLinks"] is False


def test_keys_come_from_a_secret_whose_file_the_setting_names() -> None:
    objects = OVERLAYS["production"]
    (volume,) = [v for v in pod(objects)["volumes"] if "secret" in v]
    (mount,) = [m for m in server(objects)["volumeMounts"] if m["name"] == volume["name"]]
    keys = settings(find(objects, "ConfigMap")["data"]).keys_file
    assert str(keys).startswith(mount["mountPath"] + "/")
    assert "subPath" not in mount  # such a mount never changes, so that no key could be replaced
    (endpoint,) = find(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"]["name"]


def test_prometheus_calls_the_job_as_the_alerts_do() -> None:
    groups: list[dict[str, Any]] = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())["groups"]
    jobs = {job for g in groups for rule in g["rules"] for job in re.findall(r'job="(\w+)"', rule["expr"])}
    assert jobs == {find(OVERLAYS["cpu"], "Service")["metadata"]["name"]}


def test_a_runtime_of_kserve_serves_the_bundle_that_is_asked_for() -> None:
    runtime = yaml.safe_load((DEPLOY / "kserve/servingruntime.yaml").read_text())["spec"]
    service = yaml.safe_load((DEPLOY / "kserve/inferenceservice.yaml").read_text())["spec"]["predictor"]["model"]
    (container,) = runtime["containers"]
    env = {e["name"]: e["value"] for e in container["env"]}
    assert env["NLU_MODELS"] == "{{.Name}}=/mnt/models"
    read = settings(env)
    assert 30 >= read.grace_ms / 1000 >= seconds_to_end(read)
    assert read.threads == int(container["resources"]["requests"]["cpu"])
    assert service["protocolVersion"] in runtime["protocolVersions"]
    assert service["modelFormat"]["name"] in [f["name"] for f in runtime["supportedModelFormats"]]
    assert container["readinessProbe"]["httpGet"]["path"] == "/v2/models/{{.Name}}/ready"
