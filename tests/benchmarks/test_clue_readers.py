"""CLUE's files as they are published: what becomes of each record, and what a file is refused for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import suites
from benchmarks.readers import READERS
from benchmarks.records import ReaderError, Record

OFFICIAL = Path(__file__).parents[1] / "official" / "clue"


def read(name: str, path: Path | None = None) -> list[Record]:
    suite = suites.load(f"clue/{name}")
    return READERS[suite.reader](path or OFFICIAL / f"{name}.json", suite)


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def whole(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "golds", "first"),
    [
        ("afqmc", ["1", "0", "1", "0"], {"text": "花呗这个月能晚两天还吗", "text_pair": "花呗账单可以推迟两天还吗"}),
        ("tnews", ["103", "107", "115", "100"], {"text": "主场逆转取胜，球队时隔三年再进半决赛"}),
        ("iflytek", ["0", "98", "118"], {"text": "输入目的地，附近的司机马上接单，车费一目了然，夜里出行也放心。"}),
        ("diagnostics", [None, None, None], {"text": "没有一家商店开门。", "text_pair": "有的商店开着门。"}),
    ],
)
def test_sentences_and_pairs(name: str, golds: list[str | None], first: dict[str, str]) -> None:
    records = read(name)
    assert [record.gold for record in records] == golds
    assert records[0].item == first


@pytest.mark.parametrize(("name", "kept"), [("cmnli", ["0", "1", "2", "4"]), ("ocnli", ["0", "1", "3"])])
def test_pairs_without_a_majority_are_dropped_and_move_no_other(name: str, kept: list[str]) -> None:
    records = read(name)
    assert [record.id for record in records] == kept
    assert {record.gold for record in records} == {"entailment", "contradiction", "neutral"}


def test_elsewhere_a_missing_majority_is_no_label(tmp_path: Path) -> None:
    path = lines(tmp_path / "dev.json", {"sentence1": "一", "sentence2": "二", "label": "-"})
    with pytest.raises(ReaderError, match=r"dev\.json: line 1: expected one of the suite's labels, found '-'"):
        read("afqmc", path)


def test_keywords_come_first_and_are_joined_by_spaces() -> None:
    records = read("csl")
    assert records[0].item["text"] == "水泵 转速控制 节能"
    assert records[0].item["text_pair"].startswith("为了降低水泵的能耗")
    assert [record.gold for record in records] == ["1", "0", "1"]


def test_spans_of_noun_and_pronoun_are_code_points() -> None:
    records = read("wsc2020")
    marked = [
        tuple(
            record.item["text"][span["start"] : span["end"]] for span in (record.item["subject"], record.item["object"])
        )
        for record in records
    ]
    assert marked == [("爷爷", "他"), ("邻居", "他"), ("姐姐", "她"), ("这张桌子", "它")]
    assert records[2].item["object"] == {"start": 13, "end": 14}  # not the pronoun that begins the text
    assert [record.gold for record in records] == ["true", "false", "false", "true"]


def test_an_index_counts_an_astral_character_once(tmp_path: Path) -> None:
    target = {"span1_text": "小狗", "span1_index": 1, "span2_text": "它", "span2_index": 5}
    path = lines(tmp_path / "test1.1.json", {"target": target, "text": "😀小狗叫，它饿了", "id": 0})
    (record,) = read("wsc2020", path)
    assert record.item["subject"] == {"start": 1, "end": 3}
    assert record.gold is None


def test_entities_have_exclusive_ends_and_may_repeat() -> None:
    golds = [record.gold for record in read("cluener")]
    assert golds[0] == [[0, 3, "name"], [6, 11, "company"], [11, 13, "position"], [18, 21, "address"]]
    assert golds[1] == [[0, 5, "book"], [11, 16, "book"]]
    assert golds[2] == []


@pytest.mark.parametrize(
    ("label", "complaint"),
    [
        ({"name": {"小梅": [[0, 1]]}}, "expected '小梅' at 0, found '李小'"),
        ({"goverment": {"李小梅": [[0, 2]]}}, "expected one of the suite's entity types, found 'goverment'"),
        ({"name": {"李小梅": [[0, 9]]}}, "expected a span within 6 characters, found 0 to 9"),
        ({"name": {"李小梅": [0, 2]}}, r"expected \[start, last\] for '李小梅', found 0"),
        ({"name": ["李小梅"]}, "expected 'name' to be dict"),
    ],
)
def test_an_entity_that_is_not_in_the_text_is_refused(tmp_path: Path, label: dict[str, Any], complaint: str) -> None:
    path = lines(tmp_path / "dev.json", {"text": "今天", "label": {}}, {"text": "李小梅辞职了", "label": label})
    with pytest.raises(ReaderError, match=rf"line 2: {complaint}"):
        read("cluener", path)


@pytest.mark.parametrize("label", [{}, {"label": ""}, {"label": None}])
def test_a_test_file_has_no_golds(tmp_path: Path, label: dict[str, Any]) -> None:
    path = lines(tmp_path / "test.json", {"id": 0, "sentence": "明天降温", **label})
    assert read("tnews", path) == [Record("0", {"text": "明天降温"}, None)]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"sentence": "明天降温", "label": "105"}, "expected one of the suite's labels, found '105'"),
        ({"sentence": "明天降温", "label": 102}, "expected 'label' to be str"),
        ({"title": "明天降温", "label": "102"}, "expected an object with the key 'sentence'"),
        ([], "expected an object with the key 'sentence'"),
    ],
)
def test_a_line_that_breaks_the_format_is_named(tmp_path: Path, row: Any, complaint: str) -> None:
    with pytest.raises(ReaderError, match=rf"dev\.json: line 1: {complaint}"):
        read("tnews", lines(tmp_path / "dev.json", row))


def test_every_answer_of_a_question_counts_wherever_it_claims_to_be() -> None:
    records = read("cmrc2018")
    assert [record.id for record in records] == ["DEV_0_QUERY_0", "DEV_0_QUERY_1", "DEV_1_QUERY_0"]
    assert records[1].gold == ["《兰江县志》", "兰江县志", "最早见于《兰江县志》"]  # the last one stands at -1
    assert records[0].item["question"] == "青石镇有多少居民？"
    assert [record.gold for record in read("drcd")] == [["1997年"], ["約12公里"], ["臺東縣"]]


@pytest.mark.parametrize("answers", [[], [{"text": "A1", "answer_start": -1}, {"text": "A2", "answer_start": -1}]])
def test_placeholders_of_a_test_file_are_no_golds(tmp_path: Path, answers: list[dict[str, Any]]) -> None:
    qas = [
        {"id": "TEST_0_QUERY_0", "question": "谁？", "answers": answers},
        {"id": "TEST_0_QUERY_1", "question": "几？"},
    ]
    data = {"data": [{"paragraphs": [{"context": "三人同行。", "qas": qas}]}]}
    assert [record.gold for record in read("cmrc2018", whole(tmp_path / "test.json", data))] == [None, None]


def test_a_record_of_idioms_is_one_item_with_all_its_blanks() -> None:
    records = read("chid")
    assert [record.gold for record in records] == [
        {"#idiom000101#": 4, "#idiom000102#": 5},
        {"#idiom000103#": 6, "#idiom000104#": 8},
        {"#idiom000105#": 3, "#idiom000106#": 1},
    ]
    assert [len(record.item["passages"]) for record in records] == [2, 1, 1]
    assert all(len(record.item["candidates"]) == 10 for record in records)


def test_idioms_without_an_answer_file_have_no_golds(tmp_path: Path) -> None:
    path = tmp_path / "test1.1.json"
    path.write_text("{'content': ['雨后#idiom000001#'], 'candidates': ['春意盎然', '风和日丽']}\n", encoding="utf-8")
    assert [record.gold for record in read("chid", path)] == [None]
    whole(tmp_path / "test1.1_answer.json", {"#idiom000001#": 1})
    assert [record.gold for record in read("chid", path)] == [{"#idiom000001#": 1}]
    whole(tmp_path / "test1.1_answer.json", {"#idiom000001#": 2})
    with pytest.raises(ReaderError, match=r"test1\.1_answer\.json: line 1: expected #idiom000001# to be the index"):
        read("chid", path)
    whole(tmp_path / "test1.1_answer.json", {})
    with pytest.raises(ReaderError, match="expected an object with the key '#idiom000001#'"):
        read("chid", path)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{'content': open('x')}", "expected JSON or a Python literal"),
        ("{'content': ['无空'], 'candidates': ['一', '二']}", "expected a blank"),
        ("{'content': [1], 'candidates': []}", "expected passages and candidates to be texts"),
    ],
)
def test_a_line_of_idioms_is_data_and_nothing_else(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "dev.json"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(ReaderError, match=f"line 1: {complaint}"):
        read("chid", path)


def test_choices_are_a_record_a_question() -> None:
    records = read("c3")
    assert [record.gold for record in records] == [1, 0, 1, 0]
    assert [len(record.item["choices"]) for record in records] == [4, 3, 2, 2]
    assert records[0].item["context"] == "女：外面雨停了吗？\n男：还没有，不过小多了，你带把伞吧。"
    assert "VIP室" in records[1].item["context"]  # case is the suite's business


def test_of_equal_choices_the_last_is_the_answer_and_a_test_file_has_none(tmp_path: Path) -> None:
    questions = [
        {"question": "几点？", "choice": ["两点", "三点", "两点"], "answer": "两点", "id": 7},
        {"question": "哪天？", "choice": ["周一", "周二"], "id": 8},
    ]
    path = whole(tmp_path / "test1.1.json", [[["两点见。"], questions, "0-1"]])
    assert [(record.id, record.gold) for record in read("c3", path)] == [("7", 2), ("8", None)]
    questions[1]["answer"] = "周三"
    with pytest.raises(ReaderError, match="entry 0: expected the answer among the choices, found '周三'"):
        read("c3", whole(path, [[["两点见。"], questions, "0-1"]]))


@pytest.mark.parametrize("data", [{}, [["一行", []]], [[["一行"]]], [[[1], [], "x"]]])
def test_a_file_of_choices_of_another_shape_is_refused(tmp_path: Path, data: Any) -> None:
    with pytest.raises(ReaderError, match="expected"):
        read("c3", whole(tmp_path / "d-dev.json", data))
