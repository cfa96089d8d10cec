"""A worker's models: the versions that it has loaded, which of them answer, and how it follows what is wanted."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import hashlib
import logging
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from service.batching.health import Health
from service.batching.pool import Pool
from service.batching.runner import Runner
from service.bundle import Bundle
from service.config import Settings, open_entry
from service.edge.gate import Gate
from service.errors import BundleError
from service.loading import open_bundle, prove
from service.observability.telemetry import Telemetry
from service.process.board import Desired, Entry, Model

log = logging.getLogger("bentoml.clueserve")


@dataclass(frozen=True, slots=True)
class Version:
    """A loaded version of a model."""

    bundle: Bundle
    runner: Runner


class Split:
    """Several versions of one model. A hash of the item chooses, so that the same input always gets the same version's
    answer; when a version's share grows, items move to it and none away from it.

    Each version draws a wait until it would answer the item, exponentially with its share as the rate, and the first
    one does (weighted rendezvous hashing): the draw depends on the item and the version, not on what others there are.
    """

    def __init__(self, name: str, parts: Sequence[tuple[float, Runner]]) -> None:
        self._name = name.encode()
        self._parts = [(share, runner.version.encode(), runner) for share, runner in parts]

    def choose(self, item: Any) -> Runner:
        text: str = item.split
        digest = hashlib.blake2b(text.encode(), digest_size=32, key=self._name[:64]).digest()

        def wait(share: float, version: bytes) -> float:
            drawn = hashlib.blake2b(digest + version, digest_size=8).digest()
            return -math.log((int.from_bytes(drawn) + 0.5) / 2**64) / share

        return min(self._parts, key=lambda part: wait(*part[:2]))[2]


class Repository:
    """Loads what is wanted beside what is there, proves it, switches, and lets go of the rest when it has answered.

    `bundles` and `runners` have, of a model with several versions, the one that answers most; `splits` chooses among
    all. `failures`: why models that should answer do not. `problems`: why versions are not there, by name and version.
    """

    def __init__(self, settings: Settings, bundles: dict[str, Bundle], gate: Gate) -> None:
        self._settings = settings
        self._gate = gate
        self.bundles = bundles
        self.models: dict[str, Model] = {}
        self.runners: dict[str, Runner] = {}
        self.splits: dict[str, Split] = {}
        self.failures: dict[str, str] = {}
        self.problems: dict[str, dict[str, str]] = {}
        self._versions: dict[str, dict[str, Version]] = {}
        self._depths: dict[str, dict[str, int]] = {}
        self._telemetry: Telemetry
        self._pool: Pool

    def start(self, telemetry: Telemetry, pool: Pool) -> None:
        self._telemetry, self._pool = telemetry, pool

    def follow(self, desired: Desired, threads: int, switching: Callable[[Callable[[], None]], None]) -> None:
        """Become what is wanted, as far as it can be loaded. `switching` runs a function where requests are begun."""
        models = desired.models
        missing = [
            (name, entry)
            for name, model in models.items()
            for entry in model.wanted
            if entry.version not in self._versions.get(name, {})
        ]
        self.problems = {}
        with ThreadPoolExecutor(threads, thread_name_prefix="load") as executor:
            # The largest first: the last to be ready should not have been the last to begin.
            for _ in executor.map(lambda m: self._load(m[0], m[1], models[m[0]], switching), _largest_first(missing)):
                pass  # what is raised there is raised here
        for name, model in models.items():
            switching(lambda name=name, model=model: self._switch(name, model))  # type: ignore[misc]
        for name, loaded in self._versions.items():
            wanted = {entry.version for entry in models[name].wanted}
            for version in [v for v in loaded if v not in wanted]:
                self._let_go(name, version)
        # What is loaded stays: the collector need not look at it again while requests wait.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)

    def states(self, name: str, model: Model) -> dict[str, tuple[str, str, float]]:
        """Each version's state in the words of the Open Inference Protocol, why it is so, and its share."""
        found = {}
        for e in model.versions:
            version = self._versions.get(name, {}).get(e.version)
            problem = self.problems.get(name, {}).get(e.version) or (version and version.runner.health.reason)
            if not model.loaded:
                found[e.version] = ("UNAVAILABLE", "unloaded", 0.0)
            elif problem:
                found[e.version] = ("UNAVAILABLE", problem, e.share)
            else:
                found[e.version] = ("READY" if version else "LOADING", "", e.share)
        return found

    def _load(self, name: str, entry: Entry, model: Model, switching: Callable[[Callable[[], None]], None]) -> None:
        if self._gate.draining:
            return
        try:
            self._versions.setdefault(name, {})[entry.version] = self._open(name, entry)
        except Exception as error:
            log.exception("%s, version %s, is not served", name, entry.version)
            self.problems.setdefault(name, {})[entry.version] = str(error)
        if name not in self.runners:  # others may still be loading
            switching(lambda: self._switch(name, model))

    def _open(self, name: str, entry: Entry) -> Version:
        telemetry, device = self._telemetry, self._settings.device
        bundle = open_entry(entry)
        task, session = open_bundle(bundle, device, telemetry.runs(name))
        health = Health(
            name, lambda: prove(bundle, task, session), lambda well: telemetry.ready(name, bundle, device, well)
        )
        depth, quality = self._depth(name, entry.version), telemetry.quality(name, task.Output)
        return Version(bundle, Runner(task, session, self._pool, depth, quality, entry.version, health))

    def _switch(self, name: str, model: Model) -> None:
        """Have the versions that are wanted and there answer; nothing is loaded or lost here."""
        loaded, problems = self._versions.get(name, {}), self.problems.get(name, {})
        self.models[name] = model
        self.failures.pop(name, None)
        if failed := [problems[e.version] for e in model.wanted if e.share and e.version in problems]:
            self.failures[name] = "; ".join(failed)
        answering = [e for e in model.wanted if e.share and e.version in loaded]
        self.splits.pop(name, None)
        if not answering:
            self.runners.pop(name, None)
            if model.wanted or name not in self.bundles:
                self._telemetry.unready(name)
            else:
                self._telemetry.unloaded(name, self.bundles[name], self._settings.device)
            return
        main = loaded[max(answering, key=lambda entry: entry.share).version]
        before = self.runners.get(name)
        self.runners[name], self.bundles[name] = main.runner, main.bundle
        if len(answering) > 1:
            self.splits[name] = Split(name, [(e.share, loaded[e.version].runner) for e in answering])
        self._telemetry.ready(name, main.bundle, self._settings.device, main.runner.health.reason is None)
        if before not in (None, main.runner):
            log.info("%s is answered by version %s", name, main.runner.version)

    def _let_go(self, name: str, version: str) -> None:
        """Drop a version that gets no requests any more, once it has answered those that it has."""
        old = self._versions[name].pop(version)
        end = monotonic() + self._settings.timeout_ms / 1000
        while not old.runner.idle and monotonic() < end:
            sleep(0.01)
        old.runner.retire()
        self._depths[name].pop(version, None)
        del old
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)  # else the memory of its weights stays ours
        log.info("%s, version %s, is let go", name, version)

    def _depth(self, name: str, version: str) -> Callable[[int], None]:
        """All versions wait in one gauge."""
        tell, depths = self._telemetry.depth(name), self._depths.setdefault(name, {})

        def told(depth: int) -> None:
            depths[version] = depth
            tell(sum(list(depths.values())))

        return told


def _largest_first(missing: Iterable[tuple[str, Entry]]) -> list[tuple[str, Entry]]:
    def size(one: tuple[str, Entry]) -> int:
        try:
            return -Bundle(one[1].folder).size
        except (BundleError, OSError):  # why it cannot be read is told where it is loaded
            return 0

    return sorted(missing, key=size)


def on_loop(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], None]:
    """Runs functions on the event loop, where no request is between its choice of a runner and that runner's queue."""

    def run(function: Callable[[], None]) -> None:
        async def call() -> None:
            function()

        asyncio.run_coroutine_threadsafe(call(), loop).result()

    return run
