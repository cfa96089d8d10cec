"""`python -m benchmarks capacity`: the highest rate of requests whose p99 a running server keeps under a bound.

As MLPerf's Server scenario has it: Poisson arrivals, and at least 99 % of all requests answered within the SLO; a
refusal or an error is a miss. The peak of a closed loop says where to look, a bisection finds the rate, and runs with
other seeds confirm it: all of them must pass, else the rate comes down.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from math import isnan
from time import monotonic
from typing import Any

import uvloop

from benchmarks import results, workload
from benchmarks.client import Client
from benchmarks.load_table import TRIES_HEAD, capacity_verdict, try_row
from benchmarks.playback import one, percentile
from benchmarks.predictors import PredictorError
from benchmarks.processes import Processes
from benchmarks.run import Offer, Request, measure

HELP = "find the highest rate whose p99 meets the SLO, and confirm it"
PASSING = 0.99
"""Part of all requests that must be answered within the SLO."""
PRECISION = 0.05
"""The rates on both sides of the capacity are at most this far apart."""
STEP = 1.3
"""By how much the rate changes until one passes and one fails."""
LOWEST = 0.5
"""Requests a second; a server that does not bear these bears nothing."""
CROWD = 32
START = 0.8
"""Of the crowd's peak: where the search begins."""
REST = 60.0
"""Seconds that a server may take to come to rest after a rate that was too high."""

Attempt = Callable[[str, float, int], Awaitable[dict[str, Any]]]
"""`attempt(phase, rate, seed)`: one run."""


class Restless(RuntimeError):
    """A server that does not answer a lone caller as it did before the load."""


@dataclass(frozen=True)
class Try:
    """One run of the search. `phase` is "bracket", "bisect" or "confirm"."""

    phase: str
    rate: float
    seed: int
    run: dict[str, Any]

    @property
    def share(self) -> float:
        """Of all requests, those answered within the SLO; an empty run has none."""
        offered: int = self.run["offered"]
        return self.run["good"] / offered if offered else 0.0

    @property
    def passed(self) -> bool:
        return self.share >= PASSING

    def json(self) -> dict[str, Any]:
        return {"phase": self.phase, "rate_per_s": self.rate, "seed": self.seed, "passed": self.passed, "run": self.run}


async def search(attempt: Attempt, start: float, seed: int, confirmations: int) -> tuple[float, list[Try]]:
    """The confirmed rate, 0 if none was, and every try. `start` is where to look first."""
    tries: list[Try] = []

    async def passes(phase: str, rate: float, seed: int) -> bool:
        tries.append(Try(phase, rate, seed, await attempt(phase, rate, seed)))
        return tries[-1].passed

    low = high = start
    if await passes("bracket", start, seed):
        while await passes("bracket", high := low * STEP, seed):
            low = high
    else:
        while (low := high / STEP) > LOWEST and not await passes("bracket", low, seed):
            high = low
    while low > LOWEST and high / low > 1 + PRECISION:
        middle = (low + high) / 2
        if await passes("bisect", middle, seed):
            low = middle
        else:
            high = middle
    while low > LOWEST:
        for number in range(1, confirmations + 1):
            if not await passes("confirm", low, seed + number):
                low /= 1 + PRECISION
                break
        else:
            return low, tries
    return 0.0, tries


async def capacity(
    name: str,
    client: Client,
    requests: Sequence[Request],
    server: Processes | None,
    *,
    seconds: float,
    slo_ms: float,
    warm_up: float = 2.0,
    seed: int = 1,
    confirmations: int = 3,
    patience: float = 10.0,
    told: Callable[[Try], None] = lambda _: None,
    bar: bool = False,
) -> dict[str, Any]:
    """Find a server's capacity with runs of `seconds`; `told` hears of each try. Restless if it does not recover."""
    crowd = Offer(seconds, callers=CROWD, slo_ms=slo_ms, warm_up=warm_up, seed=seed, patience=patience)

    async def alone() -> float:
        """The median of a few lone callers, in seconds."""
        sent = [
            await one(lambda i: client.post(*requests[i % len(requests)]), i, monotonic(), 0.0, REST) for i in range(9)
        ]
        return percentile([o.latency for o in sent if o.kind == "200"], 50)

    async def attempt(phase: str, rate: float, seed: int) -> dict[str, Any]:
        offer = replace(crowd, callers=None, rate=rate, seed=seed)
        run = await measure(f"{name}, {phase} {rate:.1f}/s", client, requests, offer, server, bar=bar)
        told(Try(phase, rate, seed, run))
        until = monotonic() + REST
        while not (now := await alone()) <= max(slo_ms / 1000, 2 * unloaded):
            if monotonic() > until:
                raise Restless(f"{REST:.0f} s after {rate:.1f}/s a lone caller waits {now * 1000:.0f} ms")
            await asyncio.sleep(0.2)
        return run

    await alone()  # the first calls warm up
    unloaded = await alone()
    alone_ms = None if isnan(unloaded) else round(unloaded * 1000, 3)
    found: dict[str, Any] = {"name": name, "slo_ms": slo_ms, "seconds": seconds, "alone_p50_ms": alone_ms}
    found |= {"capacity_per_s": 0.0, "peak": None, "limited_by": "server", "tries": []}
    if alone_ms is None or alone_ms > slo_ms:
        return found
    found["peak"] = await measure(f"{name}, {CROWD} callers", client, requests, crowd, server, bar=bar)
    rate, tries = await search(attempt, max(1.0, START * found["peak"]["answered_per_s"]), seed, confirmations)
    lowest = min((t for t in tries if not t.passed), key=lambda t: t.rate)
    limited_by = "generator" if lowest.run["generator"]["saturated"] else "server"
    return found | {"capacity_per_s": round(rate, 2), "limited_by": limited_by, "tries": [t.json() for t in tries]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    workload.add_arguments(parser)
    workload.add_run_arguments(parser, seconds=20)
    parser.add_argument("--confirm", type=int, default=3, metavar="N", help="runs that must pass, too; default: 3")


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    if args.confirm < 1:
        return "--confirm is at least 1"
    return workload.problem(args) or workload.run_problem(args)


def run(args: argparse.Namespace) -> int:
    """Search and print every try as it ends; 0 if a rate was confirmed."""
    workload.raise_file_limit()
    try:
        work = workload.open_workload(args)
        print(
            f"{work.name} at {work.url}: Poisson arrivals, 99 % within {args.slo_ms:g} ms, {args.seconds:g} s a try\n"
        )
        print(TRIES_HEAD)
        found = uvloop.run(_searched(work, args))
    except (PredictorError, Restless, ValueError, OSError) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    print(f"\n{capacity_verdict(found)}")
    if args.save:
        results.save(args.save, results.result("capacity", vars(args), args.seed, found, workload.PACKAGES))
    return 0 if found["capacity_per_s"] else 1


async def _searched(work: workload.Workload, args: argparse.Namespace) -> dict[str, Any]:
    async with Client(work.url) as client:
        return await capacity(
            work.name,
            client,
            work.requests,
            work.server,
            seconds=args.seconds,
            slo_ms=args.slo_ms,
            warm_up=args.warm_up,
            seed=args.seed,
            confirmations=args.confirm,
            patience=workload.patience(args.slo_ms, args.timeout_ms),
            told=lambda t: print(try_row(t.json()), flush=True),
            bar=True,
        )
