"""The score of CLUENER's leaderboard: the mean F1 of the entity types, counted on surfaces rather than places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from benchmarks.metrics.base import Counts, Sum, macro_f1
from benchmarks.records import Record
from service.types import Answer
from suites import Suite


def _surfaces(record: Record, answer: Answer, suite: Suite) -> Counts:
    """As the official `score.py` has it: within a text a surface counts once for a type, wherever it stands."""
    text = record.item["text"]
    gold = {(text[start:end], kind) for start, end, kind in record.gold}
    predicted = {(e["text"], e["type"]) for e in answer.get("entities", [])}
    counts: Counter[Hashable] = Counter()
    for name, found in (("gold", gold), ("predicted", predicted), ("both", gold & predicted)):
        counts.update((name, kind) for _, kind in found)
    return counts


METRICS = {
    # Over the types that occur; the official script divides by zero where one of its ten does not.
    "entity_type_macro_f1": Sum(_surfaces, lambda totals, _: macro_f1(totals)),
}
