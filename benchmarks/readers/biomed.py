"""Biomedical formats: tagged tokens in English (NCBI-disease, BC5CDR), PubMedQA, and ChineseBLUE's lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.readers import golds
from benchmarks.readers.files import json_file, json_lines, lines, need, one_of
from benchmarks.records import ReaderError, Record
from suites import Suite

# Between which tokens running English text has no space.
CLOSE_BEFORE = frozenset(".,;:)]}%!?'/-")
CLOSE_BEHIND = frozenset("([{'/-")


def tokens(path: Path, suite: Suite) -> list[Record]:
    """`token<tab>tag` a line, a blank line between sentences.

    The text is the tokens joined as English is written. Gold is `{"tags": [...], "starts": [...]}`: the tag of each
    token and where the token begins in the text, because the corpora count entities in tokens.
    """
    found: list[Record] = []
    sentence: list[tuple[str, str]] = []
    for number, line in [*lines(path), (0, "")]:
        if line.strip():
            row = line.split("\t")
            if len(row) != 2 or not row[0].strip():
                raise ReaderError(path, f"line {number}", f"expected a token, a tab and its tag, found {line!r:.80}")
            sentence.append((row[0], one_of(row[1], suite.labels, path, f"line {number}")))
        elif sentence:
            text, starts = written([token for token, _ in sentence])
            gold = {"tags": [tag for _, tag in sentence], "starts": starts}
            found.append(Record(str(len(found)), {"text": text, "tags": True}, gold))
            sentence = []
    return found


def written(pieces: list[str]) -> tuple[str, list[int]]:
    """Tokens as running text, and where each of them begins."""
    text = ""
    starts = []
    for piece in pieces:
        if text and piece[0] not in CLOSE_BEFORE and text[-1] not in CLOSE_BEHIND:
            text += " "
        starts.append(len(text))
        text += piece
    return text, starts


def pubmedqa(path: Path, suite: Suite) -> list[Record]:
    """A question and its abstract without the conclusion, as one document; gold is the expert's decision."""
    data = json_file(path)
    if not isinstance(data, dict):
        raise ReaderError(path, "the file", "expected an object of records by PubMed id")
    found = []
    for pmid, r in data.items():
        contexts = need(r, "CONTEXTS", list, path, pmid)
        if not all(isinstance(c, str) for c in contexts):
            raise ReaderError(path, pmid, "expected 'CONTEXTS' to be a list of texts")
        text = " ".join([need(r, "QUESTION", str, path, pmid), *contexts])
        found.append(
            Record(pmid, {"text": text}, one_of(need(r, "final_decision", str, path, pmid), suite.labels, path, pmid))
        )
    return found


def mentions(path: Path, suite: Suite) -> list[Record]:
    """ChineseBLUE's entities; gold is `[start, end, type]` of every mention that the text holds at its offset.

    The offsets of a few mentions in the files are wrong; nothing could predict those, so they are no gold.
    """
    kinds = sorted(golds.entity_types(suite))
    found: list[Record] = []
    for where, r in json_lines(path):
        text = need(r, "text", str, path, where)
        gold = set()
        for m in need(r, "mention_data", list, path, where):
            mention = need(m, "mention", str, path, where)
            kind = one_of(need(m, "label" if "label" in m else "type", str, path, where), kinds, path, where)
            start = _offset(need(m, "offset", (str, int), path, where), path, where)
            if text[start : start + len(mention)] == mention:
                gold.add((start, start + len(mention), kind))
        found.append(Record(str(len(found)), {"text": text}, [list(entity) for entity in sorted(gold)]))
    return found


def _offset(value: Any, path: Path, where: str) -> int:
    if not str(value).isdecimal():
        raise ReaderError(path, where, f"expected an offset, found {value!r:.80}")
    return int(value)


def pairs(path: Path, suite: Suite) -> list[Record]:
    """`label<tab>text<tab>text` a line."""
    return [
        Record(str(i), {"text": first.strip(), "text_pair": second.strip()}, label)
        for i, (label, first, second) in enumerate(_rows(path, suite, 3))
    ]


def texts(path: Path, suite: Suite) -> list[Record]:
    """`label<tab>text` a line."""
    return [Record(str(i), {"text": text.strip()}, label) for i, (label, text) in enumerate(_rows(path, suite, 2))]


def _rows(path: Path, suite: Suite, columns: int) -> list[list[str]]:
    found = []
    for number, line in lines(path):
        if line:
            row = line.split("\t")
            if len(row) != columns:
                raise ReaderError(path, f"line {number}", f"expected {columns} columns, found {line!r:.80}")
            one_of(row[0], suite.labels, path, f"line {number}")
            found.append(row)
    return found


READERS = {
    "biomed/ncbi-disease": tokens,
    "biomed/bc5cdr": tokens,
    "biomed/pubmedqa": pubmedqa,
    "chineseblue/cehrner": mentions,
    "chineseblue/cmedqaner": mentions,
    "chineseblue/cmedqq": pairs,
    "chineseblue/cmedtc": texts,
    "chineseblue/cmedic": texts,
}
