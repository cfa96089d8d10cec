"""Dialogue states: gold is `{slot: value}` after each turn of the user."""

from __future__ import annotations

from benchmarks.metrics.base import f1, mean
from benchmarks.records import Record
from service.types import Answer
from suites import Suite


def _whole(record: Record, answer: Answer, suite: Suite) -> float:
    return float(bool(answer) and answer["state"] == record.gold)


def _slots(record: Record, answer: Answer, suite: Suite) -> float:
    """F1 of one turn's slots with their values; an empty state must stay empty."""
    if not answer:
        return 0.0
    gold, predicted = set(record.gold.items()), set(answer["state"].items())
    return f1(len(gold & predicted), len(gold), len(predicted), absent=1.0)


METRICS = {
    "joint_goal_accuracy": mean(_whole),
    # The benchmark calls it micro, but it is the mean of the turns' own F1.
    "slot_f1": mean(_slots),
}
