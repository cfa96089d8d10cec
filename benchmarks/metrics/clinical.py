"""Risks, phenotypes, stages and lengths of stay, scored as the MIMIC-III benchmarks score their tasks.

Areas and kappa are in percent; the deviation is in the unit of the values. Gold is a label, a list of labels, a value,
or `{"label": ..., "value": ...}` where the data has both. Of two exclusive labels only the second is an event with a
risk of its own; otherwise every label is. A label is averaged if some records have it and some do not. A record that
the server refused gets the worst answer there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.metrics.base import Counts, OfWeights, Sum, Weighted
from benchmarks.records import Record
from service.types import Answer, Array
from suites import Suite


class Curve(NamedTuple):
    """Weights of the records at or above each distinct score, `[thresholds]`: those with the event, those without."""

    hits: Array
    alarms: Array

    @property
    def precision(self) -> Array:
        precision: Array = self.hits / (self.hits + self.alarms)
        return precision

    @property
    def recall(self) -> Array:
        recall: Array = self.hits / self.hits[-1]
        return recall


def curve(event: Array, scores: Array, weights: Array) -> Curve | None:
    """The thresholds' curve of records with weights; None unless some have the event and some have not."""
    event, scores, weights = event[weights > 0], scores[weights > 0], weights[weights > 0]
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    found = Curve(np.cumsum(weights[order] * event[order])[ends], np.cumsum(weights[order] * ~event[order])[ends])
    return found if found.hits[-1] > 0 and found.alarms[-1] > 0 else None


def roc_auc(c: Curve) -> float:
    """Area under recall over false positive rate, by the trapezoid rule."""
    return _area(np.append(0.0, c.alarms / c.alarms[-1]), np.append(0.0, c.recall))


def auprc(c: Curve) -> float:
    """Area under precision over recall, by the trapezoid rule; precision begins at 1."""
    return _area(np.append(0.0, c.recall), np.append(1.0, c.precision))


def min_precision_sensitivity(c: Curve) -> float:
    """The best threshold's lesser one of precision and sensitivity (which is recall)."""
    return float(np.minimum(c.precision, c.recall).max())


def _area(x: Array, y: Array) -> float:
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def _events(records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> tuple[Array, Array]:
    """Whether each record has each event, and the risk that was predicted, both `[records, events]`."""
    single = not any(isinstance(_label(record), list) for record in records)
    labels = suite.labels[1:] if single and len(suite.labels) == 2 else suite.labels
    event = np.array([[_has(_label(record), label) for label in labels] for record in records], dtype=bool)
    risk = np.array([_risks(answer, labels, own) for answer, own in zip(answers, event, strict=True)])
    return event, risk


def _label(record: Record) -> Any:
    return record.gold["label"] if isinstance(record.gold, dict) else record.gold


def _has(gold: Any, label: str) -> bool:
    return label in gold if isinstance(gold, list) else bool(gold == label)


def _risks(answer: Answer, labels: Sequence[str], event: Array) -> list[float]:
    if not answer:
        return [0.0 if own else 1.0 for own in event]
    by_label = {entry["label"]: float(entry["score"]) for entry in answer["scores"]}
    return [by_label[label] for label in labels]


def _macro(score: Callable[[Curve], float]) -> Weighted:
    """The unweighted mean over events, 0 if no event can be scored."""

    def prepare(records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> OfWeights:
        event, risk = _events(records, answers, suite)

        def of(weights: Array) -> float:
            curves = [curve(e, r, weights) for e, r in zip(event.T, risk.T, strict=True)]
            scores = [score(c) for c in curves if c is not None]
            return 100 * sum(scores) / len(scores) if scores else 0.0

        return of

    return Weighted(prepare)


def _micro(score: Callable[[Curve], float]) -> Weighted:
    """One curve of every record's every event, 0 if it cannot be drawn."""

    def prepare(records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> OfWeights:
        event, risk = _events(records, answers, suite)

        def of(weights: Array) -> float:
            c = curve(event.ravel(), risk.ravel(), np.repeat(weights, event.shape[1]))
            return 0.0 if c is None else 100 * score(c)

        return of

    return Weighted(prepare)


def _classes(record: Record, answer: Answer, suite: Suite) -> Counts:
    gold, last = suite.labels.index(_label(record)), len(suite.labels) - 1
    farthest = 0 if 2 * gold > last else last
    return {(gold, suite.labels.index(answer["label"]) if answer else farthest): 1}


def _kappa(totals: Counts, suite: Suite) -> float:
    """Cohen's kappa whose weights grow with the distance of two classes in the suite's order."""
    n = len(suite.labels)
    table = np.array([[totals[i, j] for j in range(n)] for i in range(n)])
    distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    expected = float((distance * chance).sum())
    return 100 * (1 - float((distance * table).sum()) / expected) if expected else 0.0


def _deviation(record: Record, answer: Answer, suite: Suite) -> Counts:
    gold = float(record.gold["value"] if isinstance(record.gold, dict) else record.gold)
    predicted = [float(answer["value"])] if answer else list(_scale(suite))
    return {"deviation": max(abs(value - gold) for value in predicted), "n": 1}


def _scale(suite: Suite) -> Iterator[float]:
    """The least and the greatest value that the suite's model can give."""
    values = suite.decoder.get("score_range") or suite.decoder["class_values"].values()
    yield float(min(values))
    yield float(max(values))


METRICS = {
    "roc_auc_macro": _macro(roc_auc),
    "roc_auc_micro": _micro(roc_auc),
    "auprc": _macro(auprc),
    "min_precision_sensitivity": _macro(min_precision_sensitivity),
    "linear_kappa": Sum(_classes, _kappa),
    "mean_absolute_deviation": Sum(_deviation, lambda totals, _: totals["deviation"] / totals["n"]),
}
