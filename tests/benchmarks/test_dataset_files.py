"""Where `accuracy --all` finds a suite's data, and that every suite has a reader, metrics and known files."""

from __future__ import annotations

from pathlib import Path

import pytest

import suites
from benchmarks import datasets
from benchmarks.metrics import METRICS
from benchmarks.readers import READERS


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def found(folder: Path, *names: str) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in datasets.find(folder, *names)]


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("klue-ner.tsv", ("my-ner", "klue/ner")),
        ("my-ner.tsv", ("my-ner", "klue/ner")),
        ("KLUE/klue-ner/klue-ner-v1.1_dev.tsv", ("my-ner", "klue/ner")),
        ("KLUE/ynat/ynat-v1.1_dev.json", ("x", "klue/ynat")),
        ("KLUE/ynat/ynat-v1.1_dev.recovered.json", ("x", "klue/ynat")),
        ("afqmc_public/dev.json", ("x", "clue/afqmc")),
        ("CBLUEDatasets/CMeEE/CMeEE_dev.json", ("x", "cblue/cmeee-nested", "cblue/cmeee")),
        ("ChineseBLUE/cMedQQ/test.txt", ("x", "chineseblue/cmedqq")),
        ("NCBI-disease-IOB/test.tsv", ("x", "biomed/ncbi-disease")),
    ],
)
def test_official_names_and_those_of_bundle_and_suite(tmp_path: Path, file: str, names: tuple[str, ...]) -> None:
    touch(tmp_path, file, "README.md", "klue-ner.md", "train.json", "other/dev.json")
    assert found(tmp_path, *names) == [file]


def test_the_bundles_own_file_comes_first(tmp_path: Path) -> None:
    touch(tmp_path, "mine.json", "klue-ynat.json", "ynat-v1.1_dev.json")
    assert found(tmp_path, "mine", "klue/ynat") == ["mine.json"]
    assert found(tmp_path, "other", "klue/ynat") == ["klue-ynat.json"]


def test_a_task_of_two_files_takes_both_of_one_folder(tmp_path: Path) -> None:
    touch(tmp_path, "c3_a/d-dev.json", "c3_a/m-dev.json", "c3_b/d-dev.json")
    assert found(tmp_path, "clue/c3") == ["c3_a/d-dev.json", "c3_a/m-dev.json"]


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert found(tmp_path, "klue/ner", "") == []


@pytest.mark.parametrize("name", suites.names())
def test_every_suite_can_be_measured(name: str) -> None:
    suite = suites.load(name)
    assert set(suite.metrics) <= METRICS.keys()
    if suite.reader:
        assert suite.reader in READERS


def test_datasets_are_those_of_suites() -> None:
    assert datasets.known().keys() <= set(suites.names())
