"""What counts as a label, and when a lossy precision does not pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny import tiny_suite

from benchmarks.records import Record
from exporters.errors import ExportError
from exporters.gate import LABELS_EQUAL, SCORE_LOSS, Fidelity, compare, labels

SUITE = tiny_suite("klue/ynat")
FIRST, SECOND = SUITE.labels[:2]


@pytest.mark.parametrize(
    ("answer", "pieces"),
    [
        ({"label": "a", "score": 0.7, "labels": [], "value": None}, [("a",)]),
        ({"label": None, "labels": [{"label": "b", "score": 1.0}, {"label": "a", "score": 0.9}]}, [(None, "a", "b")]),
        ({"label": None, "value": 3.14159, "labels": []}, [3.1]),
        ({"label": "yes", "value": 3.14159, "labels": []}, [("yes",)]),
        ({"entities": [], "tags": ["O", "B-X"]}, [(0, "O"), (1, "B-X")]),
        ({"entities": [{"type": "X", "start": 1, "end": 2, "score": 0.5}], "tags": []}, [("X", "1", "2")]),
        ({"words": [{"index": 1, "head": 0, "relation": "r", "score": 0.5}]}, [("1", "0", "r")]),
        ({"answer": {"text": "b", "start": 1, "end": 2, "score": 0.9}, "null_score": 0.1}, [(1, 2)]),
        ({"answer": None, "null_score": 0.9}, [None]),
        ({"state": {"b": "2", "a": "1"}, "slots": []}, [("a", "1"), ("b", "2")]),
        ({"choice": 2, "score": 0.4}, [2]),
        ({"terms": [{"name": "n", "code": "c", "score": 0.4}]}, [(("n", "c"),)]),
        ({"blanks": [{"blank": "#", "passage": 0, "start": 3, "choice": 1, "scores": [0.1]}]}, [("#", "0", "3", "1")]),
    ],
)
def test_labels_are_what_an_answer_decides_without_its_scores(answer: dict[str, Any], pieces: list[Any]) -> None:
    assert labels(answer) == pieces


def found(equal: float = 100.0, **scores: tuple[float, float]) -> Fidelity:
    return Fidelity(1000, 1000, equal, equal, scores, 0.1)


def test_the_same_answers_pass() -> None:
    assert found(f1=(80.0, 80.0)).complaints == []


@pytest.mark.parametrize(("equal", "passes"), [(LABELS_EQUAL, True), (LABELS_EQUAL - 0.01, False)])
def test_so_many_labels_must_stay(equal: float, passes: bool) -> None:
    complaints = found(equal).complaints
    assert (complaints == []) == passes
    assert passes or complaints == ["99.49 % of 1000 labels stay, 99.5 % must"]


@pytest.mark.parametrize(("after", "passes"), [(80.0 - SCORE_LOSS, True), (79.49, False), (90.0, True)])
def test_no_score_may_fall_by_more_than_half_a_point(after: float, passes: bool) -> None:
    assert (found(f1=(80.0, after), em=(50.0, 50.0)).complaints == []) == passes


def answer(label: str) -> dict[str, Any]:
    return {"label": label, "score": 0.9, "scores": [], "labels": [], "value": None}


def outputs(*logits: float) -> list[dict[str, Any]]:
    return [{"logits": np.array([value, 1.0])} for value in logits]


RECORDS = [Record(str(i), {"text": "x"}, gold) for i, gold in enumerate((FIRST, FIRST, SECOND, SECOND))]


def test_labels_scores_and_logits_are_compared() -> None:
    before = [answer(label) for label in (FIRST, FIRST, SECOND, FIRST)]
    after = [answer(label) for label in (FIRST, SECOND, SECOND, FIRST)]
    pair = (before, outputs(1, 2, 3, 4)), (after, outputs(1, 2, 3.5, 4))
    got = compare(RECORDS, SUITE, *pair)
    assert (got.records, got.labels, got.labels_equal, got.records_equal) == (4, 4, 75.0, 75.0)
    assert got.logit_change == 0.5
    assert got.scores["macro_f1"][0] > got.scores["macro_f1"][1]
    assert got.as_dict()["scores"]["macro_f1"] == [round(score, 3) for score in got.scores["macro_f1"]]


def test_an_answer_without_pieces_is_one_decision() -> None:
    suite = tiny_suite("klue/ner")
    records = [Record(str(i), {"text": "ab"}, {"tags": ["O", "O"]}) for i in range(2)]
    nothing = {"entities": [], "tags": []}
    one = {"entities": [{"type": "X", "start": 0, "end": 1, "score": 1.0}], "tags": []}
    got = compare(records, suite.model_copy(update={"metrics": []}), ([nothing, one], []), ([nothing, nothing], []))
    assert (got.labels, got.labels_equal) == (2, 50.0)


def test_an_output_that_is_no_number_is_an_error() -> None:
    same = [answer(FIRST)] * 4
    with pytest.raises(ExportError, match="logits is not finite"):
        compare(RECORDS, SUITE, (same, outputs(1, 2, 3, 4)), (same, outputs(1, 2, float("nan"), 4)))


def test_values_that_stand_for_nothing_do_not_count_as_change() -> None:
    same = [answer(FIRST)] * 4
    got = compare(RECORDS, SUITE, (same, outputs(1, 2, 3, -1e9)), (same, outputs(1, 2, 3, -2e9)))
    assert got.logit_change == 0
