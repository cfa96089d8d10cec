"""The process's worker threads and the queues before them: admission by predicted wait, oldest item first."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from service.errors import NotReady, Overloaded
from service.types import Answer, Timing

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


class Worker(Protocol):
    """Whoever owns a queue and answers its jobs."""

    name: str
    queue: deque[Job]

    def take(self, budget: float) -> tuple[list[Job], float]: ...

    def process(self, jobs: Sequence[Job]) -> None: ...


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
        self._owners: list[Worker] = []
        self._backlog = 0.0
        self._closed = False
        self._threads = [threading.Thread(target=self._work, name=f"worker-{i}", daemon=True) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def add(self, owner: Worker) -> None:
        with self._ready:
            self._owners.append(owner)

    def put(self, queue: deque[Job], job: Job, patience: float) -> None:
        """Queue a job, or raise Overloaded if it is predicted to wait longer than `patience` or `max_wait` seconds.

        Into an idle pool everything goes, however long it takes to answer.
        """
        with self._ready:
            if self._closed:
                raise NotReady("the server is shutting down")
            wait = self._backlog / self.threads
            limit = min(patience, self.max_wait)
            if wait > limit:
                # A second longer than the surplus: by then the queue has room, if nobody else fills it.
                raise Overloaded(
                    f"the predicted wait is {wait:.1f} s, the limit {limit:.1f} s", 1 + math.ceil(wait - limit)
                )
            self._backlog += job.cost
            queue.append(job)
            self._ready.notify()

    def done(self, cost: float) -> None:
        with self._ready:
            self._backlog = max(0.0, self._backlog - cost)

    def _oldest(self) -> Worker | None:
        waiting = [owner for owner in self._owners if owner.queue]
        return min(waiting, key=lambda owner: owner.queue[0].enqueued, default=None)

    def _work(self) -> None:
        while True:
            with self._ready:
                while (owner := self._oldest()) is None:
                    if self._closed:
                        return
                    self._ready.wait()
                jobs, dropped = owner.take(self.take)
                self._backlog = max(0.0, self._backlog - dropped)
            try:
                if jobs:
                    owner.process(jobs)
            except Exception:
                # A worker must outlive any fault: its callers get 504 when their time is up, the next ones an answer.
                log.exception("%s: a take of %d items was lost", owner.name, len(jobs))
            finally:
                self.done(sum(job.cost for job in jobs))

    def close(self) -> None:
        """Accept nothing more, finish what is queued, end the threads."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join()
