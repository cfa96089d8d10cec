"""The loader: includes, paths, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import suites

OWN = """
name: mine
title: A suite of one's own
language: en
family: text-classification
labels: [no, yes]
template: "{text}"
max_length: 16
truncation: right
decoder: {output: softmax}
metrics: [accuracy]
examples: [{text: hello}]
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_path_may_have_any_name(tmp_path: Path) -> None:
    path = _file(tmp_path, OWN.replace("[no, yes]", '["no", "yes"]'))
    assert suites.load(path) == suites.load(str(path))
    assert suites.load(path).name == "mine"


def test_include_keeps_the_rest_and_replaces_whole_keys(tmp_path: Path) -> None:
    base = suites.load("klue/mrc")
    path = _file(tmp_path, "include: klue/mrc\nname: mine\nmax_length: 256\ndecoder: {n_best: 5, null_threshold: null}")
    suite = suites.load(path)
    assert (suite.name, suite.max_length) == ("mine", 256)
    assert suite.decoder == {"n_best": 5, "null_threshold": None}
    assert (suite.template, suite.metrics, suite.examples) == (base.template, base.metrics, base.examples)


def test_packaged_suite_may_include_another() -> None:
    base, suite = suites.load("clue/cmnli"), suites.load("clue/diagnostics")
    assert suite.labels == base.labels
    assert suite.name == "clue/diagnostics"
    assert suite.published == []


@pytest.mark.parametrize("ref", ["klue/nerr", "klue/NER", "kluener"])
def test_unknown_name_suggests_close_ones(ref: str) -> None:
    with pytest.raises(suites.UnknownSuite, match=r"^unknown suite .*did you mean .*klue/ner"):
        suites.load(ref)


def test_unknown_name_without_a_close_one(tmp_path: Path) -> None:
    with pytest.raises(KeyError) as caught:
        suites.load(_file(tmp_path, "include: qqqqqqqqq"))
    assert str(caught.value) == "unknown suite 'qqqqqqqqq'"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("colour: red", "colour"),
        ("max_length: 0", "max_length"),
        ("template: ''", "template and max_length are missing"),
        ("max_length: null", "template and max_length are missing"),
        ("head: {size: 3}", "head has no type"),
        ("stages: {first: klue/ner}", "a pipeline leaves head and template to its stages"),
        ("normalization: {form: nfd}", "normalization"),
        ("normalization: {replace: {ab: c}}", "normalization"),
        ("labels: [a, b, a]", "labels repeat"),
        ("labels: [LABEL_0, LABEL_1]", "placeholders"),
        ("labels: [0, 1]", "labels"),
        ("labels: [yes, no]", "labels"),
    ],
)
def test_refuses_and_names_the_file(tmp_path: Path, change: str, complaint: str) -> None:
    path = _file(tmp_path, f"include: klue/ynat\n{change}\n")
    with pytest.raises(suites.InvalidSuite, match=complaint) as caught:
        suites.load(path)
    assert str(path) in str(caught.value)


def test_stages_are_suites_of_their_own(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        OWN.replace("[no, yes]", "[]").replace('template: "{text}"\nmax_length: 16\n', "")
        + "stages: {find: klue/ner, judge: klue/re}",
    )
    suite = suites.load(path)
    assert list(suite.stages) == ["find", "judge"]
    assert suite.stages["judge"] == suites.load("klue/re")


def test_a_stage_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(suites.UnknownSuite, match="klue/nerr"):
        suites.load(_file(tmp_path, "include: cblue/cmeie\nstages: {find: klue/nerr}"))


def test_refuses_a_file_that_is_no_mapping(tmp_path: Path) -> None:
    with pytest.raises(suites.InvalidSuite, match="not a mapping"):
        suites.load(_file(tmp_path, "- klue/ner\n"))


def test_packaged_name_must_equal_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    _file(tmp_path, OWN.replace("[no, yes]", "[a, b]"))
    with pytest.raises(suites.InvalidSuite, match="'mine'"):
        suites.load("own")


def test_default_normalization_composes_only() -> None:
    assert suites.load("klue/ynat").normalization == suites.Normalization(form="nfc", lowercase=False, replace={})
