"""What items cost: the floor of bundles without a server, and batch jobs over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.pages.figure import Section, figure, key_of, panels
from benchmarks.pages.files import Result, those
from benchmarks.pages.formats import NONE, count, number, plural
from benchmarks.pages.markup import Content, table
from benchmarks.pages.plots import TINY, Bar, bars, both, colour
from benchmarks.pages.shapes import Limit, Offline


def limit(found: Sequence[Result]) -> Section | None:
    """A panel a bundle: its ways on one thread and on all."""
    shown = [floor for _, limits in those(found, Limit) for floor in limits.root]
    if not shown:
        return None
    threads = sorted({way.threads for floor in shown for way in floor.ways})
    highest = max(way.items_per_s for floor in shown for way in floor.ways)
    drawings, least = [], []
    rows: list[list[Content]] = []
    for floor in shown:
        title = f"{floor.name}, {floor.precision}: items/s"
        drawn = [
            Bar(f"{w.way}, {_threads(w.threads)}", w.items_per_s, colour(threads.index(w.threads))) for w in floor.ways
        ]
        drawings.append((title, bars(TINY, drawn, "items/s", highest=highest)))
        for way in floor.ways:
            if way.cpu_ms == floor.cpu_ms:
                least.append(len(rows))
            about = [floor.name, floor.precision, way.way, str(way.threads), number(floor.tokens_per_item)]
            rows.append([*about, number(way.cpu_ms), number(way.wall_ms), number(way.items_per_s)])
    read = (
        "Tokenising and running by themselves, with no server: what no server can beat. Longer is better. alone: each "
        "row a run of its own; naive: 16 as they come, padded to the longest; split: the same 16, grouped by length."
    )
    head = ["bundle", "precision", "way", "threads", "tokens an item", "CPU ms an item", "wall ms an item", "items/s"]
    numbers = table("The least CPU of each bundle on one thread is its floor (bold)", head, rows, left=3, strong=least)
    key = key_of((colour(i), _threads(n)) for i, n in enumerate(threads))
    return Section("limit", "Floor", [figure("Items a second without a server", read, key, panels(drawings), numbers)])


def _threads(n: int) -> str:
    return plural(n, "thread")


def offline(found: Sequence[Result]) -> Section | None:
    """A bar a job."""
    jobs = [(label, job) for label, saved in those(found, Offline) for job in saved.jobs]
    if not jobs:
        return None
    several = len({label for label, _ in jobs}) > 1
    names = [f"{label}: {job.name}" if several else job.name for label, job in jobs]
    drawn = [Bar(name, job.items_per_s, "c0") for name, (_, job) in zip(names, jobs, strict=True)]
    rows = []
    for name, (_, job) in zip(names, jobs, strict=True):
        errors = ", ".join(f"{code} × {n:,}" for code, n in job.errors.items()) or NONE
        sent = f"{count(job.requests)}, {job.in_flight} at once"
        costs = [number(job.cpu_ms_per_item), count(job.rss_mb)]
        rows.append([name, count(job.items), sent, number(job.seconds), number(job.items_per_s), *costs, errors])
    read = "One large job over the batch endpoint of each model, as fast as it goes. Longer is better."
    head = ["model", "items", "requests", "seconds", "items/s", "CPU ms an item", "RSS, MB", "not answered"]
    drawings = both(lambda size: bars(size, drawn, "items/s"))
    return Section("offline", "Batch jobs", [figure("Items a second", read, *drawings, table("Jobs", head, rows))])
