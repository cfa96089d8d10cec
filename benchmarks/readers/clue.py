"""CLUE's files of sentences, pairs, pronouns and entities: JSON lines.

Test files have no labels, their golds are None. A record's id is its place in the file, from 0, as submissions count.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.readers import golds
from benchmarks.readers.files import json_lines, need
from benchmarks.records import ReaderError, Record
from suites import Suite

UNDECIDED = "-"
"""What stands for a label where the annotators did not agree; CLUE drops such pairs."""

Fields = Callable[[dict[str, Any], Path, str], dict[str, Any]]


def labelled(fields: Fields, *, undecided: bool = False) -> Callable[[Path, Suite], list[Record]]:
    """A reader of lines with one label; `fields` makes the item of a line. `undecided`: some lines have no majority."""

    def read(path: Path, suite: Suite) -> list[Record]:
        found = []
        for position, (where, line) in enumerate(json_lines(path)):
            item = fields(line, path, where)
            if not (undecided and line.get("label") == UNDECIDED):
                found.append(Record(str(position), item, golds.label(line, suite, path, where)))
        return found

    return read


def sentence(line: dict[str, Any], path: Path, where: str) -> dict[str, Any]:
    """A headline or a description; keywords and names of classes are left aside."""
    return {"text": need(line, "sentence", str, path, where)}


def pair(first: str, second: str) -> Fields:
    """Two texts of a line, in this order."""

    def fields(line: dict[str, Any], path: Path, where: str) -> dict[str, Any]:
        return {"text": need(line, first, str, path, where), "text_pair": need(line, second, str, path, where)}

    return fields


def keywords(line: dict[str, Any], path: Path, where: str) -> dict[str, Any]:
    """CSL: the keywords, joined by single spaces, come before the abstract."""
    words = need(line, "keyword", list, path, where)
    if not all(isinstance(word, str) for word in words):
        raise ReaderError(path, where, "expected 'keyword' to be a list of texts")
    return {"text": " ".join(words), "text_pair": need(line, "abst", str, path, where)}


def pronoun(line: dict[str, Any], path: Path, where: str) -> dict[str, Any]:
    """CLUEWSC2020: span1 is the noun (our subject), span2 the pronoun (our object); indexes are code points."""
    text = need(line, "text", str, path, where)
    target = need(line, "target", dict, path, where)
    item: dict[str, Any] = {"text": text}
    for role, name in (("subject", "span1"), ("object", "span2")):
        start = need(target, f"{name}_index", int, path, where)
        end = start + len(need(target, f"{name}_text", str, path, where))
        if not 0 <= start < end <= len(text):
            raise ReaderError(path, where, f"expected {name} within {len(text)} characters, found {start} to {end}")
        item[role] = {"start": start, "end": end}
    return item


def entities(path: Path, suite: Suite) -> list[Record]:
    """CLUENER: `{"label": {type: {surface: [[start, last], ...]}}}`; ends are inclusive, gold ends exclusive."""
    found = []
    for position, (where, line) in enumerate(json_lines(path)):
        text = need(line, "text", str, path, where)
        gold = None if "label" not in line else sorted(surfaces(line, text, suite, path, where))
        found.append(Record(str(position), {"text": text}, gold))
    return found


def surfaces(line: Any, text: str, suite: Suite, path: Path, where: str) -> list[list[Any]]:
    """`[start, end, type]` of every span under a line's `label`."""
    found = []
    by_type = need(line, "label", dict, path, where)
    for kind in by_type:
        by_surface = need(by_type, kind, dict, path, where)
        for surface in by_surface:
            for span in need(by_surface, surface, list, path, where):
                if not (isinstance(span, list) and len(span) == 2):
                    raise ReaderError(path, where, f"expected [start, last] for {surface!r}, found {span!r:.80}")
                start, end, _ = entity = golds.entity(text, (span[0], span[1]), kind, suite, path, where)
                if text[start:end] != surface:
                    raise ReaderError(path, where, f"expected {surface!r} at {start}, found {text[start:end]!r}")
                found.append(entity)
    return found


READERS = {
    "clue/afqmc": labelled(pair("sentence1", "sentence2")),
    "clue/tnews": labelled(sentence),
    "clue/iflytek": labelled(sentence),
    "clue/cmnli": labelled(pair("sentence1", "sentence2"), undecided=True),
    "clue/ocnli": labelled(pair("sentence1", "sentence2"), undecided=True),
    "clue/diagnostics": labelled(pair("premise", "hypothesis"), undecided=True),
    "clue/csl": labelled(keywords),
    "clue/wsc2020": labelled(pronoun),
    "clue/cluener": entities,
}
