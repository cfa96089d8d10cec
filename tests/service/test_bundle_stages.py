"""A pipeline's bundle: a folder of bundles, each as carefully kept as one that stands alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import suites
from service.bundle import FILE, FORMAT, Bundle, sha256
from service.errors import BundleError
from service.loading import open_bundle


@pytest.fixture
def pipeline(bundle_of: Callable[[str], Path], tmp_path: Path) -> Path:
    """Two tiny bundles below a manifest that names them as stages, and an asset."""
    folder = tmp_path / "pair"
    shutil.copytree(bundle_of("klue/ner"), folder / "find")
    shutil.copytree(bundle_of("klue/re"), folder / "judge")
    (folder / "terms.tsv").write_text("감기\tJ00\n", encoding="utf-8")
    manifest = {
        "format": FORMAT,
        "name": "pair",
        "family": "triple-extraction",
        "suite": "own/pair",
        "language": "ko",
        "labels": [],
        "max_length": 62,
        "truncation": "right",
        "normalization": {},
        "decoder": {},
        "stages": ["find", "judge"],
        "golden": [{"item": {}, "answer": {}}],
        "tolerance": 1e-3,
        "scores": [],
        "provenance": {},
        "files": {"terms.tsv": sha256(folder / "terms.tsv")},
    }
    (folder / FILE).write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def change(folder: Path, **fields: Any) -> None:
    path = folder / FILE
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | fields), encoding="utf-8")


def test_its_stages_are_bundles_in_order(pipeline: Path) -> None:
    bundle = Bundle(pipeline)
    bundle.verify()
    assert {name: stage.manifest.suite for name, stage in bundle.stages.items()} == {
        "find": "klue/ner",
        "judge": "klue/re",
    }
    assert bundle.precision == "fp32"
    assert len(bundle.parts) == 2


def test_it_has_no_graph_or_tokenizer_of_its_own(pipeline: Path) -> None:
    with pytest.raises(BundleError, match="its graphs are those of find, judge"):
        _ = Bundle(pipeline).graph
    with pytest.raises(BundleError, match="its tokenizers are those of find, judge"):
        _ = Bundle(pipeline).tokenizer


@pytest.mark.parametrize("field", ["graph", "tokenizer", "template"])
def test_a_manifest_that_says_both_is_refused(pipeline: Path, field: str) -> None:
    stage = json.loads((pipeline / "find" / FILE).read_text(encoding="utf-8"))
    change(pipeline, **{field: stage[field]})
    with pytest.raises(BundleError, match="leaves graph, tokenizer and template to its stages"):
        Bundle(pipeline)


def test_a_manifest_that_says_neither_is_refused(pipeline: Path) -> None:
    change(pipeline, stages=[])
    with pytest.raises(BundleError, match="graph and tokenizer, or else stages, are missing"):
        Bundle(pipeline)


@pytest.mark.parametrize("stage", ["../elsewhere", "/tmp", "find/../find", "."])
def test_a_stage_cannot_lie_outside_the_folder(pipeline: Path, stage: str) -> None:
    change(pipeline, stages=[stage])
    with pytest.raises(BundleError, match="a stage is a folder beside"):
        Bundle(pipeline)


def test_a_file_that_was_changed_in_a_stage_is_found(pipeline: Path) -> None:
    with (pipeline / "judge" / "model.onnx.data").open("ab") as file:
        file.write(b"x")
    with pytest.raises(BundleError, match=r"judge: model\.onnx\.data is not the file that was exported"):
        Bundle(pipeline).verify()


def test_a_folder_that_is_no_stage_is_strange(pipeline: Path) -> None:
    (pipeline / "more").mkdir()
    with pytest.raises(BundleError, match="more is not listed"):
        Bundle(pipeline).verify()


def test_an_asset_is_listed_or_not_there(pipeline: Path) -> None:
    assert Bundle(pipeline).asset("terms.tsv").read_text(encoding="utf-8").startswith("감기")
    with pytest.raises(BundleError, match=r"codes\.tsv is not listed under files"):
        Bundle(pipeline).asset("codes.tsv")


def test_a_family_of_one_graph_cannot_have_stages(pipeline: Path) -> None:
    change(pipeline, family="token-classification")
    with pytest.raises(BundleError, match="family token-classification cannot have stages"):
        open_bundle(Bundle(pipeline), "cpu")


def test_the_stages_are_those_that_the_family_needs(pipeline: Path) -> None:
    change(pipeline, decoder=suites.load("cblue/cmeie").decoder)
    with pytest.raises(BundleError, match=r"family triple-extraction has stages .*, the bundle \{'find': "):
        open_bundle(Bundle(pipeline), "cpu")
