"""The process's worker threads and the queues before them: admission by predicted wait, oldest item first."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

from service.errors import InternalError, NotReady, Overloaded
from service.types import Answer, Timing

# A predicted wait is off by a tenth or so; without headroom a full queue would end its callers' time just too late.
HEADROOM = 0.8

log = logging.getLogger("bentoml.clueserve")


@dataclass(eq=False, slots=True)
class Job:
    """One item on its way: who waits for it, until when, and what it is expected to cost in seconds."""

    item: Any
    weight: int
    tokens: float
    cost: float
    future: asyncio.Future[Answer]
    loop: asyncio.AbstractEventLoop
    deadline: float
    enqueued: float
    timing: Timing = field(default_factory=Timing)

    def wanted(self, now: float) -> bool:
        return now < self.deadline and not self.future.done()


class Owner(Protocol):
    """Whoever owns a queue and answers its jobs."""

    name: str
    queue: deque[Job]

    def take(self, budget: float) -> tuple[list[Job], float]: ...

    def process(self, jobs: Sequence[Job]) -> Sequence[Answer | Exception]: ...


class Pool:
    """The process's worker threads and what lies before them.

    `max_wait`: longest predicted wait, in seconds, that is still accepted.
    `take`: seconds of model time, as predicted, that a worker takes from one queue at once.
    """

    def __init__(self, threads: int, *, max_wait: float, take: float) -> None:
        self.threads = threads
        self.max_wait = max_wait
        self.take = take
        self._ready = threading.Condition()
        self._owners: list[Owner] = []
        self._queued = 0.0  # predicted seconds of everything that waits
        self._ends: dict[int, float] = {}  # busy thread -> when it is predicted to be free
        self._closed = False
        self._threads = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def add(self, owner: Owner) -> None:
        with self._ready:
            self._owners.append(owner)

    def put(self, queue: deque[Job], job: Job, patience: float) -> None:
        """Queue a job; Overloaded if its predicted wait eats up `patience` or exceeds `max_wait` seconds.

        Into an idle pool everything goes, however long it takes to answer.
        """
        with self._ready:
            if self._closed:
                raise NotReady("the server is shutting down")
            wait = self._wait()
            limit = min(HEADROOM * patience, self.max_wait)
            if wait > limit:
                # A second longer than the surplus: by then the queue has room, if nobody else fills it.
                raise Overloaded(
                    f"the predicted wait is {wait:.1f} s, the limit {limit:.1f} s", 1 + math.ceil(wait - limit)
                )
            self._queued += job.cost
            queue.append(job)
            self._ready.notify()

    def _wait(self) -> float:
        """Predicted seconds until a new job would be taken."""
        free = 0.0 if len(self._ends) < self.threads else max(0.0, min(self._ends.values()) - monotonic())
        return free + self._queued / self.threads

    def _oldest(self) -> Owner | None:
        waiting = [owner for owner in self._owners if owner.queue]
        return min(waiting, key=lambda owner: owner.queue[0].enqueued, default=None)

    def _work(self, me: int) -> None:
        while True:
            jobs: list[Job] = []
            with self._ready:
                while (owner := self._oldest()) is None:
                    self._queued = 0.0
                    if self._closed:
                        return
                    self._ready.wait()
                try:
                    jobs, dropped = owner.take(self.take)
                except Exception as error:
                    log.error("%s: its queue cannot be read: %s", owner.name, type(error).__name__)
                    jobs, dropped = [owner.queue.popleft()] if owner.queue else [], 0.0
                cost = sum(job.cost for job in jobs)
                self._queued -= cost + dropped
                self._ends[me] = monotonic() + cost
            self._answer(owner, jobs)
            with self._ready:
                del self._ends[me]

    def _answer(self, owner: Owner, jobs: Sequence[Job]) -> None:
        """Have a take answered; whatever goes wrong, every caller hears something and the thread lives on."""
        try:
            results = owner.process(jobs) if jobs else []
            if len(results) != len(jobs):
                raise RuntimeError(f"{len(results)} results")
        except Exception as error:
            log.error("%s: a take of %d items failed: %s", owner.name, len(jobs), type(error).__name__)
            results = [InternalError("the model failed on this item") for _ in jobs]
        deliver(jobs, results)

    def close(self) -> None:
        """Accept nothing more, finish what is queued, end the threads."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join()


def deliver(jobs: Sequence[Job], results: Sequence[Answer | Exception]) -> None:
    """Hand every result to its own caller, with one hop for each event loop."""
    for loop in {job.loop for job in jobs}:
        mine = [(job, result) for job, result in zip(jobs, results, strict=True) if job.loop is loop]
        # A closed loop has nobody left to answer.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, mine)


def _settle(results: Sequence[tuple[Job, Answer | Exception]]) -> None:
    for job, result in results:
        if job.future.done():
            continue
        if isinstance(result, Exception):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
