"""The process's worker threads and the queues before them: admission by predicted wait, and whose turn is next.

Jobs go in the order in which they would be finished if every request had a worker to itself: a headline that comes
after a long document is read before it, one caller is read before the rest of a batch of thousands, and nothing waits
for ever, because whatever comes later is due later.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
import math
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

from service.errors import InternalError, NotReady, Overloaded
from service.types import Answer, Timing

# A predicted wait is off by a tenth or so; without headroom a full queue would end its callers' time just too late.
HEADROOM = 0.8

log = logging.getLogger("bentoml.clueserve")


# The work that is due before a new job is summed by slices of this many seconds.
SLICE = 0.05
# A job is long if it costs so many times the usual one. It gets the last free worker only when it has waited as many
# times its own cost as PATIENCE says: until then that worker is kept for the short ones.
LONG = 5.0
PATIENCE = 2.0
# How much of the usual cost the latest job replaces.
RATE = 0.05


class Turn:
    """One request's place in the queues: what it asked for before delays what it asks next."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due = monotonic()

    def due(self, cost: float) -> float:
        """When a further job of `cost` seconds would be finished by a worker who does nothing else."""
        self._due = max(self._due, monotonic()) + cost
        return self._due


@dataclass(eq=False, slots=True)
class Job:
    """One item on its way: who waits for it, until when, when it is due, and its expected cost in seconds."""

    item: Any
    weight: int
    tokens: float
    cost: float
    due: float
    future: asyncio.Future[Answer]
    loop: asyncio.AbstractEventLoop
    deadline: float
    enqueued: float
    timing: Timing = field(default_factory=Timing)

    def wanted(self, now: float) -> bool:
        return now < self.deadline and not self.future.done()


class Queue:
    """Jobs by when they are due; equals in the order in which they came."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Job]] = []
        self._number = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first(self) -> Job:
        return self._heap[0][2]

    def push(self, job: Job) -> None:
        heapq.heappush(self._heap, (job.due, next(self._number), job))

    def pop(self) -> Job:
        return heapq.heappop(self._heap)[2]


class Owner(Protocol):
    """Whoever owns a queue and answers its jobs."""

    name: str
    queue: Queue

    def take(self, budget: float) -> tuple[list[Job], list[Job]]:
        """Jobs to answer together, and jobs that nobody waits for any more; both leave the queue."""
        ...

    def process(self, jobs: Sequence[Job]) -> Sequence[Answer | Exception]: ...


class Pool:
    """The process's worker threads and what lies before them.

    `max_wait`: longest predicted wait, in seconds, that is still accepted.
    `take`: most seconds of model time, as predicted, that a worker takes from one queue at once. It is its share of all
    that waits, so that a few items are spread over the workers and many are run in large batches.
    """

    def __init__(self, threads: int, *, max_wait: float, take: float) -> None:
        self.threads = threads
        self.max_wait = max_wait
        self.take = take
        self._ready = threading.Condition()
        self._owners: list[Owner] = []
        self._waiting: Counter[int] = Counter()  # slice of time -> predicted microseconds of what is due in it
        self._usual = 0.0  # seconds
        self._ends: dict[int, float] = {}  # busy thread -> when it is predicted to be free
        self._closed = False
        self._threads = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def add(self, owner: Owner) -> None:
        with self._ready:
            self._owners.append(owner)

    def put(self, queue: Queue, job: Job, patience: float) -> None:
        """Queue a job; Overloaded if its predicted wait eats up `patience` or exceeds `max_wait` seconds.

        Into an idle pool everything goes, however long it takes to answer.
        """
        with self._ready:
            if self._closed:
                raise NotReady("the server is shutting down")
            wait = self._wait(job)
            limit = min(HEADROOM * patience, self.max_wait)
            if wait > limit:
                # A second longer than the surplus: by then the queue has room, if nobody else fills it.
                raise Overloaded(
                    f"the predicted wait is {wait:.1f} s, the limit {limit:.1f} s", 1 + math.ceil(wait - limit)
                )
            self._waiting[_slice(job)] += _microseconds(job)
            self._usual += (RATE if self._usual else 1.0) * (job.cost - self._usual)
            queue.push(job)
            self._ready.notify()

    def _wait(self, job: Job) -> float:
        """Predicted seconds until a new job would be taken."""
        free = 0.0 if len(self._ends) < self.threads else max(0.0, min(self._ends.values()) - monotonic())
        mine = _slice(job)
        return free + sum(cost for due, cost in self._waiting.items() if due <= mine) / 1e6 / self.threads

    def _next(self) -> tuple[Owner | None, float | None]:
        """Whose turn it is, if anybody's; else the seconds after which it may be a long job's, if one waits."""
        waiting = [owner for owner in self._owners if owner.queue]
        if not waiting:
            return None, None
        if self.threads - len(self._ends) == 1 < self.threads:
            now = monotonic()
            held = {owner: self._held(owner.queue.first) - now for owner in waiting}
            if not (waiting := [owner for owner in waiting if held[owner] <= 0]):
                return None, min(held.values())
        return min(waiting, key=lambda owner: owner.queue.first.due), None

    def _held(self, job: Job) -> float:
        """Until when the last free worker is not for this job."""
        return job.enqueued + PATIENCE * job.cost if job.cost > LONG * self._usual else 0.0

    def _work(self, me: int) -> None:
        while True:
            jobs: list[Job] = []
            with self._ready:
                while True:
                    owner, pause = self._next()
                    if owner is not None:
                        break
                    if pause is None:
                        self._waiting.clear()
                        if self._closed:
                            return
                    self._ready.wait(pause)
                share = sum(self._waiting.values()) / 1e6 / self.threads
                try:
                    jobs, dropped = owner.take(min(self.take, share))
                except Exception as error:
                    log.error("%s: its queue cannot be read: %s", owner.name, type(error).__name__)
                    jobs, dropped = [owner.queue.pop()], []
                for job in (*jobs, *dropped):
                    self._waiting[_slice(job)] -= _microseconds(job)
                    if not self._waiting[_slice(job)]:
                        del self._waiting[_slice(job)]
                self._ends[me] = monotonic() + sum(job.cost for job in jobs)
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


def _slice(job: Job) -> int:
    return int(job.due / SLICE)


def _microseconds(job: Job) -> int:
    # Whole numbers, so that what goes out is exactly what came in.
    return round(job.cost * 1e6)


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
