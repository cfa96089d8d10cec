"""Where values lie on an axis, and which of them are written beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10

STEPS = (1, 2, 5)
MOST_TICKS = 10
"""Of a logarithmic axis; with more, only the powers of ten."""


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`. Equal steps of what `warp` makes of values are equally long."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    warp: Callable[[float], float] = float

    def part(self, value: float) -> float:
        """Where a value lies, 0 to 1; what is beyond an end lies at that end."""
        low, high = self.warp(self.low), self.warp(self.high)
        return (self.warp(min(self.high, max(self.low, value))) - low) / (high - low)


def linear(highest: float, lowest: float = 0.0, most: int = 5) -> Scale:
    """Between round numbers around both, in about so many steps."""
    step = _round_up((highest - lowest) / most) if highest > lowest else 1 / most
    first, last = floor(lowest / step + 1e-9), ceil(max(highest, lowest + step) / step - 1e-9)
    ticks = tuple((i * step, f"{i * step:.10g}") for i in range(first, last + 1))
    return Scale(ticks[0][0], ticks[-1][0], ticks)


def logarithmic(lowest: float, highest: float) -> Scale:
    """Positive values, between numbers that begin with 1, 2 or 5."""
    values = [s * 10.0**e for e in range(floor(log10(lowest)) - 1, ceil(log10(highest)) + 2) for s in STEPS]
    first = max(i for i, value in enumerate(values) if value <= lowest * (1 + 1e-9))
    last = min(i for i, value in enumerate(values) if value >= highest * (1 - 1e-9))
    values = values[first : max(last, first + 1) + 1]
    shown = [v for v in values if f"{v:e}".startswith("1")] if len(values) > MOST_TICKS else values
    return Scale(values[0], values[-1], tuple((v, f"{v:.10g}") for v in shown), log10)


def tail(answers: int) -> Scale:
    """Shares below 1: every further nine takes as much room as the one before, as far as so many answers tell."""
    nines = max(2.0, log10(max(1, answers)))
    shares = [0.0, 0.5, *(1 - 10.0**-n for n in range(1, floor(nines + 1e-9) + 1))]
    ticks = tuple((share, f"{share * 100:.10g} %") for share in shares)
    return Scale(0.0, 1 - 10.0 ** -(nines * 1.02), ticks, lambda share: -log10(1 - share))


def _round_up(value: float) -> float:
    power = 10.0 ** floor(log10(value))
    return next(s * power for s in (*STEPS, 10) if s * power >= value * (1 - 1e-9))
