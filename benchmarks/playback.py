"""Playing requests against a server, and reading what came of them. Open loop: latency counts from the schedule."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

from benchmarks.client import Reply

Ask = Callable[[int], Awaitable[Reply]]
"""Send request number `i` and return its answer."""

LEAD = 0.05
"""Seconds between the call and the schedule's zero."""


class Outcome(NamedTuple):
    """How one request ended.

    `kind` is the HTTP status, "timeout" or "connection". Times are in seconds: `latency` from when the request was due,
    `lag` how much later it was sent, `due` on the schedule's clock.
    """

    kind: str
    latency: float
    lag: float
    due: float = 0.0
    retry_after: bool = False
    rows: int = 0


def percentile(values: Sequence[float], q: float) -> float:
    """The smallest value that at least `q` percent do not exceed; NaN of nothing."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(q / 100 * len(values)) - 1)]


async def one(ask: Ask, number: int, zero: float, due: float, patience: float) -> Outcome:
    """Ask, and give up `patience` seconds after the request was due, `due` seconds after the instant `zero`."""
    now = monotonic()
    # Timers count whole milliseconds and may fire a little early: a request never looks faster for it.
    start = min(zero + due, now)
    lag = now - start
    retry_after, rows = False, 0
    try:
        async with asyncio.timeout(patience - lag):
            reply = await ask(number)
        kind, retry_after, rows = str(reply.status), reply.retry_after, reply.rows
    except TimeoutError:
        kind = "timeout"
    except OSError:
        kind = "connection"
    return Outcome(kind, monotonic() - start, lag, due, retry_after, rows)


async def play(schedule: Sequence[float], ask: Ask, patience: float) -> list[Outcome]:
    """Send every request at its instant, whatever became of those before it. Outcomes in the order of the schedule."""
    zero = monotonic() + LEAD
    outcomes: dict[int, Outcome] = {}

    async def send(number: int, due: float) -> None:
        outcomes[number] = await one(ask, number, zero, due, patience)

    # The group forgets tasks as they end: nothing is left to walk through while the last answers come in.
    async with asyncio.TaskGroup() as group:
        for number, due in enumerate(schedule):
            await asyncio.sleep(max(0.0, zero + due - monotonic()))
            group.create_task(send(number, due))
    return [outcomes[number] for number in range(len(schedule))]


async def saturate(ask: Ask, callers: int, seconds: float, patience: float) -> list[Outcome]:
    """Closed loop: each caller asks again as soon as it is answered. Only good for finding the peak."""
    zero = monotonic()
    outcomes: list[Outcome] = []

    async def caller(number: int) -> None:
        while (due := monotonic() - zero) < seconds:
            outcomes.append(await one(ask, number, zero, due, patience))
            if outcomes[-1].kind == "connection":
                await asyncio.sleep(0.01)  # a server that is gone would be asked ten thousand times a second
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
