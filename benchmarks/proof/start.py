"""How soon a server is ready, and what its bundles weigh."""

from __future__ import annotations

from benchmarks.proof.setting import Figures, Setting, ours
from benchmarks.servers import serving_all
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
