"""How sure a score is: the interval that it falls into when the records are drawn anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.metrics.base import Metric
from benchmarks.records import Record
from service.types import Answer
from suites import Suite

SAMPLES = 1000
SEED = 20250101
LEVEL = 95


class Interval(NamedTuple):
    """A score and its percentile bootstrap interval of LEVEL percent."""

    value: float
    low: float
    high: float


def interval(
    metric: Metric, records: Sequence[Record], answers: Sequence[Answer], suite: Suite, samples: int = SAMPLES
) -> Interval:
    """The score over `records`, and the interval from `samples` draws of as many records, with replacement.

    The draws are the same for every metric and on every machine. A mean over classes is one over those that were drawn,
    so that with very rare classes the interval leans to one side of the score.
    """
    score = metric.weighted(records, answers, suite)
    rng = np.random.default_rng(SEED)
    n = len(records)
    drawn = [score(np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)) for _ in range(samples)]
    low, high = np.percentile(drawn, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return Interval(score(np.ones(n)), float(low), float(high))
