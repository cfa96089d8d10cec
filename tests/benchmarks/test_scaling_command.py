"""`python -m benchmarks scaling` as it is typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchmarks.__main__ import main


def test_it_prints_a_plan_whole_and_with_a_replica_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "--rate", "800", "--slo-ms", "50", "--cpu-ms", "5.3", "--requests", "20000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("4 replicas of 2 threads for 800 requests/s")
    assert [line.split()[0] for line in lines[3:]] == ["whole", "1"]


def test_it_says_why_there_is_no_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "--rate", "1", "--slo-ms", "5", "--cpu-ms", "5.3"]) == 1
    assert "the longest texts alone take" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [["--rate", "0"], ["--threads", "0"], ["--most-busy", "1"], ["--requests", "10"], ["--fixed", "2"]]
)
def test_what_makes_no_sense_is_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["scaling", "--rate", "1", "--slo-ms", "50", "--cpu-ms", "5", *wrong])
    assert ended.value.code == 2


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs/scaling.md").read_text(encoding="utf-8")
    command, shown = re.findall(r"^python -m benchmarks (scaling .*)\n```\n```text\n([^`]*)```", page, re.M)[0]
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out == shown
