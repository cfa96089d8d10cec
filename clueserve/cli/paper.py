"""What a terminal shows: colours where there are any, columns that Chinese and Korean characters keep straight."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO
from zlib import crc32

CODES = re.compile(r"\x1b\[[0-9;]*m")
COLOURS = (31, 32, 33, 34, 35, 36, 91, 92, 94, 95, 96)
BLOCKS = " ▏▎▍▌▋▊▉█"
BAR = 20


@dataclass(frozen=True)
class Paper:
    """`colour`: whether codes for it are understood."""

    colour: bool

    @classmethod
    def of(cls, stream: TextIO) -> Paper:
        return cls(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")

    def bold(self, text: str) -> str:
        return self._coded("1", text)

    def dim(self, text: str) -> str:
        return self._coded("2", text)

    def alarm(self, text: str) -> str:
        return self._coded("31", text)

    def tint(self, text: str, kind: str) -> str:
        """A colour for each kind, the same every time."""
        return self._coded(str(COLOURS[crc32(kind.encode()) % len(COLOURS)]), text)

    def _coded(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text


def width(text: str) -> int:
    """Columns that a text takes."""
    shown = CODES.sub("", text)
    return sum(
        0
        if unicodedata.combining(c) or unicodedata.category(c) == "Cf"
        else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in shown
    )


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows with their columns under each other."""
    rows = list(rows)
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell + " " * (most - width(cell)) for cell, most in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def bar(score: float) -> str:
    """A probability as a bar of `BAR` columns."""
    eighths = round(min(1.0, max(0.0, score)) * BAR * 8)
    full, rest = divmod(eighths, 8)
    return (BLOCKS[8] * full + (BLOCKS[rest] if rest else "")).ljust(BAR)
