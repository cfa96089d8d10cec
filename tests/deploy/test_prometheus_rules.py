"""Alerts, recording rules and the dashboard: valid to Prometheus itself, right on made-up series, and about metrics
that a server really has."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.observability.telemetry import CATALOGUE, PREFIX

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "clueserve.json").read_text(encoding="utf-8"))
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
# Set by Prometheus as it scrapes; the namespace in Kubernetes alone.
OF_THE_TARGET = {"namespace", "job", "instance"}

promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (requirements/debian.txt)")


def rules(kind: str) -> dict[str, dict[str, Any]]:
    """Every `record` or `alert` by its name."""
    files = [yaml.safe_load((RULES / name).read_text(encoding="utf-8")) for name in ("recording.yaml", "alerts.yaml")]
    return {rule[kind]: rule for file in files for group in file["groups"] for rule in group["rules"] if kind in rule}


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Whose it is, and the PromQL."""
    for kind in ("record", "alert"):
        yield from ((name, rule["expr"]) for name, rule in rules(kind).items())
    for panel in panels():
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])


def series_of(kind: str, name: str, labels: tuple[str, ...]) -> dict[str, set[str]]:
    bucket = {"le"} if kind == "histogram" else set()
    return {f"{PREFIX}{name}{suffix}": {*labels, *bucket} | OF_THE_TARGET for suffix in SUFFIXES[kind]}


SERIES: dict[str, set[str]] = {"up": OF_THE_TARGET}
for _name, _metric in CATALOGUE.items():
    SERIES |= series_of(_metric.kind, _name, _metric.labels)


def run(*arguments: Any, cwd: Path = RULES) -> str:
    done = subprocess.run(
        ["promtool", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@promtool
def test_promtool_accepts_the_configuration_and_its_rules() -> None:
    assert "2 rule files found" in run("check", "config", "prometheus.yaml")


@promtool
def test_alerts_fire_and_rest_as_the_examples_say() -> None:
    assert "SUCCESS" in run("test", "rules", Path(__file__).parent / "prometheus_alerts.yaml")


def test_every_alert_has_an_example_in_which_it_fires() -> None:
    examples = yaml.safe_load((Path(__file__).parent / "prometheus_alerts.yaml").read_text(encoding="utf-8"))
    tried = [case for test in examples["tests"] for case in test.get("alert_rule_test", [])]
    for fires in (True, False):
        assert {case["alertname"] for case in tried if bool(case.get("exp_alerts")) == fires} == set(rules("alert"))


@pytest.mark.parametrize(("owner", "expression"), list(expressions()), ids=lambda text: text[:30])
def test_an_expression_only_uses_metrics_and_labels_that_there_are(owner: str, expression: str) -> None:
    recorded = rules("record")
    bare = re.sub(r'"[^"]*"', '""', expression)
    names = set(re.findall(r"\b(?:clueserve[_:][a-z0-9_:]+|up)\b", bare))
    assert names, owner
    assert names <= SERIES.keys() | recorded.keys(), owner
    known = set().union(*(SERIES.get(name) or grouped(recorded[name]["expr"]) for name in names))
    matched = {
        label
        for inside in re.findall(r"[{]([^}]*)[}]", bare)
        for label in re.findall(r"(\w+)\s*(?:=|!=|=~|!~)", inside)
    }
    assert matched | grouped(bare) <= known, owner


def grouped(expression: str) -> set[str]:
    """Labels that an expression groups by or joins on."""
    return set().union(*groupings(expression))


def groupings(expression: str) -> list[set[str]]:
    lists = re.findall(r"\b(?:by|on)\s*[(]([^)]*)[)]", expression)
    return [{label.strip() for label in inside.split(",")} for inside in lists]


def test_what_is_summed_by_job_is_summed_by_namespace_too() -> None:
    """Staging's job is called as production's is."""
    for kind in ("record", "alert"):
        for name, rule in rules(kind).items():
            assert all({"namespace", "job"} <= labels for labels in groupings(rule["expr"])), name


def test_recorded_names_say_what_they_are_recorded_from() -> None:
    assert all(re.fullmatch(r"clueserve:[a-z0-9_]+:[a-z0-9]+_rate(5m|1h)", name) for name in rules("record"))
    used = " ".join(rule["expr"] for rule in rules("alert").values())
    assert {name for name in rules("record") if name not in used} == set()


def test_an_alert_says_how_urgent_it_is_and_what_happened() -> None:
    for name, rule in rules("alert").items():
        assert rule["labels"]["severity"] in {"page", "ticket"}, name
        assert "{{" in rule["annotations"]["summary"], name


def test_the_guide_explains_every_alert() -> None:
    guide = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(Clueserve\w+)`", guide, re.MULTILINE) == list(rules("alert"))


@promtool
def test_prometheus_can_parse_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    parsed = [
        {"record": f"panel:{i}", "expr": target["expr"].replace("$__rate_interval", "1m")}
        for i, target in enumerate(target for panel in panels() for target in panel["targets"])
    ]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": parsed}]}))
    assert f"{len(parsed)} rules found" in run("check", "rules", "panels.yaml", cwd=tmp_path)


def test_the_dashboard_shows_the_whole_catalogue() -> None:
    shown = " ".join(target["expr"] for panel in panels() for target in panel["targets"])
    assert {name for name in CATALOGUE if PREFIX + name not in shown} == set()


def test_the_dashboards_panels_lie_beside_each_other() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x, y in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        )
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_the_dashboard_asks_the_chosen_data_source_about_the_chosen_servers() -> None:
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "namespace", "job", "instance", "bundle"}
    for panel in panels():
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            selectors = re.findall(r"[{]([^{}]*)[}]", target["expr"])
            assert selectors, panel["title"]
            chosen = 'namespace=~"$namespace", job=~"$job", instance=~"$instance"'
            assert all(chosen in inside for inside in selectors), panel["title"]
