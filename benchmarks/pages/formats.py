"""Numbers as people read them."""

from __future__ import annotations

from datetime import datetime
from math import floor, log10

NONE = "–"


def number(value: float | None, digits: int = 3) -> str:
    """So many significant digits, more where they stand before the point, and no more than that behind it."""
    if value is None:
        return NONE
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - floor(log10(abs(rounded)))) if rounded else 0
    return f"{value:,.{min(decimals, digits)}f}"


def count(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """Rounded down, so that 100 % means all."""
    if share is None:
        return NONE
    shown = floor(share * 1000 + 1e-6) / 10
    return f"{shown:.0f} %" if shown in {0.0, 100.0} else f"{shown:.1f} %"


def quantile(value: float | None, part: float, answers: int) -> str:
    """A latency of which only so many answers are slower: none if that is less than one of them."""
    return number(value) if answers * (1 - part) >= 1 - 1e-9 else NONE


def moment(when: datetime) -> str:
    return f"{when.day} {when:%B %Y, %H:%M} {when.tzname() or ''}".strip()


def plural(n: int, word: str) -> str:
    return f"{n:,} {word}{'s' * (n != 1)}"
