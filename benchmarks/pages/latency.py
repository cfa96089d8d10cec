"""How late answers came: distributions over a tail axis, and the table of the runs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from xml.etree.ElementTree import Element

from hdrh.histogram import HdrHistogram

from benchmarks import histogram
from benchmarks.pages.axes import logarithmic, tail
from benchmarks.pages.figure import Section, figure
from benchmarks.pages.files import Result, runs, those
from benchmarks.pages.formats import count, number, percent, quantile
from benchmarks.pages.markup import Content, table
from benchmarks.pages.plots import Frame, Size, both, legend
from benchmarks.pages.run_shapes import Capacity, Run

Curve = tuple[str, float, HdrHistogram]
"""What a line is called, its SLO in milliseconds, and its latencies."""
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def section(found: Sequence[Result]) -> Section | None:
    """All runs of load in one plot; a capacity comes as its confirming runs together."""
    curves = [(f"{label}: {run.load}", run.slo_ms, histogram.decode(run.histogram)) for label, run in runs(found)]
    for label, search in those(found, Capacity):
        if confirmed := search.confirmed():
            merged = histogram.merged(run.histogram for run in confirmed)
            together = f" ({len(confirmed)} runs merged)" if len(confirmed) > 1 else ""
            curves.append(
                (f"{label}: its capacity, {confirmed[0].rate_per_s or 0:.4g}/s{together}", search.slo_ms, merged)
            )
    runs_of_load = runs(found)
    numbers = [runs_table("Runs of load", runs_of_load)] if runs_of_load else []
    parts = curves_figure("How late answers came", curves, *numbers) or numbers
    return Section("latency", "Latency", parts) if parts else None


def curves_figure(title: str, curves: Sequence[Curve], *below: Element, thick: Container[str] = ()) -> list[Element]:
    """A figure with what belongs below its plot, the lines named in `thick` stand out; none if nothing was answered."""
    curves = [curve for curve in curves if curve[2].total_count]
    if not curves:
        return []
    lines = [steps(latencies) for _, _, latencies in curves]
    slos = sorted({slo for _, slo, _ in curves})
    every = [ms for line in lines for _, ms in line] + slos
    p99s = [(name, latencies.get_value_at_percentile(99) / 1000) for name, _, latencies in curves]
    told = "p99: " + "; ".join(f"{name}, {number(p99)} ms" for name, p99 in p99s)

    def draw(size: Size) -> Element:
        x = tail(max(latencies.total_count for *_, latencies in curves))
        titles = ("share of the answers", "came within, ms")
        frame = Frame(size, x, logarithmic(min(every), max(every)), titles, told)
        for slo in slos:
            frame.level(slo, f"SLO {slo:g} ms")
        for i, ((name, *_), line) in enumerate(zip(curves, lines, strict=True)):
            frame.line(line, i, name, steps=True, thick=name in thick)
        frame.ends([line[-1] for line in lines])
        return frame.svg

    read = (
        "Each line says within how many milliseconds a share of the answers came; the longer it stays below the dashed "
        "SLO, the better, and at its right end is the slowest answer. Both axes are logarithmic: each further nine of "
        "the tail has the same room. Refusals and errors are not in it."
    )
    return [figure(title, read, legend([name for name, *_ in curves]), *both(draw), *below)]


def steps(latencies: HdrHistogram) -> list[tuple[float, float]]:
    """(share, ms) for each value in order: that share of the answers came within so many milliseconds.

    All of them would be a share of 1, which a tail axis does not have: the slowest stands where the others end.
    """
    total, reached, found = latencies.total_count, 0, []
    for item in latencies.get_recorded_iterator():
        reached += item.count_at_value_iterated_to
        found.append((min(reached, total - 1) / total, item.value_iterated_to / 1000))
    return [(0.0, found[0][1]), *found]


def runs_table(name: str, runs: Sequence[tuple[str, Run]]) -> Element:
    """A row a run. A quantile that too few answers are beyond is left out."""
    rows: list[list[Content]] = []
    for label, run in runs:
        ms, used = run.latency_ms, run.server
        values = (ms.p50, ms.p90, ms.p99, ms.p999)
        share = run.good / run.offered if run.offered else None
        rows.append(
            [
                label,
                run.load,
                count(run.offered),
                number(run.answered_per_s),
                f"{number(run.goodput_per_s)} ({percent(share)})",
                *(quantile(v, q, run.answered) for v, q in zip(values, QUANTILES.values(), strict=True)),
                number(ms.max),
                number(used.cpu_ms_per_answer if used else None),
                count(used.rss_mb if used else None),
                number(run.generator.lag_p99_ms),
            ]
        )
    head = ["run", "load", "offered", "answered/s", "goodput/s (of all)", *(f"{q}, ms" for q in QUANTILES), "max, ms"]
    return table(name, [*head, "CPU ms an answer", "RSS, MB", "sent late, ms (p99)"], rows, left=2)
