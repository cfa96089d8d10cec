"""Searches for capacity: every rate that was tried, and its p99."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from benchmarks.pages.axes import linear, logarithmic
from benchmarks.pages.figure import Section, figure, key_of, note
from benchmarks.pages.files import Result, those
from benchmarks.pages.formats import NONE, number, percent, plural, quantile
from benchmarks.pages.markup import table, tag
from benchmarks.pages.plots import Frame, Size, both
from benchmarks.pages.run_shapes import Capacity, Try

KEY = (("passed", "99 % of all requests in time"), ("missed", "less"), ("passed confirm", "confirming run"))


def section(found: Sequence[Result]) -> Section | None:
    parts = [part for label, search in those(found, Capacity) for part in _search(label, search)]
    return Section("capacity", "Capacity", parts) if parts else None


def _search(label: str, search: Capacity) -> list[Element]:
    tries = [t for t in search.tries if t.run.latency_ms.p99]
    title = f"{label}: {search.name}"
    if not tries:
        return [figure(title, f"No rate could be tried with an SLO of {search.slo_ms:g} ms.", note(*_verdict(search)))]
    read = (
        "A mark for each rate that was tried: p99 of its answers against the rate. A rate passes if 99 % of all that "
        "were sent are answered within the SLO; refusals and errors are misses, whatever the p99 of the others."
    )
    key = key_of(KEY)
    return [
        figure(
            title, read, note(*_verdict(search)), key, *both(lambda size: _dots(search, tries, size)), _table(search)
        )
    ]


def _dots(search: Capacity, tries: Sequence[Try], size: Size) -> Element:
    rates = [t.rate_per_s for t in tries]
    p99s = [(t, t.run.latency_ms.p99 or 0.0) for t in tries]
    y = logarithmic(min(search.slo_ms, *(ms for _, ms in p99s)), max(search.slo_ms, *(ms for _, ms in p99s)))
    low, high = min(rates), max(rates)
    room = 0.08 * (high - low) or 0.5 * high
    told = f"p99 of {len(tries)} rates, from {number(low)} to {number(high)} requests/s"
    frame = Frame(size, linear(high + room, max(0.0, low - room)), y, ("rate, requests/s", "p99, ms"), told)
    frame.level(search.slo_ms, f"SLO {search.slo_ms:g} ms")
    if search.capacity_per_s:
        frame.upright(search.capacity_per_s, f"capacity {number(search.capacity_per_s)}/s")
    for t, ms in p99s:
        said = f"{t.phase}: {number(t.rate_per_s)}/s, p99 {number(ms)} ms, {'passed' if t.passed else 'missed'}"
        class_ = ("passed" if t.passed else "missed") + (" confirm" if t.phase == "confirm" else "")
        frame.dot(t.rate_per_s, ms, class_, said, cross=not t.passed)
    return frame.svg


def _verdict(search: Capacity) -> tuple[Element, str]:
    """The capacity, and what else is known of the server."""
    alone = "" if search.alone_p50_ms is None else f" A caller alone waits {number(search.alone_p50_ms)} ms (p50)."
    if search.peak:
        alone += f" {search.peak.callers} callers in closed loop get {number(search.peak.answered_per_s)} answers/s."
    if not search.capacity_per_s:
        return tag("b", f"No rate kept 99 % of its requests within {search.slo_ms:g} ms."), alone
    runs = plural(len(search.confirmed()), "run")
    said = f"{number(search.capacity_per_s)} requests/s, confirmed by {runs} of {search.seconds:g} s."
    return tag("b", said), alone


def _table(search: Capacity) -> Element:
    rows = []
    for t in search.tries:
        run, ms = t.run, t.run.latency_ms
        quantiles = [quantile(ms.p50, 0.5, run.answered), quantile(ms.p99, 0.99, run.answered)]
        others = ", ".join(f"{kind} × {n:,}" for kind, n in run.kinds.items() if kind != "200") or NONE
        cpu = number(run.server.cpu_ms_per_answer if run.server else None)
        late = number(run.generator.lag_p99_ms) + (" (too late)" if run.generator.saturated else "")
        share = percent(run.good / run.offered if run.offered else None)
        said = "passed" if t.passed else "missed"
        rows.append([t.phase, number(t.rate_per_s), said, share, *quantiles, cpu, late, others])
    head = ["phase", "rate/s", "verdict", "in time", "p50, ms", "p99, ms", "CPU ms an answer", "sent late, ms (p99)"]
    return table("Tries, in their order", [*head, "otherwise"], rows)
