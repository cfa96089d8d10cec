"""Clinical notes for the tasks of clinical CLUE. Its own file format is not public, so this one is ours.

JSON lines, one a prediction: `{"id": ..., "notes": [{"time": ..., "text": ...}, ...], ...}`, notes in the order in
which they were written, `time` optional and of ISO 8601. The gold answer is what the suite's output calls for:
`"label"`, one of the suite's; `"labels"`, a list of them (sigmoid); `"value"`, a number (regression); label and value
where classes in an order stand for values. A line without any of them has a gold of None.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.readers.files import json_lines, need, one_of
from benchmarks.records import ReaderError, Record
from suites import Suite


def notes(path: Path, suite: Suite) -> list[Record]:
    """The notes that were written so far; gold is what is to be foreseen."""
    found: list[Record] = []
    for where, line in json_lines(path):
        key = str(need(line, "id", (str, int), path, where))
        written = [_note(note, path, where) for note in need(line, "notes", list, path, where)]
        if not written:
            raise ReaderError(path, where, "expected at least one note")
        found.append(Record(key, {"notes": written}, _gold(line, suite, path, where)))
    return found


def _note(note: Any, path: Path, where: str) -> dict[str, Any]:
    text = need(note, "text", str, path, where)
    return {"text": text} | ({"time": need(note, "time", str, path, where)} if "time" in note else {})


def _gold(line: dict[str, Any], suite: Suite, path: Path, where: str) -> Any:
    """A label, a list of labels, a value, or `{"label": ..., "value": ...}`."""
    wanted = {"sigmoid": ["labels"], "regression": ["value"]}.get(suite.decoder["output"], ["label"])
    if suite.decoder.get("class_values"):
        wanted = ["label", "value"]
    given = [key for key in ("label", "labels", "value") if key in line]
    if not given:
        return None
    if given != wanted:
        raise ReaderError(path, where, f"expected the gold answer in {' and '.join(wanted)}, not {' and '.join(given)}")
    gold: dict[str, Any] = {}
    if "label" in wanted:
        gold["label"] = one_of(need(line, "label", str, path, where), suite.labels, path, where)
    if "labels" in wanted:
        gold["labels"] = [one_of(label, suite.labels, path, where) for label in need(line, "labels", list, path, where)]
    if "value" in wanted:
        gold["value"] = float(need(line, "value", (int, float), path, where))
    return gold if len(gold) > 1 else gold[wanted[0]]


READERS = {
    "clinical-clue/disease-staging": notes,
    "clinical-clue/phenotyping": notes,
    "clinical-clue/mortality": notes,
    "clinical-clue/remaining-los": notes,
}
