"""One bundle at work behind a queue of its own; one pool of worker threads serves all of them, oldest item first.

Promises: an answer goes only to its caller; one bad item fails alone; the answer does not depend on what else is
running; work whose caller left or whose time ran out is not done; what would wait too long is refused at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from service.bundle import Bundle
from service.errors import BundleError, DeadlineExceeded, InternalError, NotReady, Overloaded, ServiceError
from service.session import Cost, Device, Session
from service.tasks import family
from service.tasks.base import Task
from service.types import Answer, Timing

log = logging.getLogger("bentoml.clueserve")


class Result(NamedTuple):
    answer: Answer
    timing: Timing


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
        self._queues: list[deque[Job]] = []
        self._owners: list[Runner] = []
        self._backlog = 0.0
        self._closed = False
        self._workers = [threading.Thread(target=self._work, name=f"worker-{i}", daemon=True) for i in range(threads)]
        for worker in self._workers:
            worker.start()

    def add(self, runner: Runner, queue: deque[Job]) -> None:
        with self._ready:
            self._owners.append(runner)
            self._queues.append(queue)

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
                raise Overloaded(f"the predicted wait is {wait:.1f} s, the limit {limit:.1f} s", 1 + math.ceil(wait - limit))
            self._backlog += job.cost
            queue.append(job)
            self._ready.notify()

    def done(self, cost: float) -> None:
        with self._ready:
            self._backlog = max(0.0, self._backlog - cost)

    def _work(self) -> None:
        while True:
            with self._ready:
                waiting = [(q[0].enqueued, i) for i, q in enumerate(self._queues) if q]
                while not waiting:
                    if self._closed:
                        return
                    self._ready.wait()
                    waiting = [(q[0].enqueued, i) for i, q in enumerate(self._queues) if q]
                runner = self._owners[min(waiting)[1]]
                jobs, dropped = runner.take(self.take)
                self._backlog = max(0.0, self._backlog - dropped)
            try:
                if jobs:
                    runner.process(jobs)
            except Exception:
                # A worker must outlive any fault: its callers get 500 when their time is up, the next ones an answer.
                log.exception("%s: a take of %d items was lost", runner.name, len(jobs))
            finally:
                self.done(sum(job.cost for job in jobs))

    def close(self) -> None:
        """Accept nothing more, finish what is queued, end the threads."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        for worker in self._workers:
            worker.join()


