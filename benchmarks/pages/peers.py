"""Other servers beside ours, with the same checkpoint, texts and cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element

from benchmarks import histogram
from benchmarks.pages.figure import Section, figure, key_of, panels
from benchmarks.pages.files import Result, those
from benchmarks.pages.formats import count, number, percent
from benchmarks.pages.latency import curves_figure
from benchmarks.pages.markup import Content, details, table, tag
from benchmarks.pages.plots import TINY, Bar, bars
from benchmarks.pages.shapes import Peer, Peers

Measure = tuple[str, str, Callable[[Peer], float | None]]
LAST = float("inf")


def p99(peer: Peer) -> float | None:
    return peer.at_70.latency_ms.p99 if peer.at_70 else None


MEASURES: tuple[Measure, ...] = (  # the first is what the floor is compared with
    ("CPU a request, ms", "less is better", lambda peer: peer.cpu_ms),
    ("capacity, requests/s", "more is better", lambda peer: peer.capacity_per_s),
    ("p99 at 70 % load, ms", "less is better", p99),
    ("start to first answer, s", "less is better", lambda peer: peer.start_s),
    ("memory (RSS), MB", "less is better", lambda peer: peer.rss_mb),
)


def section(found: Sequence[Result]) -> Section | None:
    contests = those(found, Peers)
    parts = [part for label, contest in contests for part in _contest(label, contest)]
    return Section("peers", "Peers", parts) if parts else None


def ordered(contest: Peers) -> list[Peer]:
    """The least CPU a request first; at the end what could not be measured."""
    return sorted(contest.peers, key=lambda peer: LAST if peer.cpu_ms is None else peer.cpu_ms)


def floor_ms(contest: Peers) -> float | None:
    """Of the bundle that ours serves beside the others."""
    return contest.floors["ours"].cpu_ms if "ours" in contest.floors else None


def _contest(label: str, contest: Peers) -> list[Element]:
    floor, rows = floor_ms(contest), ordered(contest)
    drawings = []
    for i, (title, better, value) in enumerate(MEASURES):
        drawn = [Bar(peer.name, value(peer), "ours" if peer.ours else "other") for peer in rows]
        mark = (floor, f"floor {number(floor)}") if floor is not None and i == 0 else None
        drawings.append((tag("span", title, tag("small", better)), bars(TINY, drawn, title, mark=mark)))
    read = (
        f"Every server had the same checkpoint ({contest.model}), the same texts and the same "
        f"{len(contest.cpus)} cores, one after another. CPU a request is the server's, with 32 callers in closed loop; "
        "the dashed floor is what tokenising and running the model cost without a server."
    )
    key = key_of([("ours", "this server"), ("other", "the others")])
    compared = figure(
        f"{label}: {contest.model} model", read, key, panels(drawings), _table(rows, floor), *_notes(rows)
    )
    loaded = sorted((peer for peer in rows if peer.at_70), key=lambda peer: not peer.ours)
    curves = [(p.name, p.at_70.slo_ms, histogram.decode(p.at_70.histogram)) for p in loaded if p.at_70]
    ours = [peer.name for peer in loaded if peer.ours]
    return [compared, *curves_figure(f"{label}: latency at 70 % of each one's own capacity", curves, thick=ours)]


def _table(rows: Sequence[Peer], floor: float | None) -> Element:
    best = next((peer.cpu_ms for peer in rows if peer.ours and peer.cpu_ms), None)
    shown: list[list[Content]] = []
    for peer in rows:
        ratios = [_times(peer.cpu_ms, floor), _times(peer.cpu_ms, best)]
        numbers = [number(peer.capacity_per_s), number(p99(peer)), number(peer.start_s), count(peer.rss_mb)]
        shown.append([peer.name, peer.title, number(peer.cpu_ms), *ratios, *numbers, percent(peer.labels_equal)])
    head = [
        "server",
        "what it is",
        "CPU ms",
        "× floor",
        "× ours",
        "capacity/s",
        "p99 ms at 70 %",
        "start, s",
        "RSS, MB",
    ]
    strong = [i for i, peer in enumerate(rows) if peer.ours]
    return table("Servers, the least CPU first", [*head, "same labels"], shown, left=2, strong=strong)


def _times(value: float | None, of: float | None) -> str:
    return number(value / of if value is not None and of else None)


def _notes(rows: Sequence[Peer]) -> list[Element]:
    """Why a row is not full, and the versions of those that are."""
    failed = [tag("li", tag("strong", peer.name), f": {peer.error}") for peer in rows if peer.error]
    used = [
        [p.name, ", ".join(f"{name} {version}" for name, version in p.versions.items())] for p in rows if p.versions
    ]
    notes = [tag("h4", "Not measured, or not all of it"), tag("ul", *failed, class_="plain")] if failed else []
    return notes + (
        [details("Versions", table("Of each server's packages", ["server", "packages"], used, left=2))] if used else []
    )
