"""More than the server can do, and what is left of it: overload, bursts, long documents among headlines."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic_core import from_json, to_json

from benchmarks.capacity import capacity
from benchmarks.client import Client
from benchmarks.playback import LEAD, one, percentile
from benchmarks.proof.setting import LONG, SHORT, Figures, Setting, ours, with_client
from benchmarks.run import Offer, Request, measure
from benchmarks.servers import serving, serving_all
from service.bundle import FILE, Bundle

SLO_MS = 250
OVERLOAD = 2.0
OVERLOAD_SECONDS = 30.0
BURST = 200
UTILISATION = 0.6
DOCUMENT = 512
"""Tokens that a document fills."""
CHARACTERS = 3000
"""From which a document is cut until the model reads all of it."""
PATIENCE = 10.0
TWICE = 2.0
"""Times what a lone caller waits usually, up to which the queue counts as empty."""


async def alone(client: Client, requests: Sequence[Request], count: int = 15) -> float:
    """Median seconds of callers one after another."""
    sent = [
        await one(lambda i: client.post(*requests[i % len(requests)]), i, monotonic(), 0.0, PATIENCE)
        for i in range(count)
    ]
    return percentile([o.latency for o in sent if o.kind == "200"], 50)


def overload(setting: Setting) -> Figures:
    """Twice the capacity for half a minute, every caller with the same deadline."""
    requests = setting.requests(SHORT, timeout_ms=SLO_MS)

    async def scenario(client: Client) -> Figures:
        setting.say(f"capacity of {SHORT}, p99 <= {SLO_MS} ms")
        found = await capacity(
            SHORT, client, requests, server, seconds=setting.seconds, slo_ms=SLO_MS, seed=setting.seed, confirmations=1
        )
        limit, before = found["capacity_per_s"], await alone(client, requests)
        setting.say(f"  {limit:.0f}/s; now {OVERLOAD * limit:.0f}/s for {OVERLOAD_SECONDS:.0f} s")
        offer = Offer(OVERLOAD_SECONDS, rate=OVERLOAD * limit, slo_ms=SLO_MS, seed=setting.seed, patience=PATIENCE)
        over = monotonic() + LEAD + offer.warm_up + offer.seconds
        run = await measure(f"{SHORT}, overload", client, requests, offer, server)
        while not await alone(client, requests, 1) <= TWICE * before and monotonic() - over < PATIENCE:
            pass  # also while it is refused, which is no number
        drained = monotonic() - over
        setting.runs.extend([*(t["run"] for t in found["tries"] if t["phase"] == "confirm"), run])
        expired = run["kinds"].get("504", 0)
        return {
            "overload_goodput": run["goodput_per_s"] / limit,
            "overload_refusal_ms": run["refused_ms"]["p50"],
            "overload_retry_after": run["retry_after"],
            "overload_late_ms": max(0.0, run["latency_ms"]["max"] - SLO_MS),
            "overload_expired": expired / (run["answered"] + expired),
            "overload_drained_s": drained,
        }

    with serving(ours(), SHORT, setting.bundles[SHORT].folder) as server:
        return with_client(server.url, scenario)


def burst(setting: Setting) -> Figures:
    """Many callers at once, and then one alone."""
    requests = setting.requests(SHORT)

    async def scenario(client: Client) -> Figures:
        setting.say(f"a burst of {BURST}")
        await alone(client, requests)
        before = [await alone(client, requests) for _ in range(3)]
        await asyncio.gather(*(client.post(*requests[i]) for i in range(BURST)))
        after = await alone(client, requests)
        return {"burst_recovery": after / percentile(before, 50)}

    with serving(ours(), SHORT, setting.bundles[SHORT].folder) as server:
        return with_client(server.url, scenario)


def documents(setting: Setting) -> Figures:
    """Short requests while documents take half of what is computed, at 60 % of what the server can do."""
    shorts = setting.requests(SHORT)
    text = " ".join(call.item["text"] for call in setting.calls(LONG))

    async def scenario(client: Client) -> Figures:
        document = await _document(client, text)
        await alone(client, [document], 3)
        run_s = await alone(client, [document], 7)
        peaks = []
        for requests in (shorts, [document]):
            offer = Offer(setting.seconds, callers=8, slo_ms=SLO_MS, seed=setting.seed)
            peaks.append((await measure("peak", client, requests, offer, server))["answered_per_s"])
        rates = [peak * UTILISATION / 2 for peak in peaks]
        setting.say(
            f"  a document runs {run_s * 1000:.0f} ms; {rates[0]:.0f} short and {rates[1]:.1f} documents a second"
        )
        offer = Offer(3 * setting.seconds, rate=rates[0], slo_ms=SLO_MS, seed=setting.seed)
        quiet = await measure(f"{SHORT} alone", client, shorts, offer, server)
        mixed, background = await asyncio.gather(
            measure(f"{SHORT} among documents", client, shorts, offer, server),
            measure(
                f"documents for {LONG}",
                client,
                [document],
                replace(offer, rate=rates[1], seed=setting.seed + 1),
                server,
            ),
        )
        setting.runs.extend((quiet, mixed, background))
        p99 = [run["latency_ms"]["p99"] / 1000 for run in (quiet, mixed, background)]
        setting.say(
            f"  p99 of the short {p99[0] * 1000:.0f} -> {p99[1] * 1000:.0f} ms, of documents {p99[2] * 1000:.0f} ms"
        )
        return {"short_p99": p99[1] / (run_s + 3 * p99[0]), "short_p99_run": p99[1] / run_s}

    setting.say(f"{SHORT} among documents for {LONG}")
    with tempfile.TemporaryDirectory() as temporary:
        long = _reading(setting.bundles[LONG], Path(temporary) / LONG, DOCUMENT)
        with serving_all(ours(), setting.folders(SHORT) | {LONG: long}) as server:
            return with_client(server.url, scenario)


def _reading(bundle: Bundle, folder: Path, tokens: int) -> Path:
    """A copy of a bundle that reads so many tokens at once, as its trunk could."""
    shutil.copytree(bundle.folder, folder)
    manifest = json.loads((folder / FILE).read_text(encoding="utf-8")) | {"max_length": tokens}
    (folder / FILE).write_text(json.dumps(manifest), encoding="utf-8")
    return folder


async def _document(client: Client, text: str) -> Request:
    """A request that fills the model's window once: as much of the text as is read whole."""
    size = CHARACTERS
    while True:
        request: dict[str, Any] = {"text": text[:size], "on_overflow": "truncate"}
        sent = (f"/{LONG}", to_json(request))
        answer = from_json((await client.post(*sent)).body)
        if not answer["truncated"]:
            return sent
        size = int(size * 0.97)
