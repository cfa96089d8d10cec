"""`python -m benchmarks accuracy` as a user runs it, over tiny bundles and hand-made files in the official formats."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bentoml
import pytest

from benchmarks.__main__ import main
from benchmarks.measure import load
from service.bundle import FILE, Bundle, sha256
from service.config import STORE_LABEL
from service.loading import open_bundle
from suites import load as suite_of

OFFICIAL = Path(__file__).parents[1] / "official"
BundleOf = Callable[[str], Path]
HEADLINES = OFFICIAL / "klue" / "ynat.json"


def accuracy(*arguments: object) -> int:
    return main(["accuracy", *map(str, arguments)])


@pytest.fixture
def own(bundle_of: BundleOf, tmp_path: Path) -> Callable[[str], Path]:
    """A bundle that the test may change, in a folder of its name."""

    def copy(suite: str) -> Path:
        source = bundle_of(suite)
        return Path(shutil.copytree(source, tmp_path / "bundles" / source.name))

    return copy


@pytest.fixture
def stored(bundle_of: BundleOf) -> str:
    """The tag of a tiny bundle in the tests' own BentoML store."""
    source = bundle_of("klue/ynat")
    tag = bentoml.Tag("klue-ynat", sha256(source / FILE)[:16])
    if not any(model.tag == tag for model in bentoml.models.list()):
        with bentoml.models.create(tag, labels={STORE_LABEL: "bundle", "team": "own"}) as model:
            shutil.copytree(source, model.path, dirs_exist_ok=True)
    return str(tag)


