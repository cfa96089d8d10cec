"""What a server's processes hold while time goes by, and whether it stays the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import psutil

from benchmarks.processes import Processes


@dataclass(frozen=True, slots=True)
class Sample:
    """Sums over all processes. `requests`: answered until then; `files` are descriptors, connections among them."""

    seconds: float
    requests: int
    rss_mb: float
    files: int
    threads: int
    processes: int
    errors: int


def sample(server: Processes, start: float, requests: int = 0, errors: int = 0) -> Sample:
    files = threads = 0
    tree = server.tree()
    for process in tree:
        with suppress(psutil.Error):
            files += process.num_fds()
            threads += process.num_threads()
    seconds = round(monotonic() - start, 1)
    return Sample(seconds, requests, round(server.rss_mb(), 1), files, threads, len(tree), errors)


async def watch(
    server: Processes, every: float, counts: Callable[[], tuple[int, int]], say: Callable[[Sample], None]
) -> None:
    """Hand over a sample `every` seconds, until cancelled. `counts`: requests and errors so far."""
    start = monotonic()
    while True:
        await asyncio.sleep(every)
        say(await asyncio.to_thread(sample, server, start, *counts()))


def after_a_fifth(samples: Sequence[Sample]) -> Sample:
    """The first sample by which a fifth of all requests was answered."""
    return next(s for s in samples if s.requests * 5 >= samples[-1].requests)


def growth(samples: Sequence[Sample]) -> float:
    """Of memory, after the first fifth, in parts of what it was then."""
    return samples[-1].rss_mb / after_a_fifth(samples).rss_mb - 1


def table(samples: Sequence[Sample], rows: int = 20) -> str:
    """Some of the samples, evenly spaced, the last among them."""
    step = max(1, len(samples) // rows)
    chosen = [*samples[:-1][::step], samples[-1]]
    lines = [f"{'minutes':>8} {'requests':>9} {'MB':>8} {'files':>6} {'threads':>8} {'processes':>10} {'errors':>7}"]
    lines += [
        f"{s.seconds / 60:8.1f} {s.requests:9} {s.rss_mb:8.0f} {s.files:6} {s.threads:8} {s.processes:10} {s.errors:7}"
        for s in chosen
    ]
    return "\n".join(lines)
