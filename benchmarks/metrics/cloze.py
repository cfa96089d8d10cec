"""ChID: gold is `{blank: index of its candidate}` for every blank of a record."""

from __future__ import annotations

from benchmarks.metrics.base import Counts, Sum
from benchmarks.records import Record
from service.types import Answer
from suites import Suite


def _blanks(record: Record, answer: Answer, suite: Suite) -> Counts:
    chosen = {blank["blank"]: blank["choice"] for blank in answer.get("blanks", [])}
    return {"right": sum(chosen.get(blank) == gold for blank, gold in record.gold.items()), "n": len(record.gold)}


METRICS = {
    # Of blanks, not of records, as the benchmark counts.
    "chid_accuracy": Sum(_blanks, lambda totals, _: 100 * totals["right"] / totals["n"]),
}
