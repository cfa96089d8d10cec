"""CLUE's metrics against values worked out by hand, the oddities of the official scripts included."""

from __future__ import annotations

from typing import Any

import pytest

import suites
from benchmarks.metrics import METRICS
from benchmarks.metrics.cmrc import segments
from benchmarks.records import Record

CMRC = suites.load("clue/cmrc2018")


def answers(*texts: str | None) -> list[dict[str, Any]]:
    return [{"answer": None if text is None else {"text": text}} for text in texts]


def score(metric: str, predicted: str | None, *golds: str) -> float:
    return METRICS[metric]([Record("q", {}, list(golds))], answers(predicted), CMRC)


@pytest.mark.parametrize(
    ("predicted", "gold", "exact"),
    [
        ("约8600人。", "约8600人", True),
        (" MP3播放器 ", "mp3播放器", True),
        ("《兰江县志》", "兰江县志", True),
        ("（1910年）", "1910年", True),
        ("1937-1945", "19371945", True),  # the hyphen is on the list
        ("(1910年)", "1910年", False),  # the narrow brackets are not
        ("3.5公里", "35公里", False),  # nor is the full stop
        ("old bridge", "oldbridge", False),  # nor are spaces
        ("真好……", "真好", False),  # one ellipsis is a character, the list has two in a row
        ("‘好’", "‘好", True),  # of single quotation marks only the closing one is on the list
        ("《》", "", True),
        (None, "1985年", False),
    ],
)
def test_exact_match_drops_case_and_listed_punctuation_only(predicted: str | None, gold: str, exact: bool) -> None:
    assert score("cmrc_em", predicted, gold) == 100 * exact


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("他在1985年退休。", ["他", "在", "1985", "年", "退", "休"]),
        ("The Old Bridge桥", ["the", "old", "bridge", "桥"]),
        ("增长78.1%", ["增", "长", "78.1", "%"]),
        ("Rock-n-Roll乐", ["rocknroll", "乐"]),  # what stood around a listed character grows together
        ("(NBA)杯", ["(", "nba", ")", "杯"]),
        ("it's 3,000 m.", ["it", "'s", "3,000", "m", "."]),
        ("啊…", ["啊", "…"]),
        ("𠮷野家", ["𠮷", "野", "家"]),
        ("，。！", []),
        ("", []),
    ],
)
def test_segments_are_chinese_characters_and_words(text: str, expected: list[str]) -> None:
    assert segments(text) == expected


@pytest.mark.parametrize(
    ("predicted", "gold", "f1"),
    [
        ("陆明远在1985年退休", "1985年", 2 * 2 / (8 + 2)),
        ("三个村合并", "三村合并", 2 * 3 / (5 + 4)),
        ("甲乙丙", "甲丁丙", 2 * 1 / (3 + 3)),  # the run is contiguous: not 2 of 3
        ("the old bridge", "Old Bridge", 2 * 2 / (3 + 2)),
        ("78.1%", "78.1", 2 * 1 / (2 + 1)),
        ("约8600人。", "约8600人", 1),
        ("兰江", "青石", 0),
        ("《》", "", 0),  # nothing in common, although the match is exact
        (None, "1985年", 0),
    ],
)
def test_f1_is_that_of_the_longest_common_run(predicted: str | None, gold: str, f1: float) -> None:
    assert score("cmrc_f1", predicted, gold) == pytest.approx(100 * f1)


def test_the_best_gold_counts_and_records_are_averaged() -> None:
    records = [Record("1", {}, ["现有居民约8600人", "8600人"]), Record("2", {}, ["1985年"]), Record("3", {}, ["福州"])]
    given = [*answers("8600人", "1985"), {}]  # the third was refused
    assert METRICS["cmrc_em"](records, given, CMRC) == pytest.approx(100 / 3)
    assert METRICS["cmrc_f1"](records, given, CMRC) == pytest.approx(100 * (1 + 2 / 3 + 0) / 3)


def test_cluener_counts_surfaces_by_type() -> None:
    suite = suites.load("clue/cluener")
    records = [
        Record("0", {"text": "小梅见小梅"}, [[0, 2, "name"], [3, 5, "name"]]),
        Record("1", {"text": "临江市体育馆"}, [[0, 3, "address"]]),
        Record("2", {"text": "小梅走了"}, [[0, 2, "name"]]),
    ]
    given = [
        {"entities": [{"type": "name", "start": 3, "end": 5, "text": "小梅"}]},
        {"entities": [{"type": "address", "start": 0, "end": 6, "text": "临江市体育馆"}]},
        {},
    ]
    # name: 1 of 2 surfaces found, nothing wrong, 2/3. address: nothing right. Other types do not occur.
    assert METRICS["entity_type_macro_f1"](records, given, suite) == pytest.approx(100 * (2 / 3 + 0) / 2)
    # By place: 4 gold, 2 predicted, 1 right.
    assert METRICS["entity_micro_f1"](records, given, suite) == pytest.approx(100 * 2 / 6)


def test_idioms_are_counted_by_blank() -> None:
    suite = suites.load("clue/chid")
    golds = [{"#idiom000001#": 3, "#idiom000002#": 0}, {"#idiom000003#": 1, "#idiom000004#": 2, "#idiom000005#": 9}]
    records = [Record(str(i), {}, gold) for i, gold in enumerate(golds)]
    blanks = [
        [{"blank": "#idiom000001#", "choice": 3}, {"blank": "#idiom000002#", "choice": 4}],
        [{"blank": blank, "choice": choice} for blank, choice in golds[1].items()],
    ]
    given: list[dict[str, Any]] = [{"blanks": found} for found in blanks]
    assert METRICS["chid_accuracy"](records, given, suite) == pytest.approx(80)  # of records it would be 50
    assert METRICS["chid_accuracy"](records, [{}, given[1]], suite) == pytest.approx(60)


def test_the_accuracy_of_choices() -> None:
    records = [Record(str(i), {}, gold) for i, gold in enumerate([0, 1, 0, 3])]
    given: list[dict[str, Any]] = [{"choice": 0}, {"choice": 1}, {"choice": 1}, {}]
    assert METRICS["accuracy"](records, given, suites.load("clue/c3")) == pytest.approx(50)
