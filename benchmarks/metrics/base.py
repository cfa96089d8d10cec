"""What a metric is, and its building blocks. Most are sums over records with a formula on top, and say so: `Sum`.

A bootstrap draws the records anew a thousand times. A metric then only adds up, under other weights, what it took from
each record once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.records import Record
from service.types import Answer, Array
from suites import Suite

Counts = Mapping[Hashable, float]
OfWeights = Callable[[Array], float]
"""A score as a function of how often each record counts, `[records]`."""


class Metric(Protocol):
    """`answers[i]` answers `records[i]`; it is `{}` where the server refused the record, which must count as wrong."""

    def __call__(self, records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> float: ...

    def weighted(self, records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> OfWeights:
        """The score under weights, for a bootstrap: a record may count more than once, or not at all."""
        ...


@dataclass(frozen=True)
class Weighted:
    """A metric made of `prepare`, which reads the records once and returns the score as a function of weights."""

    prepare: Callable[[Sequence[Record], Sequence[Answer], Suite], OfWeights]

    def __call__(self, records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> float:
        return self.prepare(records, answers, suite)(np.ones(len(records)))

    def weighted(self, records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> OfWeights:
        return self.prepare(records, answers, suite)


@dataclass(frozen=True)
class Sum:
    """A metric that sees its records only through the sum of what each of them counts.

    `score` reads the totals; a key that no record counted reads as 0.
    """

    count: Callable[[Record, Answer, Suite], Counts]
    score: Callable[[Counts, Suite], float]

    def __call__(self, records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> float:
        return self.weighted(records, answers, suite)(np.ones(len(records)))

    def weighted(self, records: Sequence[Record], answers: Sequence[Answer], suite: Suite) -> OfWeights:
        counted = [self.count(record, answer, suite) for record, answer in zip(records, answers, strict=True)]
        keys = {key: i for i, key in enumerate(dict.fromkeys(key for counts in counted for key in counts))}
        table = np.zeros((len(counted), len(keys)))
        for row, counts in zip(table, counted, strict=True):
            for key, value in counts.items():
                row[keys[key]] = value

        def score(weights: Array) -> float:
            totals: Counter[Hashable] = Counter()
            totals.update(dict(zip(keys, (weights @ table).tolist(), strict=True)))
            return float(self.score(totals, suite))

        return score


def mean(value: Callable[[Record, Answer, Suite], float]) -> Sum:
    """The mean over records of `value` (0 to 1), in percent."""

    def count(record: Record, answer: Answer, suite: Suite) -> Counts:
        return {"value": value(record, answer, suite), "n": 1}

    return Sum(count, lambda totals, _: 100 * totals["value"] / totals["n"])


def micro_f1(pair: Callable[[Record, Answer, Suite], tuple[Collection[Hashable], Collection[Hashable]]]) -> Sum:
    """Micro-F1 in percent of the (gold, predicted) sets that `pair` finds in each record."""

    def count(record: Record, answer: Answer, suite: Suite) -> Counts:
        gold, predicted = map(set, pair(record, answer, suite))
        return {"both": len(gold & predicted), "gold": len(gold), "predicted": len(predicted)}

    return Sum(count, lambda t, _: 100 * f1(t["both"], t["gold"], t["predicted"]))


def f1(both: float, gold: float, predicted: float, absent: float = 0.0) -> float:
    """F1 from counts; `absent` if there is neither gold nor prediction."""
    return 2 * both / (gold + predicted) if gold + predicted else absent


def confusion(pairs: Iterable[tuple[Hashable, Hashable]]) -> Counter[Hashable]:
    """What `macro_f1` needs of (gold, predicted) class pairs; a prediction of None is none at all."""
    counts: Counter[Hashable] = Counter()
    for gold, predicted in pairs:
        counts["gold", gold] += 1
        if predicted is not None:
            counts["predicted", predicted] += 1
            counts["both", gold] += gold == predicted
    return counts


def macro_f1(totals: Counts, classes: Collection[Hashable] | None = None, absent: float = 0.0) -> float:
    """Unweighted mean F1 over `classes` from `confusion` counts, in percent.

    By default over the classes that occur among gold or predicted ones, as scikit-learn does.
    """
    if classes is None:
        keys = (key for key, n in totals.items() if n and isinstance(key, tuple) and key[0] != "both")
        classes = list(dict.fromkeys(key[1] for key in keys))
    scores = [f1(totals["both", c], totals["gold", c], totals["predicted", c], absent) for c in classes]
    return 100 * sum(scores) / len(scores) if scores else 0.0
