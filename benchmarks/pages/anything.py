"""Results of commands that have no plots of their own: everything that was found, as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any
from xml.etree.ElementTree import Element

from benchmarks.pages.figure import Section, note
from benchmarks.pages.files import Result
from benchmarks.pages.formats import NONE, number
from benchmarks.pages.markup import details, table, tag
from benchmarks.pages.shapes import FOUND

DEEPEST = 4
MOST_ROWS = 200
LONGEST = 120
"""Characters of a cell."""


def sections(found: Sequence[Result]) -> list[Section]:
    """One for each command that the page has no plots for."""
    unknown = [result for result in found if result.origin.command not in FOUND]
    made = []
    for i, command in enumerate(dict.fromkeys(result.origin.command for result in unknown)):
        parts: list[Element] = []
        for result in unknown:
            if result.origin.command == command:
                parts += [tag("h3", result.label), *blocks(result.found, result.label)]
        made.append(Section(f"other-{i + 1}", command, [tag("div", *parts, class_="card")]))
    return made


def blocks(value: Any, name: str, depth: int = 0) -> Iterator[Element]:
    """Tables of records and of what is no record, each nested part under its name."""
    if _records(value):
        yield from _rows(value, name)
    elif isinstance(value, Mapping) and depth < DEEPEST:
        flat = [[str(key), cell(part)] for key, part in value.items() if not _nested(part)]
        yield table(name, ["", "value"], flat, left=2) if flat else tag("h4", name)
        for key, part in value.items():
            if _nested(part):
                yield from blocks(part, str(key), depth + 1)
    elif _nested(value):
        yield details(name, tag("pre", json.dumps(value, ensure_ascii=False, indent=1)[: LONGEST * MOST_ROWS]))
    else:
        yield tag("p", cell(value))


def cell(value: Any) -> str:
    """A value in a few characters; what is nested, as JSON."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, 4) if isfinite(value) else str(value)
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _nested(value: Any) -> bool:
    """Whether it needs more than a cell."""
    return _records(value) or (isinstance(value, dict | list) and len(json.dumps(value)) > LONGEST)


def _records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(part, dict) for part in value)


def _rows(records: Sequence[Mapping[str, Any]], name: str) -> Iterator[Element]:
    columns = list(dict.fromkeys(key for record in records for key in record))
    rows = [[cell(record.get(key)) for key in columns] for record in records[:MOST_ROWS]]
    yield table(name, columns, rows)
    if len(records) > MOST_ROWS:
        yield note(f"{len(records) - MOST_ROWS:,} more are in the file.")
