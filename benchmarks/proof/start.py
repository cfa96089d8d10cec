"""How soon a server is ready, what its bundles weigh, and whether it grows."""

from __future__ import annotations

from benchmarks.proof.setting import Figures, Setting, ours, with_client
from benchmarks.servers import serving_all
from benchmarks.soak import run
from service.bundle import Bundle

SHARING = 16


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
    """So many requests of `python -m benchmarks soak`."""
    plan = run.Plan(None, setting.requests_of_soak, seed=setting.seed)
    setting.say(f"{plan.requests} requests over {len(setting.bundles)} bundles")
    with serving_all(ours(**run.PATIENT), setting.folders()) as server:
        found = with_client(server.url, lambda client: run.soak(client, server, setting.calls(), plan, setting.say))
    return {"soak_growth": found["growth"], "soak_errors": sum(found["errors"].values())}
