"""What became of requests second by second: what an overload or a burst does to a server, and how it recovers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import ceil
from typing import NamedTuple
from xml.etree.ElementTree import Element

from benchmarks.pages.axes import Scale, linear, logarithmic
from benchmarks.pages.figure import Section, figure, key_of, panels
from benchmarks.pages.files import Result, runs, those
from benchmarks.pages.formats import NONE, count, number, percent
from benchmarks.pages.markup import details, table
from benchmarks.pages.plots import SMALL, Frame, colour, stacks
from benchmarks.pages.run_shapes import Capacity, Run, Second
from benchmarks.run import REFUSALS

MOST_COLUMNS = 60
"""A longer run has several seconds in each."""
LINES = 2
"""The first colour of the latencies: others than those of the columns."""
FATES = (
    ("good", "answered within the SLO"),
    ("late", "answered later"),
    ("refused", "refused"),
    ("failed", "error or no answer"),
)
QUANTILES = ("p50", "p99")


class Span(NamedTuple):
    """Some seconds: rates a second, and the worst second's quantiles."""

    start: int
    good: float
    late: float
    refused: float
    failed: float
    p50: float | None
    p99: float | None


def section(found: Sequence[Result]) -> Section | None:
    """Every run of load, beside the capacity of the same models where that is known."""
    timed = [(label, run) for label, run in runs(found) if run.timeline]
    if not timed:
        return None
    capacities = {search.name: search.capacity_per_s for _, search in those(found, Capacity)}
    shown: list[tuple[str, Element]] = []
    for label, run in timed:
        parts = spans(run.timeline, run.seconds)
        shown.append((f"{label}: {run.load}", _fates(run, parts, capacities.get(run.name))))
        shown.append((f"{label}: latency of answers", _latencies(run, parts)))
    read = (
        "First, what became of the requests that were due in each second: under too much load a good server goes on "
        "answering at its capacity (dashed, where it was measured) in time and refuses the rest. Beside it, how late "
        "its answers were, and how soon they are back to normal."
    )
    colours = key_of([*FATES, *((colour(LINES + i), f"latency, {name}") for i, name in enumerate(QUANTILES))])
    seconds = details("Numbers by second", *(_seconds_table(label, run.timeline) for label, run in timed))
    drawn = figure("Goodput over time", read, colours, panels(shown, pairs=True), _totals_table(timed), seconds)
    return Section("timeline", "Over time", [drawn])


def spans(timeline: Sequence[Second], seconds: float) -> list[Span]:
    """The run in at most `MOST_COLUMNS` parts of equally many whole seconds; in some of them nothing may be due."""
    length = max(ceil(seconds), *(second.second + 1 for second in timeline))
    width = ceil(length / MOST_COLUMNS)
    grouped = {k: list(those) for k, those in groupby(timeline, lambda second: second.second // width)}
    found = []
    for k in range(ceil(length / width)):
        part = grouped.get(k, [])
        covered = min(width, length - k * width)
        rate = {
            fate: sum(getattr(s, fate) for s in part) / covered for fate in ("answered", "good", "refused", "failed")
        }
        p50 = max((s.p50_ms for s in part if s.p50_ms is not None), default=None)
        p99 = max((s.p99_ms for s in part if s.p99_ms is not None), default=None)
        late = rate["answered"] - rate["good"]
        found.append(Span(k * width, rate["good"], late, rate["refused"], rate["failed"], p50, p99))
    return found


def _time(run: Run, parts: Sequence[Span]) -> Scale:
    end = max(run.seconds, parts[-1].start + 1)
    return Scale(0.0, end, tuple(tick for tick in linear(end).ticks if tick[0] <= end))


def _fates(run: Run, parts: Sequence[Span], capacity: float | None) -> Element:
    columns = []
    for part in parts:
        heights = [(name, getattr(part, name)) for name, _ in FATES]
        said = ", ".join(f"{name} {number(height)}" for name, height in heights)
        columns.append((f"second {part.start}: {said} a second", heights))
    tallest = max(sum(height for _, height in heights) for _, heights in columns)
    told = f"{run.good} of {run.offered} requests in time"
    frame = Frame(SMALL, _time(run, parts), linear(max(tallest, capacity or 0)), ("seconds", "requests/s"), told)
    stacks(frame, columns)
    if capacity:
        frame.level(capacity, f"capacity {number(capacity)}/s", above=True)
    return frame.svg


def _latencies(run: Run, parts: Sequence[Span]) -> Element:
    lines = {"p50": [(p.start + 0.5, p.p50) for p in parts], "p99": [(p.start + 0.5, p.p99) for p in parts]}
    every = [run.slo_ms, *(ms for line in lines.values() for _, ms in line if ms)]
    told = f"latency by second, {number(min(every))} to {number(max(every))} ms"
    frame = Frame(SMALL, _time(run, parts), logarithmic(min(every), max(every)), ("seconds", "latency, ms"), told)
    frame.level(run.slo_ms, f"SLO {run.slo_ms:g} ms", above=True)
    for i, (name, line) in enumerate(lines.items()):
        for known, stretch in groupby(line, lambda point: point[1] is not None):
            points = [(second, ms) for second, ms in stretch if ms is not None]
            if known:
                frame.line(points, LINES + i, name)
    return frame.svg


def _totals_table(runs: Sequence[tuple[str, Run]]) -> Element:
    rows = []
    for label, run in runs:
        refused, all_ = sum(run.kinds.get(kind, 0) for kind in REFUSALS), run.offered
        late = run.answered - run.good
        failed = ", ".join(f"{kind} × {n:,}" for kind, n in run.kinds.items() if kind not in {"200", *REFUSALS})
        times = (run.refused_ms.p50, run.refused_ms.p99) if run.refused_ms else (None, None)
        shares = [f"{count(n)} ({percent(n / all_ if all_ else None)})" for n in (run.good, late, refused)]
        rows.append([label, count(all_), *shares, failed or NONE, *map(number, times), percent(run.retry_after)])
    head = ["run", "offered", "in time", "late", "refused", "otherwise", "refused after, ms (p50)", "p99"]
    return table("What became of the requests", [*head, "with Retry-After"], rows)


def _seconds_table(label: str, timeline: Sequence[Second]) -> Element:
    rows = [
        [str(s.second), *map(count, (s.answered, s.good, s.refused, s.failed)), *map(number, (s.p50_ms, s.p99_ms))]
        for s in timeline
    ]
    return table(label, ["second", "answered", "in time", "refused", "failed", "p50, ms", "p99, ms"], rows)
