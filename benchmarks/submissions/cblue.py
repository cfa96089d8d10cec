"""CBLUE's prediction files: the records of the test file with the predicted field, under a fixed name a task.

The leaderboard takes one archive of all files. It matches records by `id` or, where they have none, by `text`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.readers import READERS
from benchmarks.readers.cblue import SEPARATOR
from benchmarks.readers.files import json_file, json_lines, one_of
from benchmarks.records import ReaderError, Record
from benchmarks.submissions.answered import answered
from service.types import Answer
from suites import Suite

SENTENCE_END = "。"


class Format(NamedTuple):
    """The file's fixed name, the field that is predicted, what the leaderboard matches records by."""

    name: str
    field: str
    predicted: Callable[[Record, Answer], Any]
    key: str = "id"

    @property
    def in_lines(self) -> bool:
        return self.name.endswith(".jsonl")


def write(records: Sequence[Record], answers: Sequence[Answer], suite: Suite, source: Path, folder: Path) -> Path:
    """Write and check the predictions. Unanswered if a record that needs an answer has none."""
    form = FORMATS[suite.reader]
    rows = [
        raw | {form.field: form.predicted(record, answer)}
        for raw, record, answer in zip(_rows(form, source), records, answers, strict=True)
    ]
    path = folder / form.name
    if form.in_lines:
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    else:
        text = json.dumps(rows, ensure_ascii=False, indent=2)
    path.write_text(text + "\n", encoding="utf-8")
    check(path, suite, source)
    return path


def check(path: Path, suite: Suite, source: Path) -> None:
    """ReaderError unless the file has its name, and for every record of `source` a prediction of the official form."""
    form = FORMATS[suite.reader]
    if path.name != form.name:
        raise ReaderError(path, "the file", f"expected the name {form.name}")
    # A prediction has the form of a gold answer, so the reader finds what is wrong with one.
    for record in READERS[suite.reader](path, suite):
        if record.gold is None:
            raise ReaderError(path, f"record {record.id}", f"expected a prediction in {form.field!r}")
    rows = _rows(form, path)
    if form.field == "label":  # the reader also takes other names of a class, which stand in data files only
        for row in rows:
            one_of(row["label"], suite.labels, path, f"record {row['id']}")
    wanted, found = (Counter(row[form.key] for row in of) for of in (_rows(form, source), rows))
    for key in wanted - found:
        raise ReaderError(path, "the file", f"expected a record with the {form.key} {key!r:.80}")
    for key in found - wanted:
        raise ReaderError(path, "the file", f"expected no record with the {form.key} {key!r:.80}, or one less")


def _rows(form: Format, path: Path) -> list[dict[str, Any]]:
    return [row for _, row in json_lines(path)] if form.in_lines else json_file(path)


def _label(record: Record, answer: Answer) -> str:
    return str(answered(record, answer)["label"])


def _entities(record: Record, answer: Answer) -> list[dict[str, Any]]:
    return [
        {"start_idx": e["start"], "end_idx": e["end"] - 1, "type": e["type"], "entity": e["text"]}
        for e in answer.get("entities", [])
    ]


def _triples(record: Record, answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "Combined": not _in_one_sentence(record.item["text"], t["subject"]["text"], t["object"]["text"]),
            "predicate": t["predicate"],
            "subject": t["subject"]["text"],
            "subject_type": t["subject"]["type"],
            "object": {"@value": t["object"]["text"]},
            "object_type": {"@value": t["object"]["type"]},
        }
        for t in answer.get("triples", [])
    ]


def _in_one_sentence(text: str, subject: str, obj: str) -> bool:
    return any(subject in sentence and obj in sentence for sentence in text.split(SENTENCE_END))


def _terms(record: Record, answer: Answer) -> str:
    """Names of the standard terms; without any, the diagnosis itself, as in the official baseline."""
    return SEPARATOR.join(term["name"] for term in answer.get("terms", [])) or str(record.item["text"])


FORMATS = {
    "cblue/cmeee": Format("CMeEE_test.json", "entities", _entities, key="text"),
    "cblue/cmeie": Format("CMeIE_test.jsonl", "spo_list", _triples, key="text"),
    "cblue/chip-cdn": Format("CHIP-CDN_test.json", "normalized_result", _terms, key="text"),
    "cblue/chip-ctc": Format("CHIP-CTC_test.json", "label", _label),
    "cblue/chip-sts": Format("CHIP-STS_test.json", "label", _label),
    "cblue/kuake-qic": Format("KUAKE-QIC_test.json", "label", _label),
    "cblue/kuake-qtr": Format("KUAKE-QTR_test.json", "label", _label),
    "cblue/kuake-qqr": Format("KUAKE-QQR_test.json", "label", _label),
}
