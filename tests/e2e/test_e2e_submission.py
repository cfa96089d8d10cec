"""A leaderboard's file from a running model: answered, written and checked by one command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

OFFICIAL = Path(__file__).parents[1] / "official"


def submission(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "submission", *map(str, arguments)]
    return subprocess.run(command, cwd=OFFICIAL.parents[1], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("clue/afqmc", "afqmc_predict.json"),
        ("cblue/kuake-qic", "KUAKE-QIC_test.json"),
        ("clue/chid", "chid11_predict.json"),
    ],
)
def test_a_test_file_becomes_the_leaderboards_file(
    bundle_of: Callable[[str], Path], tmp_path: Path, name: str, file: str
) -> None:
    source = OFFICIAL / f"{name}.json"
    done = submission("--bundle", bundle_of(name), "--data", source, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'out' / file}: follows the format\n"
    assert (tmp_path / "out" / file).stat().st_size > 0


def test_a_task_without_a_leaderboard_is_refused(bundle_of: Callable[[str], Path], tmp_path: Path) -> None:
    data = OFFICIAL / "klue" / "nli.json"
    done = submission("--bundle", bundle_of("klue/nli"), "--data", data, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "one of the tasks with a leaderboard: clue/afqmc" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_that_breaks_its_format_is_refused_by_line(bundle_of: Callable[[str], Path], tmp_path: Path) -> None:
    bad = tmp_path / "test.json"
    bad.write_text(json.dumps({"sentence1": "一"}) + "\n", encoding="utf-8")
    done = submission("--bundle", bundle_of("clue/afqmc"), "--data", bad, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith(f"not written: {bad}: ")
