"""The architecture as a law: imports go down, heavy libraries stay out of the server, labels stay out of the code."""

from __future__ import annotations

import ast
import itertools
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGES = ("service", "clueserve", "exporters", "suites", "demo", "benchmarks")
FLOORS = (
    {"types", "errors"},
    {"graph", "bundle", "shared", "text", "graphemes", "access", "locks"},
    {"tasks"},
    {"loading", "batching"},
    {"observability"},
    {"config", "repository", "server", "edge", "process", "protocols", "playground", "keys", "app"},
)
# The package itself holds the version and imports nothing.
FLOOR = {"": 0} | {name: floor for floor, names in enumerate(FLOORS) for name in names}
FOREIGN = {"torch", "transformers", "optimum", "onnx", "suites", "exporters", "demo", "benchmarks", "yaml"}
SERVICE = sorted((ROOT / "service").rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that a file imports, wherever the statement stands."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: line {node.lineno}: a relative import"
            source = str(node.module)
            modules = {f"{source}.{alias.name}" for alias in node.names} & known()
            # `from service import openapi` reads a module, `from service import __version__` the package.
            found |= modules or {source}
            if len(modules) < len(node.names):
                found.add(source)
    return frozenset(found)


@cache
def known() -> frozenset[str]:
    return frozenset(module(path) for package in PACKAGES for path in sources(package))


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def place(name: str) -> str:
    """`service.tasks.encoder` lives in `tasks`, `service` itself in nothing."""
    return name.split(".")[1] if "." in name else ""


def test_every_module_of_the_service_has_a_floor() -> None:
    assert {place(module(path)) for path in SERVICE} == set(FLOOR)


@pytest.mark.parametrize("path", SERVICE, ids=module)
def test_imports_only_go_down(path: Path) -> None:
    own = FLOOR[place(module(path))]
    up = {name for name in imports(path) if name.split(".")[0] == "service" and FLOOR[place(name)] > own}
    assert not up, f"{module(path)} on floor {own} imports from above: {sorted(up)}"


@pytest.mark.parametrize("path", [p for p in SERVICE if p.parent.name == "tasks"], ids=module)
def test_a_task_knows_no_graph_runtime(path: Path) -> None:
    """A family turns items into rows and outputs into answers; how rows are run is not its business."""
    within = {place(name) for name in imports(path) if name.startswith("service.")}
    assert within <= {"types", "errors", "bundle", "shared", "text", "graphemes", "tasks"}
    assert not {name.split(".")[0] for name in imports(path)} & {"onnxruntime", "asyncio", "threading", "starlette"}


def test_no_two_modules_of_the_service_import_each_other() -> None:
    graph = {module(path): imports(path) & known() for path in SERVICE}
    order = list(TopologicalSorter(graph).static_order())  # CycleError names the circle
    assert order.index("service.types") < order.index("service.graph.session") < order.index("service.app")


@pytest.mark.parametrize("path", SERVICE, ids=module)
def test_the_service_imports_nothing_that_only_an_exporter_needs(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & FOREIGN


def test_the_service_imports_only_what_pyproject_declares_for_a_server() -> None:
    third = {name.split(".")[0] for path in SERVICE for name in imports(path)} - set(sys.stdlib_module_names)
    server = {
        "bentoml",
        "httptools",
        "numpy",
        "opentelemetry",
        "prometheus_client",
        "psutil",
        "pydantic",
        "pydantic_core",
        "pydantic_settings",
    }
    bentomls = {"circus", "starlette", "uvicorn"}  # what it runs us with
    assert third <= server | bentomls | {"onnxruntime", "rjieba", "tokenizers", "service"}


def test_the_client_needs_httpx_and_nothing_of_ours_but_what_its_commands_run() -> None:
    runs = {
        "clueserve.cli.export": "exporters.__main__",
        "clueserve.cli.bench": "benchmarks.__main__",
        "clueserve.cli.keys": "service.keys",
    }
    for path in sources("clueserve"):
        found = {name for name in imports(path) if name.split(".")[0] not in {*sys.stdlib_module_names, "clueserve"}}
        sends = module(path) in {"clueserve.base", "clueserve.client", "clueserve.aio"}
        assert found == ({"httpx"} if sends else {runs[module(path)]} if module(path) in runs else set()), path
        if path.parent.name != "cli" and path.stem != "__main__":
            assert not any(f"{name}.".startswith("clueserve.cli.") for name in imports(path)), path


def test_suites_are_read_only_by_exporters_demo_and_benchmarks() -> None:
    readers = {
        package
        for package in PACKAGES
        for path in sources(package)
        if package != "suites" and any(name.split(".")[0] == "suites" for name in imports(path))
    }
    assert readers
    assert readers <= {"exporters", "demo", "benchmarks"}


@pytest.mark.parametrize("package", ["suites", "demo"])
def test_nobody_imports_upwards_into_exporters(package: str) -> None:
    above = {"suites": {"service", "exporters", "demo"}, "demo": {"service", "exporters"}}[package]
    for path in sources(package):
        if path.parent.name != "recipe":  # it trains the exporters' heads, and nothing imports it
            assert not {name.split(".")[0] for name in imports(path)} & above, path


def test_no_file_is_longer_than_two_hundred_and_fifty_lines() -> None:
    lengths = {
        module(path): len(path.read_text(encoding="utf-8").splitlines())
        for package in PACKAGES
        for path in sources(package)
    }
    assert len(lengths) > 20
    assert {name: n for name, n in lengths.items() if n > 250} == {}


def suite_labels() -> set[str]:
    """Labels long enough that an equal string in code is no accident."""
    found: set[str] = set()
    for path in (ROOT / "suites").rglob("*.yaml"):
        found |= set(yaml.safe_load(path.read_text(encoding="utf-8")).get("labels") or [])
    # Words that code uses for things of its own as well.
    words = {"true", "false", "yes", "body", "test", "subject", "object"}
    return {str(label) for label in found if len(str(label)) > 2} - words


def literals(path: Path) -> set[str]:
    return {
        node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_no_label_of_any_suite_is_written_in_code() -> None:
    labels = suite_labels()
    assert {"B-PS", "no_relation", "entailment"} <= labels
    code = list(itertools.chain.from_iterable(map(sources, ("service", "exporters", "demo"))))
    assert "bundle.json" in set().union(*map(literals, code))
    assert {module(path): literals(path) & labels for path in code if literals(path) & labels} == {}
