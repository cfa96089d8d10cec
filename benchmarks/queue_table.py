"""What the comparison of queues found, as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Found = Mapping[str, Any]
Cell = Callable[[Found], str]


def ends(summary: Mapping[str, Any]) -> str:
    """Every end but an answer: how many, and how long its caller waited to hear of it."""
    waits = summary["other_p50_ms"]
    said = [f"{kind} x {n} ({waits[kind]:.0f} ms)" for kind, n in summary["kinds"].items() if kind != "200"]
    return ", ".join(said) or "none"


def _steady(phase: str) -> list[tuple[str, Cell]]:
    return [
        ("  p50 / p99, ms", lambda f: f"{f[phase]['p50_ms']:.1f} / {f[phase]['p99_ms']:.1f}"),
        ("  server CPU an answer, ms", lambda f: f"{f[phase]['cpu_ms']:.2f}"),
        ("  unanswered", lambda f: ends(f[phase])),
    ]


def _or_never(value: float | None, digits: int) -> str:
    return "never" if value is None else f"{value:.{digits}f}"


def _rows(setup: Mapping[str, Any]) -> list[tuple[str, Cell | None]]:
    rates, slo, crowd = setup["rates_per_s"], setup["slo_s"], setup["concurrency"]
    return [
        (f"Peak of {crowd} callers in closed loop, /s", lambda f: f"{f['peak_per_s']:.0f}"),
        ("A caller alone: median, ms", lambda f: _or_never(f["alone_ms"], 1)),
        (f"Light, {rates['light']:.0f}/s", None),
        *_steady("light"),
        (f"Heavy, {rates['heavy']:.0f}/s", None),
        *_steady("heavy"),
        (f"Overload, {rates['overload']:.0f}/s for {setup['seconds']:.0f} s", None),
        (f"  answered within {slo:.0f} s, /s", lambda f: f"{f['overload']['goodput_per_s']:.0f}"),
        ("  answered, but later", lambda f: str(f["overload"]["late"])),
        ("  refused or left (after, median)", lambda f: ends(f["overload"])),
        ("  server CPU a good answer, ms", lambda f: f"{f['overload']['cpu_ms_good']:.2f}"),
        ("After it: first answer, s", lambda f: _or_never(f["first_after_s"], 2)),
        ("  a caller alone: median, ms", lambda f: _or_never(f["alone_after_ms"], 1)),
        (f"One bad item among {crowd}: innocents failed", lambda f: "{failed} of {innocents}".format(**f["isolation"])),
        ("  the bad item got", lambda f: ", ".join(f["isolation"]["culprit"])),
        (
            "Generator: sent late by (worst p99), ms",
            lambda f: f"{max(f[phase]['lag_p99_ms'] for phase in rates):.1f}",
        ),
    ]


def table(setup: Mapping[str, Any], found: Mapping[str, Found]) -> str:
    """Rows of measurements, one column a server."""
    rows = [(label, [cell(f) if cell else "" for f in found.values()]) for label, cell in _rows(setup)]
    rows = [(f"{setup['bundle']}, seed {setup['seed']}", list(found)), *rows]
    widths = [max(len(cells[i]) for _, cells in rows) for i in range(len(found))]
    first = max(len(label) for label, _ in rows)
    lines = [
        "  ".join([label.ljust(first), *(cell.rjust(w) for cell, w in zip(cells, widths, strict=True))]).rstrip()
        for label, cells in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
