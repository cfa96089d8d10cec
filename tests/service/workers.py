"""A pool's worker that does what a test tells it, and jobs for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from time import monotonic, sleep

from service.batching.jobs import Job, Queue
from service.batching.pool import Pool
from service.errors import Overloaded
from service.types import Answer

Loop = asyncio.AbstractEventLoop
LOOP = asyncio.new_event_loop()  # of a caller that is gone: nobody hears the answer
LOOP.close()


def job(name: str, cost: float = 0.0, *, age: float = 0.0, deadline: float = 60.0, loop: Loop = LOOP) -> Job:
    now = monotonic()
    return Job(name, 1, 1.0, cost, now - age + cost, asyncio.Future(loop=loop), loop, now + deadline, now - age)


class Owner:
    """Takes one job at a time and notes it; waits while its gate is shut; fails where it is told to."""

    def __init__(self, pool: Pool, name: str = "owner") -> None:
        self.name = name
        self.queue = Queue()
        self.pool = pool
        self.done: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.busy = threading.Event()
        self.fault: Callable[[str], object] = lambda _: None
        pool.add(self)

    def put(self, new: Job, patience: float = 60.0) -> Job:
        self.pool.put(self.queue, new, patience)
        return new

    def put_soon(self, new: Job, patience: float) -> None:
        """Put what is accepted as soon as the worker has laid down what it just finished."""
        until = monotonic() + 20
        while True:
            try:
                self.put(new, patience)
                return
            except Overloaded:
                assert monotonic() < until, "never accepted"
                sleep(0.001)

    def drop(self, short: bool) -> list[Job]:
        dropped = []
        while (first := self.queue.first(short)) and not first.wanted(monotonic()):
            dropped.append(self.queue.pop(short))
        return dropped

    def take(self, budget: float, short: bool) -> tuple[list[Job], list[Job]]:
        dropped = self.drop(short)
        return ([self.queue.pop(short)] if self.queue.first(short) else []), dropped

    def process(self, jobs: Sequence[Job]) -> Sequence[Answer | Exception]:
        self.busy.set()
        assert self.gate.wait(20)
        for one in jobs:
            self.fault(one.item)
            self.done.append(one.item)
        return [{"name": one.item} for one in jobs]

    def wait_for(self, *names: str, in_order: bool = True) -> None:
        until = monotonic() + 20
        order: Callable[[list[str]], list[str]] = list if in_order else sorted
        while order(self.done[-len(names) :]) != list(names):
            assert monotonic() < until, f"{self.done} instead of {names}"
            sleep(0.001)


def blocked(owner: Owner, cost: float = 0.0) -> None:
    """Keep a worker busy with a job of this predicted cost."""
    owner.gate.clear()
    owner.busy.clear()
    owner.put(job("first", cost))
    assert owner.busy.wait(20)
