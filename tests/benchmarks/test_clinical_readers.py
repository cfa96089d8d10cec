"""Lines of clinical notes: what is to be foreseen may be a class, several, or a value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import suites
from benchmarks.readers import READERS
from benchmarks.records import ReaderError, Record

SUITE = suites.load("clinical-clue/mortality").model_copy(update={"labels": ["mild", "severe"]})
NOTES = [{"time": "2150-03-01T08:00:00", "text": "Admitted overnight."}, {"text": "Creatinine rising."}]
OUTPUTS: dict[str, dict[str, Any]] = {
    "class": {"output": "softmax"},
    "stage": {"output": "ordinal"},
    "bin": {"output": "ordinal", "class_values": {"mild": 0.5, "severe": 9}},
    "classes": {"output": "sigmoid"},
    "number": {"output": "regression", "score_range": [0, 99]},
}
OFFICIAL = Path(__file__).parents[1] / "official" / "clinical-clue"


def read(path: Path, output: str, *rows: Any) -> list[Record]:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    suite = SUITE.model_copy(update={"decoder": OUTPUTS[output]})
    return READERS["clinical-clue/mortality"](path, suite)


@pytest.mark.parametrize(
    ("output", "answer", "gold"),
    [
        ("class", {"label": "severe"}, "severe"),
        ("stage", {"label": "mild"}, "mild"),
        ("bin", {"label": "mild", "value": 0.7}, {"label": "mild", "value": 0.7}),
        ("classes", {"labels": ["severe", "mild"]}, ["severe", "mild"]),
        ("classes", {"labels": []}, []),
        ("number", {"value": 36}, 36.0),
        ("number", {}, None),
    ],
)
def test_gold_answers(tmp_path: Path, output: str, answer: dict[str, Any], gold: Any) -> None:
    (record,) = read(tmp_path / "dev.jsonl", output, {"id": 17, "notes": NOTES, **answer})
    assert record == Record("17", {"notes": NOTES}, gold)


@pytest.mark.parametrize(
    ("output", "answer", "complaint"),
    [
        ("class", {"labels": ["mild"]}, "expected the gold answer in label, not labels"),
        ("bin", {"value": 36}, "expected the gold answer in label and value, not value"),
        ("stage", {"label": "mild", "value": 1}, "expected the gold answer in label, not label and value"),
        ("class", {"label": "fatal"}, "expected one of the suite's labels, found 'fatal'"),
        ("classes", {"labels": ["mild", "fatal"]}, "expected one of the suite's labels, found 'fatal'"),
        ("number", {"value": "long"}, "expected 'value' to be int or float"),
    ],
)
def test_a_gold_answer_of_another_kind_is_refused(
    tmp_path: Path, output: str, answer: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ReaderError, match=rf"dev\.jsonl: line 1: {complaint}"):
        read(tmp_path / "dev.jsonl", output, {"id": "a", "notes": NOTES, **answer})


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"id": "a", "notes": []}, "expected at least one note"),
        ({"id": "a", "notes": [{"time": "2150-03-01"}]}, "expected an object with the key 'text'"),
        ({"id": "a", "notes": [{"text": "x", "time": 3}]}, "expected 'time' to be str"),
        ({"notes": NOTES}, "expected an object with the key 'id'"),
    ],
)
def test_a_line_that_breaks_the_format_is_named(tmp_path: Path, row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ReaderError, match=rf"dev\.jsonl: line 2: {complaint}"):
        read(tmp_path / "dev.jsonl", "class", {"id": "0", "notes": NOTES}, row)


@pytest.mark.parametrize("task", ["disease-staging", "phenotyping", "mortality", "remaining-los"])
def test_every_task_has_the_format(task: str) -> None:
    suite = suites.load(f"clinical-clue/{task}")
    records = READERS[suite.name](OFFICIAL / f"{task}.jsonl", suite)
    assert len(records) >= 3
    assert all(record.gold is not None and record.item["notes"] for record in records)
