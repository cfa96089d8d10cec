"""CBLUE's prediction files: the test file's own records with the predicted field, and what would be refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import suites
from benchmarks.readers import READERS
from benchmarks.records import ReaderError, Record
from benchmarks.submissions import CHECKS, SUBMISSIONS
from benchmarks.submissions.answered import Unanswered

OFFICIAL = Path(__file__).parents[1] / "official" / "cblue"
FIELDS = {"cmeee": "entities", "cmeie": "spo_list", "chip-cdn": "normalized_result"}


def entities(record: Record) -> dict[str, Any]:
    text = record.item["text"]
    return {"entities": [{"type": t, "start": s, "end": e, "text": text[s:e]} for s, e, t in record.gold]}


def triples(record: Record) -> dict[str, Any]:
    return {
        "triples": [
            {"subject": {"text": s, "type": "疾病"}, "predicate": p, "object": {"text": o, "type": "其他"}}
            for s, p, o in record.gold
        ]
    }


GOLDEN: dict[str, Callable[[Record], dict[str, Any]]] = {
    "cmeee": entities,
    "cmeie": triples,
    "chip-cdn": lambda r: {"terms": [{"name": name} for name in r.gold]},
}


def load(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def save(path: Path, records: list[dict[str, Any]]) -> Path:
    made = [json.dumps(record, ensure_ascii=False) for record in records]
    path.write_text("\n".join(made) if path.suffix == ".jsonl" else f"[{','.join(made)}]", encoding="utf-8")
    return path


def written(name: str, folder: Path, **changes: dict[str, Any]) -> Path:
    """Predictions that are the gold answers, of the official file without them; `changes` are by place in the file."""
    suite = suites.load(f"cblue/{name}")
    official = next(OFFICIAL.glob(f"{name}.json*"))
    (folder / "data").mkdir()
    bare = [{k: v for k, v in r.items() if k != FIELDS.get(name, "label")} for r in load(official)]
    source = save(folder / "data" / official.name, bare)
    golden = GOLDEN.get(name, lambda r: {"label": r.gold})
    labelled = READERS[suite.reader](official, suite)
    answers = [changes.get(f"record_{i}", golden(record)) for i, record in enumerate(labelled)]
    return SUBMISSIONS[suite.reader](READERS[suite.reader](source, suite), answers, suite, source, folder)


def check(name: str, path: Path) -> None:
    suite = suites.load(f"cblue/{name}")
    CHECKS[suite.reader](path, suite, next((path.parent / "data").iterdir()))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("cmeee", "CMeEE_test.json"),
        ("cmeie", "CMeIE_test.jsonl"),
        ("chip-cdn", "CHIP-CDN_test.json"),
        ("chip-ctc", "CHIP-CTC_test.json"),
        ("chip-sts", "CHIP-STS_test.json"),
        ("kuake-qic", "KUAKE-QIC_test.json"),
        ("kuake-qtr", "KUAKE-QTR_test.json"),
        ("kuake-qqr", "KUAKE-QQR_test.json"),
    ],
)
def test_right_answers_give_back_the_labelled_file(name: str, file: str, tmp_path: Path) -> None:
    path = written(name, tmp_path)
    assert path == tmp_path / file
    labelled = load(next(OFFICIAL.glob(f"{name}.json*")))
    if name == "kuake-qqr":  # whose third record has the other name of the first class
        labelled[2]["label"] = "0"
    if name == "cmeie":  # the answers above do not tell types of objects
        for record in labelled:
            for spo in record["spo_list"]:
                spo["object_type"] = {"@value": "其他"}
    if name == "cmeee":
        for record in labelled:
            record["entities"].sort(key=lambda e: (e["start_idx"], e["end_idx"]))
    assert load(path) == labelled


def test_a_triple_across_sentences_is_combined(tmp_path: Path) -> None:
    first = load(written("cmeie", tmp_path))[0]["spo_list"]
    assert [(spo["object"]["@value"], spo["Combined"]) for spo in first] == [("喘息", False), ("沙丁胺醇", True)]


def test_what_was_refused_has_no_entities_and_is_its_own_term(tmp_path: Path) -> None:
    assert load(written("chip-cdn", tmp_path, record_1={}))[1]["normalized_result"] == "糖尿病伴高血压"
    (tmp_path / "other").mkdir()
    assert load(written("cmeee", tmp_path / "other", record_0={}))[0]["entities"] == []


def test_a_class_that_was_refused_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unanswered, match="record s2 was refused by the server"):
        written("kuake-qic", tmp_path, record_1={})
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("chip-sts", {"label": 1}, "record 1: expected 'label' to be str, found 1"),
        ("chip-sts", {"label": "2"}, "record 1: expected one of the suite's labels, found '2'"),
        ("chip-sts", {"label": ""}, "record 2: expected a prediction in 'label'"),
        ("kuake-qqr", {"label": "NA"}, "record s2: expected one of the suite's labels, found 'NA'"),
        ("kuake-qic", {"id": "s9"}, "expected a record with the id 's2'"),
        ("kuake-qic", {"id": "s1"}, "expected a record with the id 's2'"),
        ("cmeee", {"entities": [{"start_idx": 0, "end_idx": 99, "type": "dru"}]}, "expected a span within 13"),
        ("cmeee", {"entities": [{"start_idx": 0, "end_idx": 3}]}, "record 1: expected an object with the key 'type'"),
        ("cmeee", {"text": "别的"}, "expected a span within 2"),
        ("chip-cdn", {"normalized_result": ["糖尿病"]}, "record 1: expected 'normalized_result' to be str"),
        ("chip-cdn", {"text": "糖尿病"}, "expected a record with the text '糖尿病伴高血压'"),
        ("cmeie", {"spo_list": [{"subject": "贫血", "predicate": "病因"}]}, "line 2: .*the key 'object'"),
        (
            "cmeie",
            {"spo_list": [{"subject": "甲", "predicate": "乙", "object": {"@value": "丙"}}]},
            "line 2: .*found '乙'",
        ),
    ],
)
def test_a_record_that_would_be_refused_is_named(
    name: str, change: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    path = written(name, tmp_path)
    check(name, path)
    records = load(path)
    records[1] |= change
    with pytest.raises(ReaderError, match=complaint):
        check(name, save(path, records))


def test_order_is_free_but_every_record_is_wanted_once(tmp_path: Path) -> None:
    path = written("kuake-qtr", tmp_path)
    records = load(path)
    check("kuake-qtr", save(path, records[::-1]))
    with pytest.raises(ReaderError, match="expected a record with the id 's3'"):
        check("kuake-qtr", save(path, records[:2]))
    with pytest.raises(ReaderError, match="expected no record with the id 's1', or one less"):
        check("kuake-qtr", save(path, [*records, records[0]]))
    with pytest.raises(ReaderError, match=r"expected the name KUAKE-QTR_test\.json"):
        check("kuake-qtr", path.rename(tmp_path / "qtr.json"))
