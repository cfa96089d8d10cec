"""Reading the common file shapes; every complaint names the file and the place in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.records import ReaderError

T = TypeVar("T")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without their ends. Split at line feeds only: U+2028 and its kind belong to the text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReaderError(path, f"byte {error.start}", "expected UTF-8 text") from None
    yield from enumerate((line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")), start=1)


def json_file(path: Path) -> Any:
    """The value of a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ReaderError(path, "the file", f"expected JSON: {error}") from None


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """`("line 3", value)` of every line that is not blank."""
    for number, line in lines(path):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except ValueError as error:
                raise ReaderError(path, f"line {number}", f"expected a JSON value: {error}") from None


def json_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """`("record 0", object)` of a JSON list of objects."""
    data = json_file(path)
    if not isinstance(data, list):
        raise ReaderError(path, "the file", "expected a list of records")
    for number, record in enumerate(data):
        if not isinstance(record, dict):
            raise ReaderError(path, f"record {number}", "expected an object")
        yield f"record {number}", record


def need(record: Any, key: str, kind: type[T] | tuple[type[T], ...], path: Path, where: str) -> T:
    """`record[key]`, which must be of `kind` (a bool is no number here)."""
    if not isinstance(record, dict) or key not in record:
        raise ReaderError(path, where, f"expected an object with the key {key!r}")
    value = record[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise ReaderError(path, where, f"expected {key!r} to be {names}, found {value!r:.80}")
    return value


def one_of(value: str, allowed: list[str], path: Path, where: str) -> str:
    """`value`, which must be one of the suite's labels."""
    if value not in allowed:
        raise ReaderError(path, where, f"expected one of the suite's labels, found {value!r:.80}")
    return value
