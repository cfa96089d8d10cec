"""The soak itself: find the peak, send at a part of it, watch, and judge."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from pydantic_core import to_json

from benchmarks.client import Client, Reply
from benchmarks.playback import play, saturate
from benchmarks.processes import Processes
from benchmarks.soak.traffic import NOBODY, Shot, fire, shots
from benchmarks.soak.watch import Sample, after_a_fifth, growth, sample, watch
from benchmarks.trace import Call, arrivals

CALLERS = 16
DIFFERENT = 5000
TRIES = 5
"""Requests that say what one to a model costs."""
PATIENCE = 120.0
SETTLE = 3.0
"""Seconds after the last answer until what is left is counted."""
MOST_GROWTH = 0.05
HELPERS = min(32, (os.cpu_count() or 1) + 4)
"""Threads of asyncio's pool of helpers, which start when so many are needed at once for the first time."""
PATIENT = {"max_wait_ms": 100_000, "timeout_ms": 110_000}
"""Settings under which nobody is refused for reasons of load: what is not answered then is a fault."""


@dataclass(frozen=True)
class Plan:
    """Until so many `requests` are made or `seconds` have gone by, whichever is given, at `utilisation` of the peak."""

    seconds: float | None
    requests: int | None
    utilisation: float = 0.6
    warm_up: float = 60.0
    every: float = 10.0
    seed: int = 1


class Ledger:
    """What became of the requests. An error is ours if a request was not answered as it should have been."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    async def ask(self, client: Client, shot: Shot) -> Reply:
        try:
            reply = await fire(client, shot)
        except OSError:
            reply = Reply(-1)
        except asyncio.CancelledError:
            self._enter(shot, "hangs", True)
            raise
        self._enter(shot, str(reply.status) if reply.status >= 0 else "lost", reply.status != shot.status)
        return reply

    def _enter(self, shot: Shot, ended: str, wrong: bool) -> None:
        self.seen[f"{shot.kind}: {'left' if ended == str(NOBODY.status) else ended}"] += 1
        if wrong:
            self.errors[f"{shot.kind} {shot.path}: {ended} instead of {shot.status}"] += 1

    def counts(self) -> tuple[int, int]:
        return self.seen.total(), self.errors.total()


async def soak(
    client: Client, server: Processes, calls: Sequence[Call], plan: Plan, say: Callable[[str], None]
) -> dict[str, Any]:
    """Samples, counts and verdicts of one run. `server` are the processes that are watched."""
    ledger, samples = Ledger(), list[Sample]()
    sent = shots(calls, await costs(client, calls), DIFFERENT, plan.seed)

    async def ask(number: int) -> Reply:
        return await ledger.ask(client, sent[number % len(sent)])

    start = monotonic()
    await saturate(ask, CALLERS, plan.warm_up, PATIENCE)
    rate = plan.utilisation * ledger.counts()[0] / (monotonic() - start)
    before = await _at_rest(client, server)
    seconds = plan.requests / rate if plan.requests else plan.seconds or 0.0
    say(f"{rate / plan.utilisation:.1f} requests a second at the peak, {rate:.1f} for {seconds / 60:.1f} minutes")
    warm, ledger = ledger, Ledger()
    # A little longer than asked for, and cut: arrivals are random, their number is not.
    schedule = arrivals(rate, seconds if plan.requests is None else 1.5 * seconds + 60, plan.seed)[: plan.requests]

    def keep(found: Sample) -> None:
        samples.append(found)
        say(f"{found.requests} requests, {found.rss_mb:.0f} MB, {found.files} files, {found.threads} threads")

    watching = asyncio.create_task(watch(server, plan.every, ledger.counts, keep))
    begin = monotonic()
    try:
        await play(schedule, ask, PATIENCE)
    finally:
        watching.cancel()
    client.close()
    after = await _at_rest(client, server)
    samples.append(sample(server, begin, *ledger.counts()))
    return {
        "rate_per_s": round(rate, 2),
        "utilisation": plan.utilisation,
        "minutes": round((monotonic() - begin) / 60, 1),
        "requests": ledger.counts()[0],
        "kinds": dict(sorted(ledger.seen.items())),
        "errors": dict((ledger.errors + warm.errors).most_common(50)),
        "growth": round(growth(samples), 4),
        "samples": [asdict(s) for s in samples],
        "at_rest": {"before": asdict(before), "after": asdict(after)},
        "verdicts": verdicts(samples, before, after, (ledger.errors + warm.errors).total()),
    }


async def costs(client: Client, calls: Sequence[Call]) -> dict[str, float]:
    """Seconds that a request to each model takes when nobody else asks, by its name; OSError if one is not answered."""
    found = {}
    for name in dict.fromkeys(call.model for call in calls):
        start = monotonic()
        for call in [call for call in calls if call.model == name][:TRIES]:
            reply = await client.post(f"/{name}", to_json(call.item))
            if reply.status != 200:
                raise OSError(f"{name} answers {reply.status}")
        found[name] = monotonic() - start
    return found


async def _at_rest(client: Client, server: Processes) -> Sample:
    """What is held when nobody asks and nobody is connected."""
    client.close()
    await asyncio.sleep(SETTLE)
    return sample(server, monotonic())


def verdicts(samples: Sequence[Sample], before: Sample, after: Sample, errors: int) -> list[dict[str, Any]]:
    fifth = after_a_fifth(samples)
    most_threads = max([before.threads, *(s.threads for s in samples if s.seconds <= fifth.seconds)])
    facts = [
        ("memory grows after the first fifth, parts of what it is then", round(growth(samples), 4), MOST_GROWTH),
        ("open files at rest more than before", after.files - before.files, 0),
        ("threads more than in the first fifth", max(s.threads for s in samples) - most_threads, HELPERS),
        ("processes more or fewer", abs(after.processes - before.processes), 0),
        ("requests not answered as they should be", errors, 0),
    ]
    return [{"text": text, "value": value, "most": most, "kept": value <= most} for text, value, most in facts]
