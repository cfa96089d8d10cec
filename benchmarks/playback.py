"""Playing requests against a server, and reading what came of them. Open loop: latency counts from the schedule."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

Ask = Callable[[int], Awaitable[int]]
"""Send request number `i`; its answer's HTTP status."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one request ended: its HTTP status, "timeout" or "connection"; times in seconds from when it was due."""

    kind: str
    latency: float
    lag: float


def percentile(values: Sequence[float], q: float) -> float:
    """The smallest value that at least `q` percent do not exceed; NaN of nothing."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(q / 100 * len(values)) - 1)]


async def one(ask: Ask, number: int, due: float, patience: float) -> Outcome:
    """Ask, and give up `patience` seconds after the request was due."""
    lag = monotonic() - due
    try:
        async with asyncio.timeout(patience - lag):
            kind = str(await ask(number))
    except TimeoutError:
        kind = "timeout"
    except OSError:
        kind = "connection"
    return Outcome(kind, monotonic() - due, lag)


async def play(schedule: Sequence[float], ask: Ask, patience: float) -> list[Outcome]:
    """Send every request at its instant, whatever became of those before it."""
    start = monotonic() + 0.05
    tasks = []
    for number, at in enumerate(schedule):
        await asyncio.sleep(max(0.0, start + at - monotonic()))
        tasks.append(asyncio.create_task(one(ask, number, start + at, patience)))
    return await asyncio.gather(*tasks)


async def saturate(ask: Ask, callers: int, seconds: float, patience: float) -> list[Outcome]:
    """Closed loop: each caller asks again as soon as it is answered. Only good for finding the peak."""
    end = monotonic() + seconds
    outcomes: list[Outcome] = []

    async def caller(number: int) -> None:
        while monotonic() < end:
            outcomes.append(await one(ask, number, monotonic(), patience))
            number += callers

    await asyncio.gather(*map(caller, range(callers)))
    return outcomes


def summarise(outcomes: Sequence[Outcome], seconds: float, slo: float) -> dict[str, Any]:
    """Rates a second of schedule and milliseconds. Latencies of answers; every other end is counted by its kind."""
    answered = [o.latency for o in outcomes if o.kind == "200"]
    others = defaultdict(list)
    for o in outcomes:
        if o.kind != "200":
            others[o.kind].append(o.latency)
    return {
        "offered": len(outcomes),
        "offered_per_s": len(outcomes) / seconds,
        "goodput_per_s": sum(latency <= slo for latency in answered) / seconds,
        "late": sum(latency > slo for latency in answered),
        "p50_ms": percentile(answered, 50) * 1000,
        "p99_ms": percentile(answered, 99) * 1000,
        "kinds": dict(sorted(Counter(o.kind for o in outcomes).items())),
        "other_p50_ms": {kind: percentile(latencies, 50) * 1000 for kind, latencies in sorted(others.items())},
        "lag_p99_ms": percentile([o.lag for o in outcomes], 99) * 1000,
    }
