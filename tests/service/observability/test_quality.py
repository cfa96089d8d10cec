"""What is counted of an answer: its labels, which are the bundle's own, and one score."""

from __future__ import annotations

from typing import Any

import pytest

from service.observability.quality import Glance, reader
from service.tasks import FAMILIES

LABELLED = {
    "token-classification",
    "span-classification",
    "triple-extraction",
    "dependency-parsing",
    "dialogue-state",
    "text-classification",
    "pair-classification",
    "span-pair-classification",
    "document-classification",
    "question-answering",
}
UNLABELLED = {"multiple-choice", "cloze", "term-normalization"}


def glance(family: str, **answer: Any) -> Glance:
    labels, score = reader(FAMILIES[family].Output)(answer)
    return dict(labels), score


def classes(**fields: Any) -> dict[str, Any]:
    return {"label": None, "score": None, "scores": [], "labels": [], "value": None} | fields


def test_it_is_decided_for_every_family_whether_its_answers_have_labels() -> None:
    assert set(FAMILIES) == LABELLED | UNLABELLED


def test_one_of_many_counts_its_label_and_its_score() -> None:
    assert glance("text-classification", **classes(label="a", score=0.9)) == ({"a": 1}, 0.9)


def test_several_of_many_count_each_label_and_their_mean_score() -> None:
    labels = [{"label": "a", "score": 0.75}, {"label": "b", "score": 0.25}]
    assert glance("document-classification", **classes(labels=labels)) == ({"a": 1, "b": 1}, 0.5)
    assert glance("document-classification", **classes()) == ({}, None)


def test_a_number_has_no_score_and_the_label_of_its_side() -> None:
    assert glance("pair-classification", **classes(value=3.5, label="a")) == ({"a": 1}, None)
    assert glance("pair-classification", **classes(value=3.5)) == ({}, None)


@pytest.mark.parametrize(
    ("family", "field", "key"),
    [
        ("token-classification", "entities", "type"),
        ("span-classification", "entities", "type"),
        ("triple-extraction", "triples", "predicate"),
        ("dependency-parsing", "words", "relation"),
        ("dialogue-state", "slots", "slot"),
    ],
)
def test_findings_count_by_label_and_score_as_their_mean(family: str, field: str, key: str) -> None:
    found = [{key: "x", "score": 1.0}, {key: "y", "score": 0.5}, {key: "x", "score": 0.0}]
    assert glance(family, **{field: found}) == ({"x": 2, "y": 1}, 0.5)
    assert glance(family, **{field: []}) == ({}, None)


def test_a_reading_model_labels_whether_there_is_an_answer() -> None:
    span = {"text": "t", "start": 0, "end": 1, "score": 0.8}
    assert glance("question-answering", answer=span, null_score=0.1, answers=[span]) == ({"answer": 1}, 0.8)
    assert glance("question-answering", answer=None, null_score=0.7, answers=[span]) == ({"null": 1}, 0.7)


def test_choices_are_numbers_of_the_request_and_so_no_labels() -> None:
    assert glance("multiple-choice", choice=1, text="t", score=0.6, scores=[]) == ({}, 0.6)
    blanks = [{"choice": 1, "scores": [0.2, 0.8]}, {"choice": 0, "scores": [0.4, 0.6]}]
    assert glance("cloze", blanks=blanks) == ({}, pytest.approx(0.6))
    assert glance("cloze", blanks=[]) == ({}, None)


def test_standard_terms_are_too_many_for_labels() -> None:
    terms = [{"name": "n", "code": "c", "score": 0.5}, {"name": "the text itself", "code": None, "score": None}]
    assert glance("term-normalization", terms=terms) == ({}, 0.5)
