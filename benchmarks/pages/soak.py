"""A soak: what a server held while time went by, and whether it grew, leaked or failed."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from benchmarks.pages.axes import linear
from benchmarks.pages.figure import Section, figure
from benchmarks.pages.files import Result, those
from benchmarks.pages.formats import count, number
from benchmarks.pages.markup import Content, details, table
from benchmarks.pages.plots import Frame, Size, both
from benchmarks.pages.promises import verdict
from benchmarks.pages.shapes import Soak

READ = (
    "Memory of all of the server's processes over time, from nothing up: a server that keeps something of every "
    "request draws a slope. The first fifth, in which caches and pools fill, does not count."
)


def section(found: Sequence[Result]) -> Section | None:
    parts = [_soak(label, soak) for label, soak in those(found, Soak)]
    return Section("soak", "Soak", parts) if parts else None


def _soak(label: str, soak: Soak) -> Element:
    said = f"{count(soak.requests)} requests in {number(soak.minutes)} minutes, {number(soak.rate_per_s)} a second"
    rows: list[list[Content]] = [
        [v.text, verdict(v.kept), number(v.value), f"<= {number(v.most)}"] for v in soak.verdicts
    ]
    missed = [i for i, v in enumerate(soak.verdicts) if not v.kept]
    judged = table(f"Verdicts ({label})", ["what", "verdict", "measured", "bound"], rows, left=2, strong=missed)
    sent = table("Requests by kind and what became of them", ["kind", "requests"], _counts(soak.kinds))
    held = table(
        "Samples",
        ["minutes", "requests", "MB", "files", "threads", "processes"],
        [
            [
                number(s.seconds / 60),
                count(s.requests),
                number(s.rss_mb),
                str(s.files),
                str(s.threads),
                str(s.processes),
            ]
            for s in soak.samples
        ],
    )
    wrong = [table("Not answered as it should be", ["what", "requests"], _counts(soak.errors))] if soak.errors else []
    drawn = both(lambda size: _memory(soak, size))
    return figure(said, READ, *drawn, judged, *wrong, details("Numbers by time and kind", sent, held))


def _counts(counted: dict[str, int]) -> list[list[Content]]:
    return [[what, count(n)] for what, n in counted.items()]


def _memory(soak: Soak, size: Size) -> Element:
    points = [(s.seconds / 60, s.rss_mb) for s in soak.samples]
    minutes, most = max(x for x, _ in points), max(y for _, y in points)
    told = f"memory, {number(points[0][1])} MB at first and {number(points[-1][1])} MB at last"
    frame = Frame(size, linear(minutes), linear(most), ("minutes", "memory, MB"), told)
    frame.upright(minutes / 5, "from here on it counts")
    frame.line(points, 0, told, thick=True)
    return frame.svg
