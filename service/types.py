"""The few shapes that every floor shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Row = dict[str, Array]
"""One unpadded model input: graph input name -> array without the batch axis."""

Outputs = dict[str, Array]
"""What the graph answered for one row: output name -> array without the batch axis, padding trimmed."""

Run = Callable[..., list[Outputs]]
"""`run(rows)`: rows in, one `Outputs` a row out, in order; `run(rows, stage="...")` where there are several graphs."""

Answer = dict[str, Any]
"""A JSON-ready answer: plain str, int, float, bool, None, list and dict only."""


@dataclass(slots=True)
class Timing:
    """Where one item's time went, in seconds, how many rows shared its take, what was read of it, and by which version.

    `unknown`: tokens for what the vocabulary lacks. `spans`: stages with start and end on the monotonic clock.
    """

    queue: float = 0.0
    tokenize: float = 0.0
    inference: float = 0.0
    decode: float = 0.0
    rows: int = 0
    tokens: int = 0
    unknown: int = 0
    version: str = ""
    spans: list[tuple[str, float, float]] = field(default_factory=list)

    def mark(self, stage: str, start: float, end: float) -> None:
        """A stage that is done, and that there is one of."""
        setattr(self, stage, end - start)
        self.spans.append((stage, start, end))


def sigmoid(x: Array) -> Array:
    """Elementwise logistic function, stable for large magnitudes."""
    return 0.5 * (1.0 + np.tanh(0.5 * x.astype(np.float64)))


def softmax(x: Array) -> Array:
    """Softmax over the last axis in float64, so that the result does not depend on the graph's precision."""
    x = x.astype(np.float64)
    e: Array = np.exp(x - x.max(axis=-1, keepdims=True))
    p: Array = e / e.sum(axis=-1, keepdims=True)
    return p


def rounded(value: float) -> float:
    """A probability or score as it leaves the service: a JSON number with six decimals.

    Padding changes the last bits of a float32 dot product; six decimals keep what the model knows.
    """
    return round(float(value), 6)
