"""Gold answers as CLUE and CBLUE write them: labels that test files leave out, spans whose last character counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.readers.files import need, one_of
from benchmarks.records import ReaderError
from suites import Suite


def absent(record: dict[str, Any], key: str) -> bool:
    """Whether a record comes without this answer: test files leave the key out, or leave it empty."""
    return record.get(key) in (None, "")


def label(record: dict[str, Any], suite: Suite, path: Path, where: str) -> str | None:
    """The record's label, one of the suite's; None in a test file."""
    if absent(record, "label"):
        return None
    return one_of(need(record, "label", str, path, where), suite.labels, path, where)


def entity_types(suite: Suite) -> set[str]:
    """Types of the suite's entities, whether its labels are tags (`B-dis`) or the types themselves."""
    tagged = {label.partition("-")[2] for label in suite.labels if "-" in label}
    return tagged or set(suite.labels)


def entity(text: str, span: tuple[Any, Any], kind: str, suite: Suite, path: Path, where: str) -> list[Any]:
    """`[start, end, type]` with an exclusive end, of a span whose end is inclusive in the file."""
    start, last = span
    if kind not in entity_types(suite):
        raise ReaderError(path, where, f"expected one of the suite's entity types, found {kind!r:.80}")
    if not (isinstance(start, int) and isinstance(last, int) and 0 <= start <= last < len(text)):
        raise ReaderError(path, where, f"expected a span within {len(text)} characters, found {start!r} to {last!r}")
    return [start, last + 1, kind]
