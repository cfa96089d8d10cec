"""Which demo heads `python -m exporters.demo` takes for stored: those that a server of the store would serve."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import bentoml
import pytest

from exporters import demo
from service import graphemes, tasks, text, types

NAME = "klue-ner"

Export = Callable[[], list[str]]


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Export]:
    """Runs the command, with exports that store an empty bundle, and says which heads it exported."""
    done: list[str] = []

    def export(missing: list[tuple[str, str]]) -> bool:
        for name, mark in missing:
            with bentoml.models.create(name, labels={demo.SOURCE: mark}):
                done.append(name)
        return True

    def run() -> list[str]:
        done.clear()
        assert demo.main([NAME]) == 0
        return done.copy()

    monkeypatch.setattr(demo, "_export", export)
    yield run
    for model in bentoml.models.list():
        if model.tag.name == NAME:
            bentoml.models.delete(model.tag)


def test_what_an_earlier_commit_stored_is_exported_again_when_it_is_not_the_latest(
    exported: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mark in ("a", "b", "a"):
        monkeypatch.setattr(demo, "fingerprint", lambda _, mark=mark: mark)
        assert exported() == [NAME]
        assert bentoml.models.get(f"{NAME}:latest").info.labels[demo.SOURCE] == mark
        assert exported() == []


def test_every_module_that_answers_are_computed_with_is_in_the_fingerprint() -> None:
    """Of those below the tasks, errors and bundles only say what is refused, and `shared` what is kept in memory."""
    used = {
        node.module.removeprefix("service.")
        for path in [*Path(*tasks.__path__).glob("*.py"), Path(text.__file__)]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("service.")
    }
    below = {name for name in used if not name.startswith("tasks")} - {"errors", "bundle", "shared"}
    assert below
    assert {f"{name}.py" for name in below} <= {path.name for path in demo.sources()}


@pytest.mark.parametrize("module", [graphemes, text, types])
def test_a_change_of_how_answers_are_computed_changes_the_fingerprint(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = demo.fingerprint(NAME)
    copy = shutil.copyfile(str(module.__file__), tmp_path / "copy.py")
    monkeypatch.setattr(module, "__file__", str(copy))
    assert demo.fingerprint(NAME) == before
    with copy.open("a") as file:
        file.write("CHANGED = True\n")
    assert demo.fingerprint(NAME) != before
