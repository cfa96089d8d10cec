"""One worker's state: settings, bundles, the runners that are loaded so far, and whether it is ready."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

from service.bundle import Bundle
from service.config import Settings, usable_cpus, worker_threads
from service.errors import InvalidItem, NotReady, ServiceError
from service.jobs import Turn
from service.loading import open_bundle
from service.pool import Pool
from service.runner import Result, Runner
from service.telemetry import Telemetry

log = logging.getLogger("bentoml.clueserve")


class Server:
    """One worker's state: settings, bundles, and the runners that are loaded so far."""

    def __init__(self, settings: Settings, bundles: dict[str, Bundle]) -> None:
        self.settings = settings
        self.bundles = bundles
        self.runners: dict[str, Runner] = {}
        self.failures: dict[str, str] = {}
        self.draining = False
        self.telemetry: Telemetry
        self.pool: Pool

    def start(self) -> None:
        """Begin loading in the background. Called once, in the worker process."""
        s = self.settings
        threads = worker_threads(s, usable_cpus())
        log.info(
            "device %s; processes: %d; threads a process: %d, each with a graph run of its own",
            s.device,
            s.workers,
            threads,
        )
        self.telemetry = Telemetry()
        self.pool = Pool(threads, max_wait=s.max_wait_ms / 1000, take=s.take_ms / 1000)
        threading.Thread(target=self._load, args=(threads,), name="loader", daemon=True).start()

    def _load(self, threads: int) -> None:
        start = perf_counter()
        with ThreadPoolExecutor(threads, thread_name_prefix="load") as executor:
            # The largest first: the last to be ready should not have been the last to begin.
            list(executor.map(self._load_one, sorted(self.bundles, key=lambda name: -self.bundles[name].size)))
        # What is loaded stays: the collector need not look at it again while requests wait.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        log.info("%d of %d bundles ready after %.1f s", len(self.runners), len(self.bundles), perf_counter() - start)

    def _load_one(self, name: str) -> None:
        bundle = self.bundles[name]
        try:
            task, session = open_bundle(bundle, self.settings.device, self.telemetry.runs(name))
        except Exception as error:
            log.exception("%s is not served", name)
            self.failures[name] = str(error)
            return
        self.runners[name] = Runner(task, session, self.pool, self.telemetry.depth(name))
        self.telemetry.ready(name, bundle, self.settings.device)

    def ready(self) -> None:
        """Returns if every bundle passed its golden records; NotReady says which did not."""
        if self.draining:
            raise NotReady("draining")
        if self.failures:
            raise NotReady("; ".join(f"{name}: {why}" for name, why in sorted(self.failures.items())))
        if len(self.runners) < len(self.bundles):
            raise NotReady("loading " + ", ".join(sorted(self.bundles.keys() - self.runners.keys())))

    async def answer(self, name: str, item: Any, turn: Turn) -> Result:
        """Answer one validated item of a request, counting how it ended."""
        outcome = "error"
        try:
            runner = self.runners.get(name)
            if runner is None:
                raise NotReady(f"{name} is not loaded")
            for path, text in runner.task.texts(item):
                if len(text) > self.settings.max_text_chars:
                    limit = self.settings.max_text_chars
                    raise InvalidItem(f"the text has more than {limit} characters", field=path, code="text_too_long")
            timeout = min(item.timeout_ms or math.inf, self.settings.timeout_ms) / 1000
            result = await runner.submit(item, timeout, turn)
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except ServiceError as error:
            outcome = error.code
            raise
        else:
            outcome = "ok"
            self.telemetry.answered(name, result.timing)
            return result
        finally:
            if outcome != "ok":
                self.telemetry.outcome(name, outcome)

    def refused(self, reason: str) -> None:
        self.telemetry.refused(reason)

    def close(self) -> None:
        self.draining = True
        self.pool.close()
