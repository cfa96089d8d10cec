"""CBLUE's files (first version, eight tasks): JSON lists, CMeIE in JSON lines. Test files have golds of None."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.readers import golds
from benchmarks.readers.files import json_lines, json_records, need, one_of
from benchmarks.records import Record
from suites import Suite

SEPARATOR = "##"
"""Between the standard terms of one diagnosis."""
UNRELATED = "NA"
"""KUAKE-QQR's other name of its first class."""


def labelled(*fields: str) -> Callable[[Path, Suite], list[Record]]:
    """A reader of records with one label, whose one or two texts have these names."""

    def read(path: Path, suite: Suite) -> list[Record]:
        found = []
        for where, r in json_records(path):
            texts = [need(r, field, str, path, where) for field in fields]
            item = dict(zip(("text", "text_pair"), texts, strict=False))
            found.append(Record(need(r, "id", str, path, where), item, golds.label(r, suite, path, where)))
        return found

    return read


def queries(path: Path, suite: Suite) -> list[Record]:
    """KUAKE-QQR: "NA" is the first class; the published example calls the queries `query` and `title`."""
    found: list[Record] = []
    for where, r in json_records(path):
        first, second = ("query", "title") if "title" in r else ("query1", "query2")
        item = {"text": need(r, first, str, path, where), "text_pair": need(r, second, str, path, where)}
        known = r | {"label": suite.labels[0]} if r.get("label") == UNRELATED else r
        found.append(Record(need(r, "id", str, path, where), item, golds.label(known, suite, path, where)))
    return found


def entities(path: Path, suite: Suite) -> list[Record]:
    """CMeEE: ends are inclusive in the file, entities may nest. A record's id is its place in the file."""
    found: list[Record] = []
    for where, r in json_records(path):
        text = need(r, "text", str, path, where)
        gold = None if "entities" not in r else sorted(_entities(r, text, suite, path, where))
        found.append(Record(str(len(found)), {"text": text}, gold))
    return found


def _entities(record: dict[str, Any], text: str, suite: Suite, path: Path, where: str) -> list[list[Any]]:
    found = []
    for e in need(record, "entities", list, path, where):
        span = need(e, "start_idx", int, path, where), need(e, "end_idx", int, path, where)
        found.append(golds.entity(text, span, need(e, "type", str, path, where), suite, path, where))
    return found


def triples(path: Path, suite: Suite) -> list[Record]:
    """CMeIE: strings without offsets; gold is `[subject, predicate, object]` each. The id is the place in the file."""
    predicates = [predicate for _, predicate, _ in suite.decoder["relations"]]
    found: list[Record] = []
    for where, r in json_lines(path):
        text = need(r, "text", str, path, where)
        listed = need(r, "spo_list", list, path, where) if "spo_list" in r else None
        gold = None if listed is None else [_triple(spo, predicates, path, where) for spo in listed]
        found.append(Record(str(len(found)), {"text": text}, gold))
    return found


def _triple(spo: Any, predicates: list[str], path: Path, where: str) -> list[str]:
    value = need(need(spo, "object", dict, path, where), "@value", str, path, where)
    predicate = one_of(need(spo, "predicate", str, path, where), predicates, path, where)
    return [need(spo, "subject", str, path, where), predicate, value]


def terms(path: Path, suite: Suite) -> list[Record]:
    """CHIP-CDN: a diagnosis as written; gold is its standard terms. The id is the place in the file."""
    found: list[Record] = []
    for where, r in json_records(path):
        text = need(r, "text", str, path, where)
        known = not golds.absent(r, "normalized_result")
        gold = need(r, "normalized_result", str, path, where).split(SEPARATOR) if known else None
        found.append(Record(str(len(found)), {"text": text}, gold))
    return found


READERS = {
    "cblue/cmeee": entities,
    "cblue/cmeie": triples,
    "cblue/chip-cdn": terms,
    "cblue/chip-ctc": labelled("text"),
    "cblue/chip-sts": labelled("text1", "text2"),
    "cblue/kuake-qic": labelled("query"),
    "cblue/kuake-qtr": labelled("query", "title"),
    "cblue/kuake-qqr": queries,
}