def test_the_table_has_scores_intervals_and_what_is_published(
    bundle_of: BundleOf, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accuracy("--bundle", bundle_of("klue/ner"), "--data", OFFICIAL / "klue" / "ner.tsv") == 0
    out, err = capsys.readouterr()
    head, metrics, scores, interval, *published = out.strip().splitlines()
    digest = sha256(OFFICIAL / "klue" / "ner.tsv")[:12]
    assert head.startswith(f"klue-ner, klue/ner: 5 records of ner.tsv (sha256 {digest}), ")
    assert metrics.split() == ["entity_macro_f1", "char_macro_f1"]
    assert scores.split()[0] == "klue-ner"
    low, to, high = interval.split()[3:6]
    assert to == "to"
    assert float(low) <= float(scores.split()[1]) <= float(high)
    assert published[0].split() == ["mBERT-base", "(test)", "76.50", "89.23"]
    assert len(published) == 6
    assert err == ""  # the progress bar is for terminals


def test_everything_is_saved(bundle_of: BundleOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bundle_of("klue/ynat")
    assert accuracy("--suite", "klue/ynat", "--bundle", folder, "--data", HEADLINES, "--save", tmp_path / "out") == 0
    capsys.readouterr()
    lines = (tmp_path / "out" / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["gold"] for line in lines] == ["정치", "경제", "사회", "생활문화", "IT과학", "스포츠"]
    assert json.loads(lines[0])["id"] == "ynat-own_00000"
    assert json.loads(lines[0])["answer"]["label"] in suite_of("klue/ynat").labels
    result = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert result["data"] == {"files": ["ynat.json"], "sha256": sha256(HEADLINES), "whole": True}
    assert result["bundle"] == {"name": "klue-ynat", "sha256": sha256(folder / FILE)}
    assert (result["suite"], result["n"], result["refused"]) == ("klue/ynat", 6, {})
    assert result["metrics"]["macro_f1"].keys() == {"value", "low", "high"}
    assert {"python", "onnxruntime", "numpy"} <= result["machine"]["versions"].keys()
    assert {"date", "seconds", "left_out", "interval_percent"} <= result.keys()


def test_refused_records_count_as_wrong(
    bundle_of: BundleOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = json.loads(HEADLINES.read_text(encoding="utf-8"))
    for record in records[1:]:
        record["title"] = " "
    path = tmp_path / "blank.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    arguments = ("--bundle", bundle_of("klue/ynat"), "--data", path)
    assert accuracy(*arguments, "--save", tmp_path) == 0
    assert "refused, and counted as wrong: 5 empty_text" in capsys.readouterr().out
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert (result["n"], result["refused"]) == (6, {"empty_text": 5})
    assert result["metrics"]["macro_f1"]["value"] <= 100 / 6
    path.write_text(json.dumps(records[1:]), encoding="utf-8")
    assert accuracy(*arguments) == 1
    assert "klue-ynat refused every record of blank.json, first with {'code': 'empty_text'" in capsys.readouterr().err


def test_uncertain_records_are_left_out_unless_asked_for(
    bundle_of: BundleOf, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--bundle", bundle_of("klue/re"), "--data", OFFICIAL / "klue" / "re.json")
    assert accuracy(*arguments) == 0
    out = capsys.readouterr().out
    assert "4 records of re.json" in out
    assert "left out: 1 the position of the subject was guessed" in out
    assert accuracy(*arguments, "--include-uncertain") == 0
    out = capsys.readouterr().out
    assert "5 records of re.json" in out
    assert "left out" not in out


def test_a_limit_is_said(bundle_of: BundleOf, capsys: pytest.CaptureFixture[str]) -> None:
    assert accuracy("--bundle", bundle_of("klue/ynat"), "--data", HEADLINES, "--limit", 2) == 0
    assert "the first 2 records of ynat.json" in capsys.readouterr().out


def test_several_files_are_one_benchmark() -> None:
    suite = suite_of("klue/ynat")
    one, two = load([HEADLINES], suite), load([HEADLINES, HEADLINES], suite)
    assert len(two.records) == 2 * len(one.records)
    assert two.name == "ynat.json + ynat.json"
    assert two.sha256 != one.sha256 == sha256(HEADLINES)


def test_scores_are_recorded_in_a_folder(own: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = own("klue/ynat")
    before = json.loads((folder / FILE).read_text(encoding="utf-8"))
    arguments = ("--bundle", folder, "--data", HEADLINES)
    for _ in range(2):  # the second time it replaces the first
        assert accuracy(*arguments, "--write-score") == 0
        assert f"recorded in {folder}" in capsys.readouterr().out
    bundle = Bundle(folder)
    (score,) = bundle.manifest.scores
    assert (score.metric, score.n) == ("macro_f1", 6)
    assert score.data == f"ynat.json, sha256 {sha256(HEADLINES)[:12]}"
    assert json.loads((folder / FILE).read_text(encoding="utf-8")) | {"scores": []} == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    open_bundle(bundle, "cpu")
    assert accuracy(*arguments) == 0
    assert f"  recorded: ynat.json, sha256 {sha256(HEADLINES)[:12]}, n 6" in capsys.readouterr().out


def test_scores_are_a_new_version_in_the_store(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The store's tags are digests of manifests: whoever serves the old one keeps it as it was."""
    assert accuracy("--bundle", stored, "--data", HEADLINES, "--write-score") == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("recorded in "))
    new = bentoml.models.get(line.removeprefix("recorded in "))
    old = bentoml.models.get(stored)
    assert str(new.tag) == f"klue-ynat:{sha256(Path(new.path) / FILE)[:16]}" != stored
    assert new.info.labels == old.info.labels
    assert [score.metric for score in Bundle(Path(new.path)).manifest.scores] == ["macro_f1"]
    assert Bundle(Path(old.path)).manifest.scores == []
    open_bundle(Bundle(Path(new.path)), "cpu")
    assert bentoml.models.get("klue-ynat:latest").tag == new.tag
    assert accuracy("--bundle", stored, "--data", HEADLINES, "--write-score") == 0
    assert line in capsys.readouterr().out


def test_all_bundles_of_the_store_that_have_data(
    stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data" / "deep"
    data.mkdir(parents=True)
    assert accuracy("--all", "--data-dir", tmp_path / "data") == 1
    assert f"klue-ynat: no data for klue/ynat in {tmp_path / 'data'}" in capsys.readouterr().err
    shutil.copy(HEADLINES, data / "ynat-v1.1_dev.json")
    assert accuracy("--all", "--data-dir", tmp_path / "data", "--save", tmp_path / "out") == 0
    out = capsys.readouterr().out
    assert "klue-ynat, klue/ynat: 6 records of ynat-v1.1_dev.json" in out
    summary = out[out.index("bundle  ") :].splitlines()
    assert summary[0].split() == [
        "bundle",
        "metric",
        "score",
        "95",
        "%",
        "interval",
        "n",
        "left",
        "out",
        "refused",
        "recorded",
    ]
    assert any(line.split()[:2] == ["klue-ynat", "macro_f1"] for line in summary[1:])
    assert (tmp_path / "out" / "klue-ynat" / "result.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--data", "x"], "give --data and either --bundle or --url"),
        (["--data", "x", "--bundle", "a", "--url", "b"], "give --data and either --bundle or --url"),
        (["--bundle", "a"], "give --data"),
        (["--all"], "--all takes --data-dir"),
        (["--all", "--data-dir", "d", "--bundle", "b"], "--all takes --data-dir, and neither"),
        (["--data", "x", "--bundle", "a,b"], "--bundle is one tag or folder"),
        (["--data", "x", "--url", "u", "--write-score"], "not --url, --limit or --include-uncertain"),
        (
            ["--data", "x", "--bundle", "a", "--limit", "3", "--write-score"],
            "not --url, --limit or --include-uncertain",
        ),
        (["--data", "x", "--bundle", "a", "--threads", "0"], "at least 1"),
    ],
)
def test_arguments_that_make_no_sense_together(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        accuracy(*arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_what_cannot_be_measured_says_why(
    bundle_of: BundleOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bundle_of("klue/ynat")

    def said(*arguments: Any) -> str:
        assert accuracy(*arguments) == 1
        return capsys.readouterr().err

    assert "not measured: " in said("--bundle", folder, "--data", tmp_path / "absent.json")
    assert "expected a list of records" in said("--bundle", folder, "--data", OFFICIAL / "klue" / "mrc.json")
    assert "unknown suite 'klue/topic'" in said("--bundle", folder, "--data", HEADLINES, "--suite", "klue/topic")
    assert "is not in the BentoML store" in said("--bundle", "absent:latest", "--data", HEADLINES)
    assert "is not a bundle" in said("--bundle", f"{tmp_path}/", "--data", HEADLINES)
    assert "no answer" in said("--url", "http://127.0.0.1:1/klue-ynat", "--data", HEADLINES)
    path = tmp_path / "suite.yaml"
    path.write_text("include: klue/ynat\nreader: klue/none\n", encoding="utf-8")
    assert "no reader 'klue/none'; there are " in said("--bundle", folder, "--data", HEADLINES, "--suite", path)
    path.write_text("include: klue/ynat\nmetrics: [beauty]\n", encoding="utf-8")
    assert "no metric beauty; there are " in said("--bundle", folder, "--data", HEADLINES, "--suite", path)
    empty = tmp_path / "empty.json"
    empty.write_text("[]", encoding="utf-8")
    assert "nothing to score among 0 records" in said("--bundle", folder, "--data", empty)
