"""What waits before the workers: a request's turn, its jobs, and how their results find their way back."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from service.types import Answer, Timing


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
    """One item on its way: who waits for it, until when, when it is due, and its expected cost in seconds.

    `long`: it costs many times what is usual.
    """

    item: Any
    weight: int
    tokens: float
    cost: float
    due: float
    future: asyncio.Future[Answer]
    loop: asyncio.AbstractEventLoop
    deadline: float
    enqueued: float
    long: bool = False
    timing: Timing = field(default_factory=Timing)

    def wanted(self, now: float) -> bool:
        return now < self.deadline and not self.future.done()


class Queue:
    """Jobs by when they are due; equals in the order in which they came. The long ones can be passed over."""

    def __init__(self) -> None:
        self._heaps: dict[bool, list[tuple[float, int, Job]]] = {False: [], True: []}
        self._number = itertools.count()

    def __len__(self) -> int:
        return sum(map(len, self._heaps.values()))

    def first(self, short: bool = False) -> Job | None:
        """The job that is due first; of the short ones only, if so wished."""
        heap = self._first(short)
        return heap[0][2] if heap else None

    def push(self, job: Job) -> None:
        heapq.heappush(self._heaps[job.long], (job.due, next(self._number), job))

    def pop(self, short: bool = False) -> Job:
        """Take out what `first` shows; IndexError if that is nothing."""
        return heapq.heappop(self._first(short))[2]

    def _first(self, short: bool) -> list[tuple[float, int, Job]]:
        heaps = [heap for long, heap in self._heaps.items() if heap and not (short and long)]
        return min(heaps, key=lambda heap: heap[0], default=[])


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
