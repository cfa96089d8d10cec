"""The process's worker threads and the queues before them: admission by predicted wait, and whose turn is next.

Jobs go in the order in which they would be finished if every request had a worker to itself: a headline that comes
after a long document is read before it, one caller is read before the rest of a batch of thousands, and nothing waits
for ever, because whatever comes later is due later.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from service.batching.jobs import Job, Queue, deliver
from service.errors import InternalError, NotReady, Overloaded
from service.types import Answer

# A predicted wait is off by a tenth, by more on a busy machine; without headroom a full queue would end its callers'
# time just too late.
HEADROOM = 0.7

log = logging.getLogger("bentoml.clueserve")


# The work that is due before a new job is summed by slices of this many seconds.
SLICE = 0.05
# A job is long if it costs so many times the usual one. While all workers but one run long jobs, that one is kept for
# the short: it takes a long job only when none of them waits, and the long one has waited PATIENCE times its own cost,
# or would be late otherwise.
LONG = 5.0
PATIENCE = 4.0
# How much of the usual cost the latest job replaces.
RATE = 0.02


class Owner(Protocol):
    """Whoever owns a queue and answers its jobs."""

    name: str
    queue: Queue

    def take(self, budget: float, short: bool) -> tuple[list[Job], list[Job]]:
        """Jobs to answer together, and jobs that nobody waits for any more; both leave the queue.

        `short`: long jobs stay.
        """
        ...

    def drop(self, short: bool) -> list[Job]:
        """Jobs before the first that somebody still waits for; they leave the queue."""
        ...

    def process(self, jobs: Sequence[Job]) -> Sequence[Answer | Exception]: ...


class Pool:
    """The process's worker threads and what lies before them.

    `max_wait`: longest predicted wait, in seconds, that is still accepted.
    `take`: most seconds of model time, as predicted, that a worker takes from one queue at once. It takes as much as
    lets all workers be done together, so that a few items are spread over idle ones and many are run in large batches.
    """

    def __init__(self, threads: int, *, max_wait: float, take: float) -> None:
        self.threads = threads
        self.max_wait = max_wait
        self.take = take
        self._ready = threading.Condition()
        self._owners: list[Owner] = []
        self._waiting: Counter[int] = Counter()  # slice of time -> predicted microseconds of what is due in it
        self._usual = 0.0  # seconds
        self._running_long: set[int] = set()  # threads
        self._ends: dict[int, float] = {}  # busy thread -> when it is predicted to be free
        self._starts: dict[int, float] = {}  # busy thread -> since when it is
        self._closed = False
        self._threads = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def add(self, owner: Owner) -> None:
        with self._ready:
            self._owners.append(owner)

    def remove(self, owner: Owner) -> None:
        """Forget an owner whose queue stays empty from now on."""
        with self._ready:
            self._owners.remove(owner)

    def busy_since(self) -> float | None:
        """When the longest of the takes under way began, on the monotonic clock."""
        return min(list(self._starts.values()), default=None)

    def put(self, queue: Queue, job: Job, patience: float) -> None:
        """Queue a job; Overloaded if its predicted wait eats up `patience` or exceeds `max_wait` seconds.

        Into an idle pool everything goes, however long it takes to answer.
        """
        with self._ready:
            if self._closed:
                raise NotReady("the server is shutting down")
            wait = self._wait(job)
            # The take that it will be in ends for all of its jobs together.
            limit = max(0.0, min(HEADROOM * patience - self.take, self.max_wait))
            if wait > limit:
                # A second longer than the surplus: by then the queue has room, if nobody else fills it.
                raise Overloaded(
                    f"the predicted wait is {wait:.1f} s, the limit {limit:.1f} s", 1 + math.ceil(wait - limit)
                )
            self._waiting[_slice(job)] += _microseconds(job)
            self._usual += (RATE if self._usual else 1.0) * (job.cost - self._usual)
            job.long = job.cost > LONG * self._usual
            queue.push(job)
            self._ready.notify()

    def _wait(self, job: Job) -> float:
        """Predicted seconds until a new job would be taken."""
        free = 0.0 if len(self._ends) < self.threads else max(0.0, min(self._ends.values()) - monotonic())
        mine = _slice(job)
        return free + sum(cost for due, cost in self._waiting.items() if due <= mine) / 1e6 / self.threads

    def _next(self) -> tuple[Owner | None, bool, float | None]:
        """Whose turn it is, if anybody's, and whether for short jobs only; else the seconds until a long one may go."""
        kept = len(self._running_long) == self.threads - 1 > 0
        if kept and (found := self._firsts(short=True)):
            return min(found)[2], True, None
        if not (found := self._firsts(short=False)):
            return None, False, None
        _, _, owner = min(found)
        job = owner.queue.first()
        if kept and job:
            now, turn = monotonic(), job.enqueued + PATIENCE * job.cost
            if now <= (last := job.deadline - job.cost):  # else it is late whatever is done
                turn = min(turn, last - SLICE)
            pause = turn - now
            if pause > 0:
                return None, False, min(pause, SLICE)  # its caller may leave, and another be first
        return owner, False, None

    def _firsts(self, short: bool) -> list[tuple[float, int, Owner]]:
        """When the first job of each queue is due, and whose it is; what nobody waits for is dropped before."""
        for owner in self._owners:
            self._paid(owner.drop(short))
        firsts = ((owner.queue.first(short), i, owner) for i, owner in enumerate(self._owners))
        return [(job.due, i, owner) for job, i, owner in firsts if job]

    def _paid(self, jobs: Sequence[Job]) -> None:
        """These jobs wait no more."""
        for job in jobs:
            self._waiting[_slice(job)] -= _microseconds(job)
            if not self._waiting[_slice(job)]:
                del self._waiting[_slice(job)]

    def _work(self, me: int) -> None:
        while True:
            jobs: list[Job] = []
            with self._ready:
                while True:
                    owner, short, pause = self._next()
                    if owner is not None:
                        break
                    if pause is None:
                        self._waiting.clear()
                        if self._closed:
                            return
                    self._ready.wait(pause)
                try:
                    jobs, dropped = owner.take(min(self.take, self._share()), short)
                except Exception as error:
                    log.error("%s: its queue cannot be read: %s", owner.name, type(error).__name__)
                    jobs, dropped = [owner.queue.pop(short)], []
                self._paid([*jobs, *dropped])
                self._starts[me] = monotonic()
                self._ends[me] = self._starts[me] + sum(job.cost for job in jobs)
                if any(job.long for job in jobs):
                    self._running_long.add(me)
            self._answer(owner, jobs)
            with self._ready:
                del self._ends[me], self._starts[me]
                self._running_long.discard(me)

    def _share(self) -> float:
        """Predicted seconds of a take with which all workers would be done at once with all that waits."""
        now = monotonic()
        busy = sum(max(0.0, end - now) for end in self._ends.values())
        return (sum(self._waiting.values()) / 1e6 + busy) / self.threads

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

    def close(self, patience: float | None = None) -> None:
        """Accept nothing more, finish what is queued, end the threads; after `patience` seconds leave them to it."""
        end = None if patience is None else monotonic() + patience
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - monotonic()))


def _slice(job: Job) -> int:
    return int(job.due / SLICE)


def _microseconds(job: Job) -> int:
    # Whole numbers, so that what goes out is exactly what came in.
    return round(job.cost * 1e6)
