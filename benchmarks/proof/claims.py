"""A promise, its bound, and whether a measured figure keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("claims.yaml")


@dataclass(frozen=True)
class Claim:
    """A bound from above (`most`) or from below (`least`), and a goal beyond it."""

    text: str
    most: float | None = None
    least: float | None = None
    goal: float | None = None

    def kept(self, value: float) -> bool:
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    def bound(self) -> str:
        bound = f"<= {self.most:g}" if self.most is not None else f">= {self.least:g}"
        return bound + (f" (goal {self.goal:g})" if self.goal is not None else "")


@cache
def known() -> dict[str, Claim]:
    return {name: Claim(**fields) for name, fields in yaml.safe_load(FILE.read_text(encoding="utf-8")).items()}


def verdicts(figures: Mapping[str, float]) -> list[dict[str, Any]]:
    """Every claim that was measured, with its figure and whether it is kept, in the order of the file."""
    return [
        {"claim": name, "text": c.text, "value": figures[name], "bound": c.bound(), "kept": c.kept(figures[name])}
        for name, c in known().items()
        if name in figures
    ]


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """A line a claim."""
    rows = [(v["text"], f"{v['value']:.3g}", v["bound"], "kept" if v["kept"] else "MISSED") for v in found]
    widths = [max(len(row[i]) for row in rows) for i in range(3)] if rows else []
    return "\n".join(
        f"{text:<{widths[0]}}  {value:>{widths[1]}}  {bound:<{widths[2]}}  {kept}" for text, value, bound, kept in rows
    )
