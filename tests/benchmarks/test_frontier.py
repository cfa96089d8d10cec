"""`python -m benchmarks frontier` as a user runs it, over a tiny bundle and a hand-made official file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import results
from benchmarks.__main__ import main
from benchmarks.frontier import Timed
from service.bundle import Bundle

OFFICIAL = Path(__file__).parents[1] / "official"
TOPICS = OFFICIAL / "klue" / "ynat.json"
BundleOf = Callable[..., Path]


def command(*arguments: object) -> int:
    return main(["frontier", *map(str, arguments)])


@pytest.fixture(scope="module")
def measured(bundle_of: BundleOf, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("results") / "frontier.json"
    assert command("--bundle", bundle_of("klue/ynat"), "--data", TOPICS, "--save", file) == 0
    return results.load(file)


def test_every_precision_is_measured_beside_fp32(measured: dict[str, Any]) -> None:
    found = measured["found"]["klue-ynat"]
    rows = {row["precision"]: row for row in found["precisions"]}
    assert set(rows) == {"fp32", "int8", "dynamic int8", "8-bit blocks"}
    assert all(row["records"] == found["records"] for row in rows.values())
    assert rows["fp32"]["of_fp32"] == 1
    assert rows["fp32"]["labels_equal"] == rows["fp32"]["records_equal"] == 100
    assert rows["fp32"]["logit_change"] == 0
    assert all(0 < row["logit_change"] < 1 for name, row in rows.items() if name != "fp32")
    assert rows["int8"]["mb"] < rows["fp32"]["mb"]


def test_only_dynamic_int8_depends_on_the_company(measured: dict[str, Any]) -> None:
    changes = {row["precision"]: row["batch_change"] for row in measured["found"]["klue-ynat"]["precisions"]}
    assert changes.pop("dynamic int8") > 1e-3
    assert all(change < 1e-5 for change in changes.values())


def test_the_result_says_what_it_was_measured_on(measured: dict[str, Any]) -> None:
    assert measured["command"] == "frontier"
    assert {"onnxruntime", "onnx"} <= measured["machine"]["versions"].keys()
    assert measured["found"]["klue-ynat"]["data"].startswith("ynat.json, sha256 ")


def test_data_is_found_by_suite_and_records_can_be_few(
    bundle_of: BundleOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(TOPICS, tmp_path / "klue-ynat.json")
    arguments = ("--bundle", bundle_of("klue/ynat"), "--data-dir", tmp_path, "--limit", 2, "--only", "int8")
    assert command(*arguments) == 0
    title, head, *rows = capsys.readouterr().out.strip().splitlines()
    assert title.startswith("klue-ynat, 2 records of klue-ynat.json")
    assert [row.split()[0] for row in rows] == ["fp32", "int8"]
    assert "labels equal" in head


def test_a_bundle_without_data_is_named_and_the_others_are_measured(
    bundle_of: BundleOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(TOPICS, tmp_path / "klue-ynat.json")
    both = (bundle_of("klue/nli"), bundle_of("klue/ynat"))
    assert command("--bundle", *both, "--data-dir", tmp_path, "--limit", 1, "--only", "int8") == 1
    said = capsys.readouterr()
    assert "klue-nli: not measured: no data for klue/nli" in said.err
    assert "klue-ynat, 1 records" in said.out


@pytest.mark.parametrize(
    ("precision", "arguments", "reason"),
    [
        ("int8", (), "made of fp32 bundles, and this one is int8"),
        ("fp32", ("--only", "int4"), "no precision int4; there are fp32, int8,"),
    ],
)
def test_what_cannot_be_compared_is_said(
    bundle_of: BundleOf, capsys: pytest.CaptureFixture[str], precision: str, arguments: tuple[str, ...], reason: str
) -> None:
    assert command("--bundle", bundle_of("klue/ynat", precision=precision), "--data", TOPICS, *arguments) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bundle", "b"),
        ("--bundle", "b", "--data", "f", "--data-dir", "d"),
        ("--bundle", "a", "b", "--data", "f"),
        ("--bundle", "b", "--data", "f", "--limit", "0"),
    ],
)
def test_arguments_that_make_no_sense_exit_with_2(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        command(*arguments)
    assert ended.value.code == 2


def test_a_pipeline_has_no_logits_to_compare(bundle_of: BundleOf) -> None:
    assert Timed(Bundle(bundle_of("cblue/cmeie")), {}).batch_change is None
