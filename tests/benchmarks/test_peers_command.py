"""`python -m benchmarks peers`: who is measured, in which order, with which bundle, and what is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks import limit, results
from benchmarks.__main__ import main
from benchmarks.peers import models, recipe
from benchmarks.peers.contest import Contest
from benchmarks.peers.recipe import Recipe
from service.bundle import Bundle

FLOOR = {"ways": [{"way": "alone", "threads": 1, "cpu_ms": 2.0}]}


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str, Path]]:
    """(name, title of the recipe, bundle) of every turn; nothing is exported or started."""
    seen = []

    def turn(self: Contest, name: str, peer: Recipe, bundle: Path) -> dict[str, Any]:
        seen.append((name, peer.title, bundle))
        assert self.labels == ["a"]
        return {"name": name, "title": peer.title, "error": None if name != "ray" else "not installed, see log"}

    monkeypatch.setattr(Contest, "turn", turn)
    monkeypatch.setattr(models, "checkpoint", lambda kind, folder: folder / kind)
    monkeypatch.setattr(models, "export", lambda checkpoint, out: (out / "fp32", out / "int8"))
    monkeypatch.setattr(models, "labels", lambda bundle, texts: ["a"])
    monkeypatch.setattr(Bundle, "__init__", lambda self, folder: None)
    monkeypatch.setattr(limit, "measure", lambda bundle, items, threads: FLOOR)
    return seen


def test_ours_comes_first_in_fp32_and_int8_then_all_others(turns: list[tuple[str, str, Path]], tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0)
    try:
        main(["peers", "--work", str(tmp_path)])
    finally:
        os.sched_setaffinity(0, cores)
    out, ours = tmp_path / "models/small-export", recipe.load("ours").title
    fp32 = out / "fp32"
    assert turns[:2] == [("ours", ours, fp32), ("ours-int8", ours, out / "int8")]
    assert [name for name, _, _ in turns[2:]] == [name for name in recipe.names() if name != "ours"]
    assert {bundle for _, _, bundle in turns[2:]} == {fp32}


def test_what_was_asked_for_is_measured_and_kept(
    turns: list[tuple[str, str, Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cores, out = os.sched_getaffinity(0), tmp_path / "peers.json"
    try:
        status = main(["peers", "--work", str(tmp_path), "--only", "ray,litserve", "--save", str(out)])
    finally:
        os.sched_setaffinity(0, cores)
    assert [name for name, _, _ in turns] == ["litserve", "ray"]
    assert status == 1  # nothing of them was measured
    assert "ray: not installed, see log" in capsys.readouterr().out
    saved = results.load(out)
    assert saved["command"] == "peers"
    assert [row["name"] for row in saved["found"]["peers"]] == ["litserve", "ray"]
    assert saved["found"]["floors"] == {"ours": FLOOR, "ours-int8": FLOOR}
