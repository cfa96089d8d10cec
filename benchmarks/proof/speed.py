"""What a request costs the server beside its arithmetic, and whether a second core is worth one."""

from __future__ import annotations

from typing import Any

from benchmarks import limit
from benchmarks.proof.setting import SHORT, Figures, Setting, ours, with_client
from benchmarks.run import Offer, measure
from benchmarks.servers import Contender, serving
from service.batching.cpus import usable_cpus
from service.bundle import Bundle

CALLERS = 32
TURNS = 3
COUNT = 320
"""Items of a round of the floor."""


def floor(setting: Setting) -> Figures:
    """Server CPU a request at saturation over the floor of the same bundle; the least of turns of both.

    What the machine does besides only ever adds.
    """
    figures: Figures = {}
    items = [call.item for call in setting.calls(SHORT)][:COUNT]
    for claim, bundle in (("floor_fp32", setting.bundles[SHORT]), ("floor_int8", setting.int8)):
        if bundle is None:
            continue
        setting.say(f"the floor in {bundle.precision}")
        floors, servers = [], []
        for _ in range(TURNS):
            floors.append(_floor(limit.measure(bundle, items, [usable_cpus()])))
            servers.append(closed(setting, ours(), bundle)["server"]["cpu_ms_per_answer"])
            setting.say(f"  {floors[-1]:.2f} ms, the server {servers[-1]:.2f} ms")
        figures[claim] = min(servers) / min(floors)
    return figures


def _floor(found: dict[str, Any]) -> float:
    return min(float(way["cpu_ms"]) for way in found["ways"])


def http(setting: Setting) -> Figures:
    """The HTTP layer alone."""
    setting.say("the HTTP layer alone")
    peak = closed(setting, Contender("no models", "benchmarks.noop:Noop"), setting.bundles[SHORT])
    return {"http_us": peak["server"]["cpu_ms_per_answer"] * 1000}


def threads(setting: Setting) -> Figures:
    """One worker thread against two, each twice in turn."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for n in (1, 2, 2, 1):
        setting.say(f"{n} worker threads")
        rates[n].append(closed(setting, ours(threads=n), setting.bundles[SHORT])["answered_per_s"])
    return {"threads": sum(rates[2]) / sum(rates[1])}


def closed(setting: Setting, contender: Contender, bundle: Bundle) -> dict[str, Any]:
    """The peak of a crowd of callers who send headlines."""
    requests = setting.requests(SHORT)
    with serving(contender, SHORT, bundle.folder) as server:
        offer = Offer(setting.seconds, callers=CALLERS, seed=setting.seed)
        title = f"{contender.name}, {bundle.precision}: {CALLERS} callers"
        run = with_client(server.url, lambda client: measure(title, client, requests, offer, server))
    setting.runs.append(run)
    return run
