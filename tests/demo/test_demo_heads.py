"""What lies in demo/: sizes, suites, cards and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import demo
import suites
from demo.__main__ import main
from demo.assemble import HEADS, ROOT


@pytest.fixture(params=demo.names())
def name(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


def test_the_folder_stays_small() -> None:
    files = [path for path in ROOT.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) < 46_500_000


def test_every_folder_is_a_head_and_the_default_set_exists() -> None:
    assert demo.names() == sorted(path.name for path in HEADS.iterdir())
    assert sorted(demo.default_names() + demo.more_names()) == demo.names()


def test_suite_has_scores_and_examples(name: str) -> None:
    suite = suites.load(demo.suite_path(name))
    assert suite.name in suites.names()
    assert all(part.normalization.form == "nfkc" for part in suite.stages.values() or [suite])
    assert len(suite.examples) == 3
    assert suite.scores
    for score in suite.scores:
        assert score.metric in suite.metrics
        assert 0 < score.value <= 100


def test_windows_overlap_and_take_the_best_span(name: str) -> None:
    suite = suites.load(demo.suite_path(name))
    if suite.family == "question-answering":
        assert "doc_stride" not in suite.decoder
        assert suite.decoder["max_context"] is False
    if suite.family in ("question-answering", "token-classification"):
        assert 0 < suite.decoder["stride"] < suite.max_length / 2


def test_labels_come_from_the_suite_alone(name: str) -> None:
    parts = [path.parent for path in (HEADS / name).rglob("head.safetensors")]  # a pipeline has a folder a stage
    assert parts
    for part in parts:
        config = json.loads((part / "config.json").read_text(encoding="utf-8"))
        assert len(config["architectures"]) == 1
        assert not (suites.load(part / "suite.yaml").labels and "id2label" in config)


def test_card_states_licence_limits_and_scores(name: str) -> None:
    card = (HEADS / name / "README.md").read_text(encoding="utf-8")
    assert "## Licence" in card
    assert "## Limits" in card
    for score in suites.load(demo.suite_path(name)).scores:
        assert f"| {score.value:.1f} | {score.n:,} |" in card


def test_overview_lists_every_head(name: str) -> None:
    assert f"| [{name}](heads/{name}/README.md) |" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_unknown_head_is_named() -> None:
    with pytest.raises(KeyError, match="klue-nerr"):
        demo.suite_path("klue-nerr")


def test_list_prints_a_line_a_head(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == demo.names()
    assert [line.split()[0] for line in lines if line.endswith("default")] == sorted(demo.default_names())
    assert [line.split()[0] for line in lines if line.endswith("on request")] == sorted(demo.more_names())


@pytest.mark.parametrize("argv", [[], ["klue-nerr", "--out", "unused"]])
def test_command_refuses(argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert not list(tmp_path.iterdir())
