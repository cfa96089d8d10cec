"""Readers and metrics are there by being a module of the folder, each under one name."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import metrics, readers
from benchmarks.metrics.base import Sum, mean
from benchmarks.registry import merged


@pytest.mark.parametrize(("package", "table"), [(metrics, "METRICS"), (readers, "READERS")], ids=["metrics", "readers"])
def test_a_module_is_found_and_may_not_take_a_name_that_is_taken(
    package: ModuleType, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    taken = next(iter(getattr(package, table)))
    module, name = tmp_path / "of_ones_own.py", f"{package.__name__}.of_ones_own"
    module.write_text(f"{table} = {{'own/new': None}}\n", encoding="utf-8")
    assert merged(package.__name__, list(package.__path__), table).keys() - getattr(package, table).keys() == {
        "own/new"
    }
    del sys.modules[name]
    delattr(package, "of_ones_own")
    module.write_text(f"{table} = {{{taken!r}: None, 'a': None}}\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match=f"{name}: {table} defined twice: {taken}"):
        merged(package.__name__, list(package.__path__), table)
    del sys.modules[name]
    delattr(package, "of_ones_own")


def test_readers_have_names_of_suites_and_metrics_are_made_of_the_building_blocks() -> None:
    assert all(name.count("/") == 1 for name in readers.READERS)
    assert all(callable(metric) and callable(metric.weighted) for metric in metrics.METRICS.values())
    assert isinstance(mean(lambda *_: 1.0), Sum)
