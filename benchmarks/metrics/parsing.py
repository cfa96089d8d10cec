"""Dependency trees: gold is `[head, relation]` of each word."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.metrics.base import Counts, Sum, confusion, macro_f1
from benchmarks.records import Record
from service.types import Answer
from suites import Suite

# KLUE's script makes one class of all relations from this id on, and another one of every word with a wrong head.
MERGED_FROM = 15
MERGED, WRONG_HEAD = -3, -2


def _words(record: Record, answer: Answer) -> Iterator[tuple[int, str, int | None, str | None]]:
    """Gold head and relation, predicted head and relation of each word; None where the record was refused."""
    found = answer["words"] if answer else [{"head": None, "relation": None}] * len(record.gold)
    for (head, relation), word in zip(record.gold, found, strict=True):
        yield head, relation, word["head"], word["relation"]


def _attached(labelled: bool) -> Sum:
    """Attachment score: the share of words with the right head, `labelled` with the right relation as well."""

    def count(record: Record, answer: Answer, suite: Suite) -> Counts:
        right = sum(h == ph and (r == pr or not labelled) for h, r, ph, pr in _words(record, answer))
        return {"right": right, "words": len(record.gold)}

    return Sum(count, lambda totals, _: 100 * totals["right"] / totals["words"])


def _heads(record: Record, answer: Answer, suite: Suite) -> Counts:
    """Classes are the head positions themselves."""
    return confusion((head, predicted) for head, _, predicted, _ in _words(record, answer))


def _relations(record: Record, answer: Answer, suite: Suite) -> Counts:
    common = set(suite.labels[:MERGED_FROM])
    return confusion(
        (_merged(r, common), _merged(pr, common) if h == ph else WRONG_HEAD) for h, r, ph, pr in _words(record, answer)
    )


def _merged(relation: str | None, common: set[str]) -> str | int | None:
    return relation if relation in common else MERGED


METRICS = {
    "uas": _attached(labelled=False),
    "las": _attached(labelled=True),
    "uas_macro_f1": Sum(_heads, lambda totals, _: macro_f1(totals)),
    "las_macro_f1": Sum(_relations, lambda totals, _: macro_f1(totals)),
}
