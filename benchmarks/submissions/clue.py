"""CLUE's prediction files, as its rules of 2021-09 and the PaddleNLP baseline have them.

Lines are in the order of the test file; the leaderboard reads only their labels, in that order. Test sets that were
replaced have the version in the file's name, here taken from the source's: `test1.0.json` or else 1.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.readers import READERS, clue
from benchmarks.readers.clue_reading import BLANK
from benchmarks.readers.files import json_file, json_lines, need, one_of
from benchmarks.records import ReaderError, Record
from benchmarks.submissions.answered import answered
from service.types import Answer
from suites import Suite


class Format(NamedTuple):
    """The file's name without version and ending, what it says of one record, and the check of that.

    A file is one line a record, or where `whole` one JSON object with what is said of all of them.
    """

    name: str
    make: Callable[[Record, Answer], dict[str, Any]]
    check: Callable[[Any, Record, Suite, Path, str], None]
    versioned: bool = False
    whole: bool = False


def write(records: Sequence[Record], answers: Sequence[Answer], suite: Suite, source: Path, folder: Path) -> Path:
    """Write and check the predictions. Unanswered if a record that needs an answer has none."""
    form = FORMATS[suite.reader]
    made = [form.make(record, answer) for record, answer in zip(records, answers, strict=True)]
    if form.whole:
        text = json.dumps({k: v for said in made for k, v in said.items()}, ensure_ascii=False, indent=2)
    else:
        text = "\n".join(json.dumps(said, ensure_ascii=False) for said in made)
    path = folder / _file_name(form, source)
    path.write_text(text + "\n", encoding="utf-8")
    check(path, suite, source)
    return path


def check(path: Path, suite: Suite, source: Path) -> None:
    """ReaderError unless the file has its name and says something possible of every record of `source`."""
    form = FORMATS[suite.reader]
    if path.name != _file_name(form, source):
        raise ReaderError(path, "the file", f"expected the name {_file_name(form, source)}")
    records = READERS[suite.reader](source, suite)
    if form.whole:
        _check_whole(form, path, records, suite)
        return
    rows = list(json_lines(path))
    for (where, row), record in zip(rows, records, strict=False):
        if need(row, "id", (int, str), path, where) != _number(record):
            raise ReaderError(path, where, f"expected the id {_number(record)}, found {row['id']!r}")
        form.check(row, record, suite, path, where)
    if len(rows) != len(records):
        raise ReaderError(path, "the file", f"expected {len(records)} lines, one a record, found {len(rows)}")


def _check_whole(form: Format, path: Path, records: Sequence[Record], suite: Suite) -> None:
    data = json_file(path)
    if not isinstance(data, dict):
        raise ReaderError(path, "the file", "expected one JSON object")
    left = dict(data)
    for record in records:
        form.check(left, record, suite, path, f"record {record.id}")
    if left:
        raise ReaderError(path, next(iter(left)), "expected no other keys than those of the test file")


def _file_name(form: Format, source: Path) -> str:
    version = ("10" if "1.0" in source.name else "11") if form.versioned else ""
    return f"{form.name}{version}_predict.json"


def _number(record: Record) -> int | str:
    return int(record.id) if record.id.isdecimal() else record.id


def _label(record: Record, answer: Answer) -> dict[str, Any]:
    return {"id": _number(record), "label": answered(record, answer)["label"]}


def _check_label(row: Any, record: Record, suite: Suite, path: Path, where: str) -> None:
    one_of(need(row, "label", str, path, where), suite.labels, path, where)


def _choice(record: Record, answer: Answer) -> dict[str, Any]:
    return {"id": _number(record), "label": answered(record, answer)["choice"]}


def _check_choice(row: Any, record: Record, suite: Suite, path: Path, where: str) -> None:
    _index(row, "label", record.item["choices"], path, where)


def _index(row: Any, key: str, offered: Sequence[Any], path: Path, where: str) -> None:
    if not 0 <= need(row, key, int, path, where) < len(offered):
        raise ReaderError(path, where, f"expected {key!r} to be an index below {len(offered)}, found {row[key]}")


def _span(record: Record, answer: Answer) -> dict[str, Any]:
    return {record.id: answer["answer"]["text"] if answer.get("answer") else ""}


def _check_span(left: dict[str, Any], record: Record, suite: Suite, path: Path, where: str) -> None:
    need(left, record.id, str, path, where)
    del left[record.id]


def _blanks(record: Record, answer: Answer) -> dict[str, Any]:
    return {blank["blank"]: blank["choice"] for blank in answered(record, answer)["blanks"]}


def _check_blanks(left: dict[str, Any], record: Record, suite: Suite, path: Path, where: str) -> None:
    for passage in record.item["passages"]:
        for blank in BLANK.findall(passage):
            _index(left, blank, record.item["candidates"], path, where)
            del left[blank]


def _entities(record: Record, answer: Answer) -> dict[str, Any]:
    """Types, surfaces and inclusive ends; a text without entities has an empty label."""
    label: dict[str, dict[str, list[list[int]]]] = {}
    for e in answer.get("entities", []):
        label.setdefault(e["type"], {}).setdefault(e["text"], []).append([e["start"], e["end"] - 1])
    return {"id": _number(record), "label": label}


def _check_entities(row: Any, record: Record, suite: Suite, path: Path, where: str) -> None:
    clue.surfaces(row, record.item["text"], suite, path, where)


FORMATS = {
    "clue/afqmc": Format("afqmc", _label, _check_label),
    "clue/tnews": Format("tnews", _label, _check_label, versioned=True),
    "clue/iflytek": Format("iflytek", _label, _check_label),
    "clue/cmnli": Format("cmnli", _label, _check_label),
    "clue/ocnli": Format("ocnli_50k", _label, _check_label),
    "clue/diagnostics": Format("diagnostics", _label, _check_label),
    "clue/csl": Format("csl", _label, _check_label),
    "clue/wsc2020": Format("cluewsc", _label, _check_label, versioned=True),
    "clue/cmrc2018": Format("cmrc2018", _span, _check_span, whole=True),
    "clue/drcd": Format("drcd", _span, _check_span, whole=True),
    "clue/chid": Format("chid", _blanks, _check_blanks, versioned=True, whole=True),
    "clue/c3": Format("c3", _choice, _check_choice, versioned=True),
    "clue/cluener": Format("cluener", _entities, _check_entities),
}
