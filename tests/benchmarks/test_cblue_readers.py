"""CBLUE's files as they are published: what becomes of each record, and what a file is refused for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import suites
from benchmarks.readers import READERS
from benchmarks.records import ReaderError, Record

OFFICIAL = Path(__file__).parents[1] / "official" / "cblue"


def read(name: str, path: Path | None = None) -> list[Record]:
    suite = suites.load(f"cblue/{name}")
    return READERS[suite.reader](path or next(OFFICIAL.glob(f"{name}.json*")), suite)


def whole(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "golds", "first"),
    [
        ("chip-sts", ["1", "0", "1"], {"text": "血糖高可以吃葡萄吗", "text_pair": "糖尿病人能吃葡萄吗"}),
        ("kuake-qic", ["医疗费用", "病情诊断", "指标解读", "其他"], {"text": "拔一颗智齿要花多少钱"}),
        ("kuake-qtr", ["3", "1", "0"], {"text": "发烧能不能洗澡", "text_pair": "发烧的时候可以洗澡吗？"}),
        ("kuake-qqr", ["2", "1", "0"], {"text": "眼睛干涩怎么缓解", "text_pair": "怎么缓解眼睛干涩"}),
        (
            "chip-ctc",
            ["Age", "Pregnancy-related Activity", "Allergy Intolerance", "Consent"],
            {"text": " 1.年龄 18-70 岁，男女均可；"},
        ),
    ],
)
def test_classes_of_texts_and_pairs(name: str, golds: list[str], first: dict[str, str]) -> None:
    records = read(name)
    assert [record.gold for record in records] == golds
    assert records[0].item == first


def test_the_published_example_of_query_pairs_calls_them_otherwise(tmp_path: Path) -> None:
    path = whole(tmp_path / "dev.json", {"id": "s1", "query": "牙疼", "title": "牙痛", "label": "2"})
    assert read("kuake-qqr", path) == [Record("s1", {"text": "牙疼", "text_pair": "牙痛"}, "2")]


def test_only_query_pairs_know_the_other_name_of_the_first_class(tmp_path: Path) -> None:
    path = whole(tmp_path / "dev.json", {"id": "s1", "query": "牙疼", "title": "牙痛", "label": "NA"})
    with pytest.raises(ReaderError, match="record 0: expected one of the suite's labels, found 'NA'"):
        read("kuake-qtr", path)


def test_entities_have_exclusive_ends_and_may_nest() -> None:
    records = read("cmeee")
    assert records[0].gold == [[2, 4, "sym"], [7, 9, "bod"], [7, 13, "sym"], [16, 20, "dis"]]
    assert records[1].item == {"text": "头孢克肟 口服，一日两次。"}


def test_types_may_be_the_labels_themselves(tmp_path: Path) -> None:
    suite = suites.load("cblue/cmeee").model_copy(update={"labels": ["dis", "sym"]})
    entity = {"start_idx": 0, "end_idx": 1, "type": "sym"}
    path = whole(tmp_path / "dev.json", {"text": "咳嗽", "entities": [entity]})
    assert READERS["cblue/cmeee"](path, suite) == [Record("0", {"text": "咳嗽"}, [[0, 2, "sym"]])]
    with pytest.raises(ReaderError, match="record 0: expected one of the suite's entity types, found 'bod'"):
        READERS["cblue/cmeee"](whole(path, {"text": "咳嗽", "entities": [entity | {"type": "bod"}]}), suite)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"end_idx": 2}, "expected a span within 2 characters, found 0 to 2"),
        ({"start_idx": "0"}, "expected 'start_idx' to be int"),
        ({"start_idx": -1}, "expected a span within 2 characters"),
        ({"type": "B-sym"}, "expected one of the suite's entity types"),
    ],
)
def test_an_entity_that_is_not_in_the_text_is_refused(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    entity = {"start_idx": 0, "end_idx": 1, "type": "sym"} | change
    with pytest.raises(ReaderError, match=f"record 0: {complaint}"):
        read("cmeee", whole(tmp_path / "dev.json", {"text": "咳嗽", "entities": [entity]}))


def test_triples_are_strings() -> None:
    records = read("cmeie")
    assert records[0].gold == [["支气管哮喘", "临床表现", "喘息"], ["支气管哮喘", "药物治疗", "沙丁胺醇"]]
    assert [len(record.gold) for record in records] == [2, 2, 0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"object": "缺铁"}, "line 1: expected 'object' to be dict"),
        ({"predicate": "导致"}, "line 1: expected one of the suite's labels, found '导致'"),
        ({"object": {"value": "缺铁"}}, "line 1: expected an object with the key '@value'"),
    ],
)
def test_a_triple_of_another_form_is_refused(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    path = tmp_path / "dev.jsonl"
    spo = {"subject": "贫血", "predicate": "病因", "object": {"@value": "缺铁"}} | change
    path.write_text(json.dumps({"text": "贫血", "spo_list": [spo]}, ensure_ascii=False), encoding="utf-8")
    with pytest.raises(ReaderError, match=complaint):
        read("cmeie", path)


def test_terms_are_split() -> None:
    assert [record.gold for record in read("chip-cdn")] == [
        ["手指开放性损伤"],
        ["糖尿病", "高血压"],
        ["慢性胃炎", "胆囊息肉"],
    ]


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("kuake-qic", {"id": "s1", "query": "牙疼"}),
        ("kuake-qic", {"id": "s1", "query": "牙疼", "label": ""}),
        ("kuake-qqr", {"id": "s1", "query1": "牙疼", "query2": "牙痛"}),
        ("cmeee", {"text": "牙疼"}),
        ("cmeie", {"text": "牙疼"}),
        ("chip-cdn", {"text": "牙疼"}),
        ("chip-cdn", {"text": "牙疼", "normalized_result": ""}),
    ],
)
def test_a_test_file_has_no_golds(tmp_path: Path, name: str, record: dict[str, Any]) -> None:
    path = whole(tmp_path / "test.json", record)
    if name == "cmeie":
        path.write_text(json.dumps(record), encoding="utf-8")
    (found,) = read(name, path)
    assert found.gold is None
    assert found.item["text"] == "牙疼"
