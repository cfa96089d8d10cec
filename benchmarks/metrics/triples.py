"""Triples of CMeIE: gold is `[subject, predicate, object]` strings, since the data has no offsets."""

from __future__ import annotations

from benchmarks.metrics.base import micro_f1
from benchmarks.records import Record
from service.types import Answer
from suites import Suite

Triple = tuple[str, str, str]


def _triples(record: Record, answer: Answer, suite: Suite) -> tuple[set[Triple], set[Triple]]:
    """Types and places do not count; two mentions of the same triple are one."""
    predicted = {(t["subject"]["text"], t["predicate"], t["object"]["text"]) for t in answer.get("triples", [])}
    return {(subject, predicate, obj) for subject, predicate, obj in record.gold}, predicted


METRICS = {"triple_micro_f1": micro_f1(_triples)}
