"""KLUE's TSV formats: a character or a word a line, a blank line between sentences, `##` before comments.

The last comment before a sentence is its header: an id, a tab, and the sentence in another notation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.readers.files import lines, one_of
from benchmarks.records import ReaderError, Record
from suites import Suite

COMMENT = "##"


def _sentences(path: Path, columns: int) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """`(id, [(place, columns of the row), ...])` of every sentence."""
    guid = ""
    rows: list[tuple[str, list[str]]] = []
    for number, line in lines(path):
        where = f"line {number}"
        if line.startswith(COMMENT) or not line:
            if rows:
                yield guid, rows
                guid, rows = "", []
            if line:
                guid = line.removeprefix(COMMENT).partition("\t")[0].strip()
            continue
        row = line.split("\t")
        if len(row) != columns:
            raise ReaderError(path, where, f"expected {columns} columns separated by tabs, found {line!r:.80}")
        if not guid:
            raise ReaderError(path, where, f"expected a line '{COMMENT} id<tab>sentence' before the sentence")
        rows.append((where, row))
    if rows:
        yield guid, rows


def entities(path: Path, suite: Suite) -> list[Record]:
    """A sentence, joined from the column of characters; gold is `{"tags": [tag of each character]}`."""
    found = []
    for guid, rows in _sentences(path, 2):
        for where, (character, tag) in rows:
            if len(character) != 1:
                raise ReaderError(path, where, f"expected one character and its tag, found {character!r:.80}")
            one_of(tag, suite.labels, path, where)
        text = "".join(row[0] for _, row in rows)
        found.append(Record(guid, {"text": text, "tags": True}, {"tags": [row[1] for _, row in rows]}))
    return found


def dependencies(path: Path, suite: Suite) -> list[Record]:
    """Words, with tags for a parser that reads them; gold is `[head, relation]` of each, head 0 being the root."""
    found = []
    for guid, rows in _sentences(path, 6):
        words, pos, gold = [], [], []
        for place, (where, (index, form, _lemma, tags, head, relation)) in enumerate(rows, start=1):
            if index != str(place):
                raise ReaderError(path, where, f"expected word {place} of the sentence, found {index!r}")
            if not head.isdecimal() or int(head) > len(rows):
                raise ReaderError(path, where, f"expected a head between 0 and {len(rows)}, found {head!r}")
            words.append(form)
            pos.append(tags)
            gold.append([int(head), one_of(relation, suite.labels, path, where)])
        tagged = "pos_tags" in (suite.head or {})
        found.append(Record(guid, {"words": words, "pos": pos} if tagged else {"words": words}, gold))
    return found


READERS = {"klue/ner": entities, "klue/dp": dependencies}
