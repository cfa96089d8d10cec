"""One label or one value a record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.metrics.base import Counts, OfWeights, Sum, Weighted, confusion, f1, macro_f1, mean
from benchmarks.records import Record
from service.types import Answer, Array
from suites import Suite


def _right(record: Record, answer: Answer, suite: Suite) -> float:
    return float(answer.get("label", answer.get("choice")) == record.gold)


def _pair(record: Record, answer: Answer, suite: Suite) -> Counts:
    return confusion([(record.gold, answer.get("label"))])


def _value(record: Record, answer: Answer, suite: Suite) -> float:
    """The model's raw value; for a refused record the end of the scale that is farther from the gold value."""
    if answer:
        return float(answer["value"])
    low, high = suite.decoder["score_range"]
    return float(low if record.gold - low > high - record.gold else high)


def _pearson(records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> OfWeights:
    """Pearson's r of raw values and gold values; 0 where one of them does not vary, because then it is undefined."""
    x = np.array([_value(r, a, suite) for r, a in zip(records, answers, strict=True)])
    y = np.array([float(r.gold) for r in records])

    def score(weights: Array) -> float:
        dx, dy = x - np.average(x, weights=weights), y - np.average(y, weights=weights)
        scale = float(weights @ dx**2) * float(weights @ dy**2)
        return 100 * float(weights @ (dx * dy)) / scale**0.5 if scale > 0 else 0.0

    return score


def _positive(record: Record, answer: Answer, suite: Suite) -> Counts:
    """F1 of the positive side: values from the suite's threshold on, or else the second of its two labels."""
    if "binary_threshold" in suite.decoder:
        threshold = suite.decoder["binary_threshold"]
        gold, predicted = record.gold >= threshold, _value(record, answer, suite) >= threshold
    else:
        _, positive = suite.labels
        gold = record.gold == positive
        predicted = answer["label"] == positive if answer else not gold
    return {"both": gold and predicted, "gold": gold, "predicted": predicted}


METRICS = {
    "accuracy": mean(_right),
    "macro_f1": Sum(_pair, lambda totals, _: macro_f1(totals)),
    "pearson": Weighted(_pearson),
    "binary_f1": Sum(_positive, lambda t, _: 100 * f1(t["both"], t["gold"], t["predicted"])),
}
