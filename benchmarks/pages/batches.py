"""How many rows ran together: what the queue made of the load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from benchmarks.pages.axes import linear
from benchmarks.pages.figure import Section, figure, panels
from benchmarks.pages.files import Result, runs, those
from benchmarks.pages.formats import NONE, percent
from benchmarks.pages.markup import table
from benchmarks.pages.plots import TINY, Frame, stacks
from benchmarks.pages.shapes import Peers

ENDS = (1, 2, 3, 4, 8, 16, 32, 64)
"""The most rows of each column; one more column holds the rest."""
NAMES = [
    *(str(b) if b == a + 1 else f"{a + 1}–{b}" for a, b in zip((0, *ENDS[:-1]), ENDS, strict=True)),
    f">{ENDS[-1]}",
]


def section(found: Sequence[Result]) -> Section | None:
    """Runs of load, and peers at their peak, whose answers say in how large a batch they ran."""
    named = [(f"{label}: {run.load}", run) for label, run in runs(found)]
    for label, contest in those(found, Peers):
        named += [(f"{label}: {peer.name}, {peer.peak.load}", peer.peak) for peer in contest.peers if peer.peak]
    shown = [(name, shares(run.batch_rows)) for name, run in named if sum(run.batch_rows.values())]
    if not shown:
        return None
    used = max(i for _, parts in shown for i, part in enumerate(parts) if part) + 1
    read = (
        "The share of answers by the number of rows that ran together with theirs. On CPUs rows alone are often "
        "cheapest, so that single ones are no fault; larger batches show under load where they pay. Runs whose "
        "rows all ran alone are not drawn."
    )
    rows = [[name, *(percent(part) if part else NONE for part in parts[:used])] for name, parts in shown]
    numbers = table("Share of answers by rows of their batch", ["run", *NAMES[:used]], rows)
    drawn = panels((name, _columns(parts[: max(used, 4)])) for name, parts in shown if parts[0] < 1)
    return Section("batches", "Batches", [figure("Rows that ran together", read, drawn, numbers)])


def shares(rows: Mapping[int, int]) -> list[float]:
    """Of answers, by `NAMES`."""
    counts = [0] * len(NAMES)
    for size, n in rows.items():
        counts[next((i for i, end in enumerate(ENDS) if size <= end), len(ENDS))] += n
    return [n / sum(counts) for n in counts]


def _columns(parts: Sequence[float]) -> Element:
    names = NAMES[: len(parts)]
    told = ", ".join(f"{name} rows: {percent(part)}" for name, part in zip(names, parts, strict=True) if part)
    y = linear(100, most=4)
    frame = Frame(TINY, y, y, ("rows in the batch", "% of answers"), told, named=names)
    stacks(frame, [(f"{n} rows: {percent(p)}", [("c0", 100 * p)]) for n, p in zip(names, parts, strict=True)], gap=0.3)
    return frame.svg