class Runner:
    """One loaded bundle. `submit` from an event loop; the pool's threads call `take` and `process`."""

    def __init__(self, task: Task, session: Session, pool: Pool, on_depth: Callable[[int], None] = lambda _: None) -> None:
        self.task = task
        self.session = session
        self.name = task.manifest.name
        self._pool = pool
        self._queue: deque[Job] = deque()
        self._on_depth = on_depth
        # Learnt from traffic: tokens a character, and real seconds a predicted second.
        self._density = 1.0
        self._drift = 1.0
        pool.add(self, self._queue)

    async def submit(self, item: Any, timeout: float) -> Result:
        """Answer one item within `timeout` seconds.

        Raises InvalidItem, Overloaded, DeadlineExceeded or InternalError. Cancelling the call drops the item.
        """
        self.task.check(item)
        loop = asyncio.get_running_loop()
        now = monotonic()
        weight = self.task.weight(item)
        tokens = weight * self._density
        cost = self._drift * self._alone(tokens)
        job = Job(item, weight, tokens, cost, loop.create_future(), loop, now + timeout, now)
        self._pool.put(self._queue, job, timeout)
        self._on_depth(len(self._queue))
        try:
            async with asyncio.timeout(timeout):
                return Result(await job.future, job.timing)
        except TimeoutError:
            raise DeadlineExceeded(f"not answered within {timeout * 1000:.0f} ms") from None

    def _alone(self, tokens: float) -> float:
        rows = max(1, math.ceil(tokens / self.task.manifest.max_length))
        cost: Cost = self.session.cost
        return rows * cost.t0 + cost.c * tokens

    def take(self, budget: float) -> tuple[list[Job], float]:
        """Take waiting jobs up to `budget` predicted seconds, at least one. Called under the pool's lock.

        Jobs that nobody waits for any more are thrown away; their cost is the second value.
        """
        now = monotonic()
        jobs: list[Job] = []
        dropped = longest = 0.0
        while self._queue:
            job = self._queue[0]
            if not job.wanted(now):
                dropped += self._queue.popleft().cost
                continue
            longest = max(longest, job.tokens)
            if jobs and self._drift * self.session.cost.of(len(jobs) + 1, int(longest)) > budget:
                break
            jobs.append(self._queue.popleft())
            job.timing.queue = now - job.enqueued
        self._on_depth(len(self._queue))
        return jobs, dropped

    def process(self, jobs: Sequence[Job]) -> None:
        """Answer jobs together; if that fails, each alone, so that only the culprit's caller hears of it."""
        start = monotonic()
        results = self._predict(jobs)
        if results is None:
            results = [self._alone_or_error(job) for job in jobs]
        self._learn(jobs, monotonic() - start)
        for loop in {job.loop for job in jobs}:
            mine = [(j, r) for j, r in zip(jobs, results, strict=True) if j.loop is loop]
            try:
                loop.call_soon_threadsafe(_deliver, mine)
            except RuntimeError:  # the loop was closed: nobody is left to answer
                log.info("%s: %d answers had no caller left", self.name, len(mine))

    def _predict(self, jobs: Sequence[Job]) -> list[Answer | Exception] | None:
        """Answers in order, or None if the batch failed as a whole."""
        try:
            results = self.task.predict([j.item for j in jobs], self.session.run, [j.timing for j in jobs])
        except Exception as error:
            self._log(error)
            return None
        if len(results) != len(jobs):
            log.error("%s: %d answers for %d items", self.name, len(results), len(jobs))
            return None
        return [self._known(r) if isinstance(r, Exception) else r for r in results]

    def _alone_or_error(self, job: Job) -> Answer | Exception:
        results = self._predict([job])
        return InternalError("the model failed on this item") if results is None else results[0]

    def _known(self, error: Exception) -> ServiceError:
        if isinstance(error, ServiceError):
            return error
        self._log(error)
        return InternalError("the model failed on this item")

    def _log(self, error: Exception) -> None:
        # An exception's message may quote the caller's text; its type and place do not.
        frames = "".join(traceback.format_tb(error.__traceback__))
        log.error("%s: %s\n%s", self.name, type(error).__name__, frames)

    def _learn(self, jobs: Sequence[Job], seconds: float) -> None:
        weight, tokens = sum(j.weight for j in jobs), sum(j.timing.tokens for j in jobs)
        if weight and tokens:
            self._density += 0.1 * (tokens / weight - self._density)
            predicted = sum(self._alone(j.timing.tokens) for j in jobs)
            self._drift += 0.1 * (min(10.0, max(0.1, seconds / predicted)) - self._drift)


def _deliver(results: Sequence[tuple[Job, Answer | Exception]]) -> None:
    for job, result in results:
        if job.future.done():
            continue
        if isinstance(result, Exception):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)


def open_bundle(bundle: Bundle, device: Device, on_run: Callable[[int, int, int], None] | None = None) -> tuple[Task, Session]:
    """Load a bundle and prove it: files, graph axes, golden records. BundleError says what is wrong."""
    bundle.verify()
    graph = bundle.manifest.graph
    task = family(bundle)(bundle)
    session = Session(bundle.graph_path, pads=graph.pads, row_isolated=graph.row_isolated, device=device, on_run=on_run)
    for kind, declared, actual in (("inputs", graph.inputs, session.inputs), ("outputs", graph.outputs, session.outputs)):
        if {k: list(v) for k, v in declared.items()} != {k: list(v) for k, v in actual.items()}:
            raise BundleError(f"{bundle.folder}: the graph's {kind} are {actual}, the bundle says {declared}")
    session.measure(bundle.manifest.max_length)
    for i, golden in enumerate(bundle.manifest.golden):
        item = task.Input.model_validate(golden.item)
        (got,) = task.predict([item], session.run, [Timing()])
        if isinstance(got, Exception):
            raise BundleError(f"{bundle.folder}: golden record {i} fails: {got}")
        if problem := difference(golden.answer, got, bundle.manifest.tolerance):
            raise BundleError(f"{bundle.folder}: golden record {i} differs at {problem}")
    return task, session


def difference(expected: Any, got: Any, tolerance: float, path: str = "answer") -> str | None:
    """Where two answers first differ, or None: numbers within `tolerance`, all else exactly."""
    if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
        pairs = [(expected[k], got[k], f"{path}.{k}") for k in expected]
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = [(e, g, f"{path}.{i}") for i, (e, g) in enumerate(zip(expected, got, strict=True))]
    elif isinstance(expected, float) and isinstance(got, int | float) and not isinstance(got, bool):
        return None if abs(expected - got) <= tolerance else f"{path}: {expected} became {got}"
    else:
        return None if type(expected) is type(got) and expected == got else f"{path}: {expected!r} became {got!r}"
    return next((p for e, g, at in pairs if (p := difference(e, g, tolerance, at))), None)
