"""How soon a server is ready, what its bundles weigh, and whether it grows."""

from __future__ import annotations

import asyncio

from benchmarks.client import Client
from benchmarks.proof.setting import Figures, Setting, ours, with_client
from benchmarks.servers import Running, serving_all
from service.bundle import Bundle

SHARING = 16
CALLERS = 16
PARTS = 5


def start(setting: Setting) -> Figures:
    """A cold start with every bundle; three times, the median counts."""
    seconds, rss = [], 0.0
    for _ in range(3):
        with serving_all(ours(), setting.folders()) as server:
            seconds.append(server.start_seconds)
            rss = server.rss_mb()
        setting.say(f"{len(setting.bundles)} bundles ready after {seconds[-1]:.1f} s, {rss:.0f} MB")
    return {"start_s": sorted(seconds)[1]}


def memory(setting: Setting) -> Figures:
    """One bundle against sixteen that share its trunk."""
    names = list(setting.bundles)[:SHARING]
    rss = []
    for chosen in (names[:1], names):
        with serving_all(ours(), setting.folders(*chosen)) as server:
            rss.append(server.rss_mb())
        setting.say(f"{len(chosen)} bundles: {rss[-1]:.0f} MB")
    further = (rss[1] - rss[0]) / (len(names) - 1)
    return {"memory_bundle": further / (_trunk(setting.bundles[names[0]]) / 2**20)}


def _trunk(bundle: Bundle) -> int:
    """Bytes of the encoder's weights."""
    return (bundle.folder / f"{bundle.graph.encoder}.data").stat().st_size


def soak(setting: Setting) -> Figures:
    """So many mixed requests from a steady crowd; memory after each fifth."""
    sent, requests = setting.requests(), setting.requests_of_soak

    async def scenario(client: Client) -> Figures:
        left, failed, rss = requests, 0, []

        async def caller(running: Running) -> None:
            nonlocal left, failed
            while left > 0:
                left -= 1
                reply = await client.post(*sent[left % len(sent)])
                failed += reply.status != 200
                if left % (requests // PARTS) == 0:
                    rss.append(running.rss_mb())
                    setting.say(f"  {requests - left} requests: {rss[-1]:.0f} MB")

        await asyncio.gather(*(caller(server) for _ in range(CALLERS)))
        return {"soak_growth": rss[-1] / rss[0] - 1, "soak_errors": failed}

    setting.say(f"{requests} requests over {len(setting.bundles)} bundles")
    with serving_all(ours(), setting.folders()) as server:
        return with_client(server.url, scenario)
