"""Relations, whose first label says that there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.metrics.base import Counts, OfWeights, Sum, Weighted, f1
from benchmarks.records import Record
from service.types import Answer, Array
from suites import Suite


def _counts(record: Record, answer: Answer, suite: Suite) -> Counts:
    """Micro-F1 over every label but the first."""
    none, label = suite.labels[0], answer.get("label", suite.labels[0])
    gold, predicted = record.gold != none, label != none
    return {"both": gold and label == record.gold, "gold": gold, "predicted": predicted}


def _auprc(records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> OfWeights:
    """Unweighted mean over the labels, the first one included, of the area under the precision-recall curve.

    Only labels that occur in the gold are averaged. Over the whole development set those are all thirty, as in the
    official script; of a label that does not occur the curve is undefined, and what that script makes of it depends on
    the version of scikit-learn (nan, or half of the area).
    """
    table = np.array([_probabilities(answer, suite) for answer in answers])
    gold = np.array([record.gold for record in records])
    areas = [_area(gold == label, table[:, i]) for i, label in enumerate(suite.labels) if (gold == label).any()]

    def score(weights: Array) -> float:
        found = [area for of in areas if (area := of(weights)) is not None]
        return 100 * sum(found) / len(found)

    return score


def _probabilities(answer: Answer, suite: Suite) -> list[float]:
    by_label = {entry["label"]: float(entry["score"]) for entry in answer.get("scores", [])}
    return [by_label.get(label, 0.0) for label in suite.labels]


def _area(positive: Array, scores: Array) -> Callable[[Array], float | None]:
    """Area by the trapezoid rule; a point for each distinct score. None if no positive record has a weight."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    hits = positive[order].astype(np.float64)

    def area(weights: Array) -> float | None:
        drawn = weights[order]
        right, found = np.cumsum(drawn * hits)[ends], np.cumsum(drawn)[ends]
        if not right[-1]:
            return None
        right, found = right[found > 0], found[found > 0]
        precision, recall = np.append(1.0, right / found), np.append(0.0, right / right[-1])
        return float(np.sum(np.diff(recall) * (precision[1:] + precision[:-1]) / 2))

    return area


METRICS = {
    "relation_micro_f1": Sum(_counts, lambda t, _: 100 * f1(t["both"], t["gold"], t["predicted"])),
    "relation_auprc": Weighted(_auprc),
}
