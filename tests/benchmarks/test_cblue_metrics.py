"""CBLUE's metrics against values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

import suites
from benchmarks.metrics import METRICS
from benchmarks.records import Record

SUITE = suites.load("cblue/chip-sts")


def triple(subject: str, predicate: str, obj: str, start: int = 0) -> dict[str, Any]:
    return {
        "subject": {"text": subject, "start": start, "end": start + len(subject), "type": "one"},
        "predicate": predicate,
        "object": {"text": obj, "start": 9, "end": 9 + len(obj), "type": "two"},
        "score": 0.9,
    }


def test_triples_are_strings_that_count_once_a_record() -> None:
    records = [
        Record("0", {}, [["贫血", "病因", "缺铁"], ["贫血", "症状", "乏力"]]),
        Record("1", {}, [["贫血", "症状", "乏力"]]),
        Record("2", {}, []),
    ]
    given = [
        {
            "triples": [
                triple("贫血", "病因", "缺铁"),
                triple("贫血", "病因", "缺铁", 5),
                triple("贫血", "病因", "乏力"),
            ]
        },
        {},
        {"triples": [triple("乏力", "症状", "贫血")]},  # the other way round is another triple
    ]
    # 3 gold, 3 predicted, 1 right.
    assert METRICS["triple_micro_f1"](records, given, SUITE) == pytest.approx(100 * 2 / 6)


def test_terms_are_sets_of_names() -> None:
    records = [Record("0", {}, ["高血压", "糖尿病"]), Record("1", {}, ["慢性胃炎"]), Record("2", {}, ["裂伤"])]
    given = [
        {"terms": [{"name": "糖尿病", "code": "x"}, {"name": "高血压", "code": None}]},
        {"terms": [{"name": "胃炎"}, {"name": "慢性胃炎"}, {"name": "慢性胃炎"}]},
        {},
    ]
    # 4 gold, 4 predicted, 3 right.
    assert METRICS["term_micro_f1"](records, given, SUITE) == pytest.approx(100 * 6 / 8)


def test_nothing_right_is_a_score_of_nothing() -> None:
    assert METRICS["term_micro_f1"]([Record("0", {}, ["裂伤"])], [{"terms": []}], SUITE) == 0
    assert METRICS["triple_micro_f1"]([Record("0", {}, [])], [{"triples": []}], SUITE) == 0


def test_similarity_is_averaged_over_both_classes() -> None:
    records = [Record(str(i), {}, gold) for i, gold in enumerate("1110")]
    given = [{"label": label} for label in "1100"]
    # "1": 2 right of 3 gold, 2 predicted: 4/5. "0": 1 right of 1 gold, 2 predicted: 2/3.
    assert METRICS["macro_f1"](records, given, SUITE) == pytest.approx(100 * (4 / 5 + 2 / 3) / 2)


def test_criteria_are_averaged_over_the_classes_that_occur() -> None:
    suite = suites.load("cblue/chip-ctc")
    first, second, third = suite.labels[:3]
    records = [Record(str(i), {}, gold) for i, gold in enumerate([first, first, second])]
    given = [{"label": first}, {"label": third}, {"label": second}]
    # first: 2/3, second: 1, third was predicted and never right: 0. The other 41 classes do not count.
    assert METRICS["macro_f1"](records, given, suite) == pytest.approx(100 * (2 / 3 + 1 + 0) / 3)


def test_entities_within_each_other_count_on_their_own() -> None:
    record = Record("0", {"text": "双肺呼吸音粗"}, [[0, 2, "bod"], [0, 6, "sym"]])
    flat = {"entities": [{"type": "sym", "start": 0, "end": 6}]}
    wrong = {"entities": [{"type": "bod", "start": 0, "end": 6}, {"type": "bod", "start": 0, "end": 3}]}
    suite = suites.load("cblue/cmeee")
    assert METRICS["entity_micro_f1"]([record], [flat], suite) == pytest.approx(100 * 2 / 3)
    assert METRICS["entity_micro_f1"]([record], [wrong], suite) == 0
