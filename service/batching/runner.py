"""One bundle at work behind a queue of its own; one pool of worker threads serves all of them.

Promises: an answer goes only to its caller; one bad item fails alone; the answer does not depend on what else is
running; work whose caller left or whose time ran out is not done; what would wait too long is refused at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

from service.batching.health import Health
from service.batching.jobs import Job, Queue, Turn
from service.batching.pool import Pool
from service.errors import DeadlineExceeded, InternalError, ServiceError, without_message
from service.graph.session import Chain, Cost, Session
from service.tasks.base import Task
from service.types import Answer, Timing

log = logging.getLogger("bentoml.clueserve")


# How much of an estimate the latest take replaces.
RATE = 0.1
# A pipeline's later stages may be a hundred rows for one of the first.
MOST_DRIFT = 100.0


class Result(NamedTuple):
    answer: Answer
    timing: Timing


class Runner:
    """One loaded bundle. `submit` from an event loop; the pool's threads call `take` and `process`."""

    def __init__(
        self,
        task: Task,
        session: Session | Chain,
        pool: Pool,
        on_depth: Callable[[int], None] = lambda _: None,
        on_answer: Callable[[Answer, Timing], None] = lambda *_: None,
        version: str = "",
        health: Health | None = None,
    ) -> None:
        self.task = task
        self.session = session
        self.name = task.manifest.name
        self._pool = pool
        self.queue = Queue()
        self._on_depth = on_depth
        self._on_answer = on_answer
        self.version = version
        self.health = health or Health(self.name)
        self.unfinished = 0
        # Learnt from traffic: tokens a character, and real seconds a predicted second.
        self._density = 1.0
        self._drift = 1.0
        pool.add(self)

    async def submit(self, item: Any, timeout: float, turn: Turn) -> Result:
        """Answer one item of a request within `timeout` seconds.

        Raises InvalidItem, Overloaded, DeadlineExceeded or InternalError. Cancelling the call drops the item.
        """
        self.task.check(item)
        loop = asyncio.get_running_loop()
        now = monotonic()
        weight = self.task.weight(item)
        tokens = min(weight * self._density, self.task.limit(item))
        cost = self._drift * self._alone(tokens)
        job = Job(item, weight, tokens, cost, turn.due(cost), loop.create_future(), loop, now + timeout, now)
        job.timing.version = self.version
        self._pool.put(self.queue, job, timeout)
        self._on_depth(len(self.queue))
        self.unfinished += 1
        try:
            async with asyncio.timeout(timeout):
                return Result(await job.future, job.timing)
        except TimeoutError:
            raise DeadlineExceeded(f"not answered within {timeout * 1000:.0f} ms") from None
        finally:
            self.unfinished -= 1

    @property
    def idle(self) -> bool:
        """Nobody waits for it, and nothing is left in its queue."""
        return not self.unfinished and not len(self.queue)

    def retire(self) -> None:
        """Leave the pool. Nothing may be submitted any more."""
        self.health.close()
        self._pool.remove(self)

    def _alone(self, tokens: float) -> float:
        rows = max(1, math.ceil(tokens / self.task.manifest.max_length))
        cost: Cost = self.session.cost
        return rows * (cost.t0 + cost.r) + cost.c * tokens

    def take(self, budget: float, short: bool) -> tuple[list[Job], list[Job]]:
        """Take waiting jobs of about `budget` predicted seconds, at least one. Called under the pool's lock.

        Jobs that nobody waits for any more are the second list. `short`: the long ones stay.
        """
        now = monotonic()
        jobs: list[Job] = []
        dropped: list[Job] = []
        spent = 0.0
        while True:
            dropped += self._drop(short, now)
            if not (job := self.queue.first(short)):
                break
            if jobs and spent + job.cost / 2 > budget:
                break
            spent += job.cost
            jobs.append(self.queue.pop(short))
            job.timing.mark("queue", job.enqueued, now)
        self._on_depth(len(self.queue))
        return jobs, dropped

    def drop(self, short: bool) -> list[Job]:
        """Take out what nobody waits for any more before the first job. Called under the pool's lock."""
        if dropped := self._drop(short, monotonic()):
            self._on_depth(len(self.queue))
        return dropped

    def _drop(self, short: bool, now: float) -> list[Job]:
        dropped = []
        while (job := self.queue.first(short)) and not job.wanted(now):
            dropped.append(self.queue.pop(short))
        return dropped

    def process(self, jobs: Sequence[Job]) -> Sequence[Answer | Exception]:
        """Answer jobs together; if that fails, each alone, so that only the culprit's caller hears of it."""
        start = monotonic()
        results = self._predict(jobs)
        if results is None:
            alone = [self._predict([job]) if len(jobs) > 1 else None for job in jobs]
            results = [InternalError("the model failed on this item") if r is None else r[0] for r in alone]
        self._learn(jobs, monotonic() - start)
        for job, result in zip(jobs, results, strict=True):
            self.health.note(isinstance(result, InternalError))
            if not isinstance(result, Exception):
                self._on_answer(result, job.timing)
        return results

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

    def _known(self, error: Exception) -> ServiceError:
        if isinstance(error, ServiceError):
            return error
        self._log(error)
        return InternalError("the model failed on this item")

    def _log(self, error: Exception) -> None:
        log.error("%s: the model failed\n%s", self.name, without_message(error))

    def _learn(self, jobs: Sequence[Job], seconds: float) -> None:
        whole = [j for j in jobs if 0 < j.timing.tokens < self.task.limit(j.item)]
        if weight := sum(j.weight for j in whole):
            self._density += RATE * (sum(j.timing.tokens for j in whole) / weight - self._density)
        if predicted := sum(self._alone(j.timing.tokens) for j in jobs if j.timing.tokens):
            self._drift += RATE * (min(MOST_DRIFT, max(1 / MOST_DRIFT, seconds / predicted)) - self._drift)
