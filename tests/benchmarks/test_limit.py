"""The floor of a bundle: every way answers every item, and only what a bundle allows is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import limit, results
from benchmarks.__main__ import main
from service.bundle import Bundle
from service.errors import InvalidItem
from service.loading import open_bundle

BundleOf = Callable[..., Path]
TEXTS = [{"text": "국회 본회의서 내년도 예산안 통과" * (1 + i % 3)} for i in range(20)]


def opened(folder: Path) -> tuple[Any, Any]:
    return open_bundle(Bundle(folder), "cpu")


def test_every_way_runs_every_row(bundle_of: BundleOf, monkeypatch: pytest.MonkeyPatch) -> None:
    task, session = opened(bundle_of("klue/ynat"))
    found: dict[str, list[int]] = {}
    run = session.run_together

    for way in limit.ways(task, session):
        sizes = found[way.name] = []
        monkeypatch.setattr(session, "run_together", lambda rows, sizes=sizes: (sizes.append(len(rows)), run(rows))[1])
        limit.once(way, [task.Input.model_validate(item) for item in TEXTS], threads=1)
    assert found["alone"] == [1] * 20
    assert found["naive"] == [16, 4]
    assert sum(found["split"]) == 20


@pytest.mark.parametrize("threads", [1, 2])
def test_items_are_spread_over_threads(threads: int) -> None:
    seen: list[Any] = []
    limit.once(limit.Way("w", 3, seen.append), list(range(8)), threads)
    assert sorted(seen) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_a_pipeline_is_asked_through_its_task(bundle_of: BundleOf) -> None:
    bundle = Bundle(bundle_of("cblue/cmeie"))
    found = limit.measure(bundle, [bundle.manifest.golden[0].item] * 3, [1])
    assert [way["way"] for way in found["ways"]] == ["alone", "split"]


def test_an_item_that_fails_ends_the_measurement(bundle_of: BundleOf) -> None:
    bundle = Bundle(bundle_of("cblue/cmeie"))
    with pytest.raises(InvalidItem):
        limit.measure(bundle, [{"text": "\u0007"}], [1])


def test_the_floor_is_the_least_of_one_thread() -> None:
    ways: list[Mapping[str, Any]] = [
        {"way": "alone", "threads": 1, "cpu_ms": 3.0},
        {"way": "split", "threads": 1, "cpu_ms": 2.0},
        {"way": "split", "threads": 2, "cpu_ms": 1.5},
    ]
    assert limit.floor_ms({"ways": ways}) == 2.0


def test_the_command_prints_and_saves_every_bundle(
    bundle_of: BundleOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = bundle_of("klue/ynat"), tmp_path / "limit.json"
    assert main(["limit", f"a={folder}", f"b={folder}", "--count", "16", "--save", str(out)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:3] == ["bundle", "precision", "tokens"]
    assert {line.split()[0] for line in printed if line.split()[1] == "fp32"} == {"a", "b"}
    saved = results.load(out)
    assert saved["command"] == "limit"
    one = saved["found"][0]
    assert one["items"] == 16
    assert one["tokens_per_item"] > 2
    assert {way["threads"] for way in one["ways"]} >= {1}
    assert all(way["cpu_ms"] > 0 and way["items_per_s"] > 0 for way in one["ways"])


def test_a_bundle_that_is_not_there_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["limit", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("not measured: ")
