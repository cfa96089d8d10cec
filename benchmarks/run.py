"""One measured run of load against a server: what was offered, what came back and how late, and what it cost."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, process_time
from typing import Any

from tqdm import tqdm

from benchmarks import histogram
from benchmarks.client import Client, Reply
from benchmarks.playback import LEAD, Outcome, percentile, play, saturate
from benchmarks.processes import Processes
from benchmarks.trace import SCHEDULES

Request = tuple[str, bytes]
"""Path and JSON body."""

REFUSALS = ("429", "503")
BUSY_GENERATOR = 0.85
"""Share of a core from which on the generator, which has one, cannot be trusted to send in time."""
LATE_GENERATOR = 0.1
"""Part of the SLO by which the p99 of requests may be sent late."""


@dataclass(frozen=True)
class Offer:
    """What is sent, and what counts as good.

    Either `rate` requests a second by `profile`, one of `trace.SCHEDULES`, or as many as `callers` can who wait for
    their answers. The first `warm_up` seconds come before the `seconds` that count, and are left out.
    `patience`: seconds after which a caller leaves.
    """

    seconds: float
    rate: float | None = None
    callers: int | None = None
    profile: str = "poisson"
    slo_ms: float = 100.0
    warm_up: float = 2.0
    seed: int = 1
    patience: float = 10.0

    def __post_init__(self) -> None:
        if (self.rate is None) == (self.callers is None):
            raise ValueError("either a rate (open loop) or callers (closed loop)")


class Meter:
    """What the server and this process use from the end of the warm-up until the last request was due."""

    def __init__(self, offer: Offer, server: Processes | None) -> None:
        self._server = server
        if server is not None:
            server.tree()
        loop, lead = asyncio.get_running_loop(), 0.0 if offer.callers else LEAD
        self._timers = [
            loop.call_later(lead + offer.warm_up, self._begin),
            loop.call_later(lead + offer.warm_up + offer.seconds, self._sent),
        ]
        self._begin()
        self._share: float | None = None

    def _begin(self) -> None:
        self._own, self._at = process_time(), monotonic()
        self._cpu = self._server.cpu() if self._server is not None else 0.0

    def _sent(self) -> None:
        self._share = (process_time() - self._own) / (monotonic() - self._at)
        self._used = self._server.cpu() - self._cpu if self._server is not None else 0.0

    def generator_share(self) -> float:
        """Of one core, while requests were sent."""
        if self._share is None:
            self._sent()
        for timer in self._timers:
            timer.cancel()
        return self._share or 0.0

    def server(self, answered: int) -> dict[str, float] | None:
        """CPU an answer, with that of refusals and of what nobody waited for; None if its processes cannot be seen.

        `answered`: how many came in the same time. What was under way when it began has been paid in part before, and
        what was under way when it ended is still to be paid: in a closed loop both are as many as there are callers.
        """
        if self._server is None:
            return None
        processes = len(self._server.tree())
        cpu = self._used
        rss = self._server.rss_mb()
        return {
            "cpu_ms_per_answer": round(cpu * 1000 / max(1, answered), 3),
            "rss_mb": round(rss, 1),
            "processes": processes,
        }


async def measure(
    name: str, client: Client, requests: Sequence[Request], offer: Offer, server: Processes | None, *, bar: bool = False
) -> dict[str, Any]:
    """Send `requests` in turn, over and over, and describe what came of it.

    CPU and memory are read of `server`; `bar` shows the progress on stderr where that is a terminal.
    """
    ended: Counter[str] = Counter()

    async def ask(number: int) -> Reply:
        reply = await client.post(*requests[number % len(requests)])
        ended["answered" if reply.status == 200 else "not answered"] += 1
        return reply

    total = offer.warm_up + offer.seconds
    schedule = SCHEDULES[offer.profile](offer.rate, total, offer.seed) if offer.rate else []
    with _undisturbed():
        meter = Meter(offer, server)
        async with asyncio.TaskGroup() as group:
            progress = group.create_task(_progress(name, total, ended)) if bar else None
            if offer.callers:
                outcomes = await saturate(ask, offer.callers, total, offer.patience)
            else:
                outcomes = await play(schedule, ask, offer.patience)
            if progress:
                progress.cancel()
        counted = [o for o in outcomes if o.due >= offer.warm_up]
        share = meter.generator_share()
        meanwhile = sum(o.kind == "200" and offer.warm_up <= o.due + o.latency < total for o in outcomes)
        return describe(name, offer, counted, share, meter.server(meanwhile))


def describe(
    name: str, offer: Offer, outcomes: Sequence[Outcome], generator_share: float, server: dict[str, float] | None
) -> dict[str, Any]:
    """What outcomes amount to; all of them count. Latencies are those of answers (200), from the scheduled instant."""
    answered = [o for o in outcomes if o.kind == "200"]
    refused = [o for o in outcomes if o.kind in REFUSALS]
    slo = offer.slo_ms / 1000
    good = sum(o.latency <= slo for o in answered)
    latencies = histogram.of(o.latency for o in answered)
    lag = percentile([o.lag for o in outcomes], 99) if outcomes else 0.0
    return {
        "name": name,
        "profile": "closed" if offer.callers else offer.profile,
        "rate_per_s": offer.rate,
        "callers": offer.callers,
        "seconds": offer.seconds,
        "slo_ms": offer.slo_ms,
        "offered": len(outcomes),
        "answered": len(answered),
        "good": good,
        "answered_per_s": round(len(answered) / offer.seconds, 3),
        "goodput_per_s": round(good / offer.seconds, 3),
        "latency_ms": histogram.latency_ms(latencies),
        "kinds": dict(sorted(Counter(o.kind for o in outcomes).items())),
        "refused_ms": {q: _ms([o.latency for o in refused], p) for q, p in (("p50", 50), ("p99", 99))}
        if refused
        else None,
        "retry_after": sum(o.retry_after for o in refused) / len(refused) if refused else None,
        "server": server,
        "generator": {
            "lag_p99_ms": round(lag * 1000, 3),
            "cpu_share": round(generator_share, 3),
            "saturated": generator_share > BUSY_GENERATOR or lag > LATE_GENERATOR * slo,
        },
        "batch_rows": {str(rows): n for rows, n in sorted(Counter(o.rows for o in answered if o.rows).items())},
        "histogram": histogram.encode(latencies),
        "timeline": timeline(outcomes, offer),
    }


def timeline(outcomes: Sequence[Outcome], offer: Offer) -> list[dict[str, Any]]:
    """What became of the requests that were due in each second after the warm-up."""
    due: defaultdict[int, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        due[int(outcome.due - offer.warm_up)].append(outcome)
    found = []
    for second, those in sorted(due.items()):
        latencies = [o.latency for o in those if o.kind == "200"]
        found.append(
            {
                "second": second,
                "answered": len(latencies),
                "good": sum(latency <= offer.slo_ms / 1000 for latency in latencies),
                "refused": sum(o.kind in REFUSALS for o in those),
                "failed": sum(o.kind not in {"200", *REFUSALS} for o in those),
                "p50_ms": _ms(latencies, 50),
                "p99_ms": _ms(latencies, 99),
            }
        )
    return found


def _ms(seconds: Sequence[float], q: float) -> float | None:
    return round(percentile(seconds, q) * 1000, 3) if seconds else None


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without the garbage collector, whose pauses would pass for the server's."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _progress(name: str, total: float, ended: Counter[str]) -> None:
    form = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} s{postfix}"
    with tqdm(total=total, desc=name, bar_format=form, file=sys.stderr, disable=None, leave=False) as shown:
        start = monotonic()
        while True:
            await asyncio.sleep(0.5)
            shown.n = min(total, monotonic() - start)
            shown.set_postfix(dict(ended), refresh=True)
