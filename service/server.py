"""One worker's state: settings, bundles, the runners that are loaded so far, and whether it is ready."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from time import perf_counter
from typing import Any

from service.access import require
from service.batching.cpus import usable_cpus
from service.batching.jobs import Turn
from service.batching.pool import Pool
from service.batching.runner import Result, Runner
from service.bundle import Bundle
from service.config import Settings, worker_threads
from service.edge.gate import Gate
from service.errors import InvalidItem, NotReady, ServiceError
from service.observability.exchange import CURRENT
from service.observability.telemetry import Telemetry
from service.observability.tracing import Tracer, open_tracer, wanted
from service.process.board import Board, Desired, Status
from service.repository import Repository, on_loop

log = logging.getLogger("bentoml.clueserve")


class Server:
    """One worker's state: settings, bundles, and the runners that are loaded so far."""

    def __init__(self, settings: Settings, bundles: dict[str, Bundle], board: Board | None = None) -> None:
        self.settings = settings
        self.bundles = bundles
        self.board = board or Board.find()
        self.seen = 0
        """The revision of what is wanted that this worker has finished with."""
        self._complete = settings.workers == 1
        """Whether all workers have once been ready; one that is replaced later accepts nothing before it is loaded."""
        self.gate = Gate()
        self.repository = Repository(settings, bundles, self.gate)
        self.models, self.runners = self.repository.models, self.repository.runners
        self.splits, self.failures = self.repository.splits, self.repository.failures
        self.telemetry: Telemetry
        self.tracer: Tracer | None = None
        self.pool: Pool

    def start(self) -> None:
        """Make what a worker process has. Called once, in it; `follow` loads the models."""
        s = self.settings
        threads = worker_threads(s, usable_cpus())
        log.info(
            "device %s; processes: %d; threads a process: %d, each with a graph run of its own",
            s.device,
            s.workers,
            threads,
        )
        self.telemetry = Telemetry(self.bundles)
        self.tracer = open_tracer() if wanted(os.environ) else None
        self.pool = Pool(threads, max_wait=s.max_wait_ms / 1000, take=s.take_ms / 1000)
        self.repository.start(self.telemetry, self.pool)

    def follow(self, desired: Desired, loop: asyncio.AbstractEventLoop) -> None:
        """Become what is wanted. Called in a thread, once at a time."""
        start = perf_counter()
        threads = worker_threads(self.settings, usable_cpus())
        self.repository.follow(desired, threads, on_loop(loop))
        if not self.seen:
            log.info(
                "%d of %d bundles ready after %.1f s", len(self.runners), len(self.bundles), perf_counter() - start
            )
        self.seen = desired.revision

    @property
    def draining(self) -> bool:
        return self.gate.draining

    @property
    def status(self) -> Status:
        """What the other processes hear of this one."""
        return Status(ready=bool(self.seen), seen=self.seen, problems=self.repository.problems)

    def ready(self) -> None:
        """Returns if every bundle passed its golden records in all workers; NotReady says what is amiss.

        Probes answer so, to everybody: where keys are wanted, why a bundle failed is for who has one.
        """
        if self.draining:
            raise NotReady("draining")
        if self.failures and self.settings.keys_file:
            raise NotReady("not loaded: " + ", ".join(sorted(self.failures)))
        if self.failures:
            raise NotReady("; ".join(f"{name}: {why}" for name, why in sorted(self.failures.items())))
        if loading := [name for name in self.bundles if name not in self.runners and not self._unloaded(name)]:
            raise NotReady("loading " + ", ".join(sorted(loading)))
        if self.board and not self._complete:
            loaded = sum(status.ready for status in self.board.statuses().values())
            if loaded < self.settings.workers:
                raise NotReady(f"{loaded} of {self.settings.workers} processes have loaded")
            self._complete = True
        if self.runners and all(runner.health.reason for runner in self.runners.values()):
            raise NotReady("no model works: " + ", ".join(sorted(self.runners)))

    def why_not(self, name: str) -> str | None:
        """Why a model does not answer; None if it does."""
        runner = self.runners.get(name)
        if runner is not None:
            return runner.health.reason
        if name in self.failures:
            return self.failures[name]
        return f"{name} is unloaded" if self._unloaded(name) else f"{name} is not loaded"

    def condition(self, name: str) -> dict[str, Any]:
        """What is known of a model in this worker: whether it answers, if not why, and its versions."""
        reason, model = self.why_not(name), self.models.get(name)
        versions = [{"version": e.version, "share": e.share} for e in (model.wanted if model else ())]
        return {"ready": reason is None, "reason": reason, "versions": versions}

    def _unloaded(self, name: str) -> bool:
        """Whether no version is to answer: none is wanted, or one that is only being tried."""
        return name in self.models and not any(entry.share for entry in self.models[name].wanted)

    async def answer(self, name: str, item: Any, turn: Turn) -> Result:
        """Answer one validated item of a request, counting how it ended."""
        outcome = "error"
        try:
            require(name)
            runner = self.runners.get(name)
            if runner is None:
                raise NotReady(f"{name} is unloaded" if self._unloaded(name) else f"{name} is not loaded")
            if split := self.splits.get(name):
                runner = split.choose(item)
            if runner.health.reason:
                raise NotReady(f"{name} does not work at the moment: {runner.health.reason}")
            self._fits(runner, item)
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
            if exchange := CURRENT.get():
                exchange.answered(name, result.timing)
            return result
        finally:
            if outcome != "ok":
                self.telemetry.outcome(name, outcome)
                if exchange := CURRENT.get():
                    exchange.refused(name)

    def _fits(self, runner: Runner, item: Any) -> None:
        """InvalidItem if an item is larger than a request may be."""
        s = self.settings
        if item.series and (count := len(getattr(item, item.series) or ())) > s.max_batch_items:
            most = f"{count} {item.series}; at most {s.max_batch_items}"
            raise InvalidItem(most, field=item.series, code="batch_too_large")
        for path, text in runner.task.texts(item):
            if len(text) > s.max_text_chars:
                limit = s.max_text_chars
                raise InvalidItem(f"the text has more than {limit} characters", field=path, code="text_too_long")

    def used(self, key: str, outcome: str) -> None:
        self.telemetry.used(key, outcome)

    def refused(self, reason: str) -> None:
        self.telemetry.refused(reason)

    def close(self, patience: float | None = None) -> None:
        """Finish what is queued, for `patience` seconds at most."""
        self.gate.draining = True
        self.pool.close(patience)
        if self.tracer:
            self.tracer.close(patience)
