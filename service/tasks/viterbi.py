"""Linear-chain CRF outside the graph: the best sequence of classes, and how probable each of its members is.

One unpadded sequence at a time, in float64: no batch, no mask, nothing that could depend on company.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import model_validator

from service.bundle import Strict
from service.types import Array


class Crf(Strict):
    """Scores of a chain over `C` classes: `transitions[i][j]` of class j right behind class i `[C, C]`, `start` of
    beginning with a class and `end` of ending with one `[C]`. `span`: the chain runs over all tokens of a row, special
    ones included, or over those of the text only, as it was trained."""

    transitions: list[list[float]]
    start: list[float]
    end: list[float]
    span: Literal["all", "text"]

    @model_validator(mode="after")
    def _square(self) -> Crf:
        sizes = {len(self.transitions), len(self.start), len(self.end), *map(len, self.transitions)}
        if len(sizes) != 1:
            raise ValueError(f"transitions, start and end are of different sizes: {sorted(sizes)}")
        return self

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        return np.array(self.transitions), np.array(self.start), np.array(self.end)


def decode(emissions: Array, crf: Crf) -> tuple[Array, Array]:
    """The best sequence of classes `[T]` for emissions `[T, C]`, and the probability of each of them `[T]`."""
    chain = crf.arrays
    path = best_path(emissions, *chain)
    return path, marginals(emissions, *chain)[np.arange(len(path)), path]


def best_path(emissions: Array, transitions: Array, start: Array, end: Array) -> Array:
    """Classes `[T]` of the sequence with the highest score, of emissions `[T, C]`, `T` > 0; of equals the first."""
    scores = emissions.astype(np.float64)
    score = start + scores[0]
    came_from = np.zeros(scores.shape, dtype=np.int64)
    for t in range(1, len(scores)):
        reach = score[:, None] + transitions
        came_from[t] = reach.argmax(axis=0)
        score = reach.max(axis=0) + scores[t]
    path = np.zeros(len(scores), dtype=np.int64)
    path[-1] = (score + end).argmax()
    for t in range(len(scores) - 1, 0, -1):
        path[t - 1] = came_from[t, path[t]]
    return path


def marginals(emissions: Array, transitions: Array, start: Array, end: Array) -> Array:
    """Probability `[T, C]` of each class at each place, over all sequences; emissions `[T, C]`, `T` > 0."""
    scores = emissions.astype(np.float64)
    forward, backward = np.zeros_like(scores), np.zeros_like(scores)
    forward[0], backward[-1] = start + scores[0], end
    for t in range(1, len(scores)):
        forward[t] = _log_sum(forward[t - 1][:, None] + transitions, axis=0) + scores[t]
    for t in range(len(scores) - 2, -1, -1):
        backward[t] = _log_sum(transitions + (scores[t + 1] + backward[t + 1])[None, :], axis=1)
    log = forward + backward
    p: Array = np.exp(log - _log_sum(log, axis=1)[:, None])
    return p


def _log_sum(x: Array, axis: int) -> Array:
    """Logarithm of the sum of exponentials along an axis, stable for large magnitudes."""
    top = x.max(axis=axis, keepdims=True)
    total: Array = np.log(np.exp(x - top).sum(axis=axis)) + top.squeeze(axis)
    return total
