"""Worker threads and the queues before them: who is admitted, who is first, what survives a fault. No bundles."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic, sleep

import pytest
from workers import Owner, blocked, job

from service.batching.jobs import Job, deliver
from service.batching.pool import Pool
from service.errors import InternalError, NotReady, Overloaded
from service.types import Answer


def test_an_idle_pool_takes_a_job_longer_than_any_limit(pools: Callable[..., Pool]) -> None:
    """A budget below the longest item must not starve it (huggingface/text-embeddings-inference#723)."""
    owner = Owner(pools(max_wait=0.001, take=1e-9))
    owner.put(job("endless", cost=3600.0), patience=0.001)
    owner.wait_for("endless")


@pytest.mark.parametrize(("threads", "admitted"), [(1, 2), (2, 3)])
def test_a_predicted_wait_past_the_limit_is_refused_at_once(
    pools: Callable[..., Pool], threads: int, admitted: int
) -> None:
    owner = Owner(pools(threads, max_wait=1.0))
    owner.gate.clear()
    for i in range(admitted):
        owner.put(job(str(i), cost=1.0))  # a wait of i / threads seconds lies before it
    start = monotonic()
    with pytest.raises(Overloaded, match="the predicted wait is") as refused:
        owner.put(job("late", cost=1.0), patience=0.4)
    assert monotonic() - start < 0.5
    assert refused.value.retry_after >= 1
    assert refused.value.status == 429
    assert refused.value.headers()["Retry-After"] == str(refused.value.retry_after)


def test_a_refusal_says_when_the_queue_will_have_room(pools: Callable[..., Pool]) -> None:
    owner = Owner(pools(max_wait=2.0))
    blocked(owner, cost=7.5)
    with pytest.raises(Overloaded, match=r"the predicted wait is 7\.5 s, the limit 2\.0 s") as refused:
        owner.put(job("late"))
    assert refused.value.retry_after == 1 + 6


def test_a_caller_in_a_hurry_is_refused_where_a_patient_one_is_not(pools: Callable[..., Pool]) -> None:
    owner = Owner(pools(max_wait=10.0))
    blocked(owner, cost=1.0)
    with pytest.raises(Overloaded):
        owner.put(job("hurried"), patience=0.5)
    owner.put(job("patient"), patience=1.5)
    owner.gate.set()
    owner.wait_for("first", "patient")


def test_a_worker_that_should_be_free_by_now_is_not_waited_for(pools: Callable[..., Pool]) -> None:
    owner = Owner(pools(max_wait=10.0))
    blocked(owner, cost=0.05)
    sleep(0.06)
    owner.put(job("next"), patience=0.001)
    owner.gate.set()
    owner.wait_for("first", "next")


def test_a_refused_job_costs_nothing_and_a_finished_one_is_paid_off(pools: Callable[..., Pool]) -> None:
    owner = Owner(pools(max_wait=1.0))
    blocked(owner, cost=1.5)
    for _ in range(5):
        with pytest.raises(Overloaded, match=r"wait is 1\.5 s"):
            owner.put(job("late", cost=9.0))
    owner.gate.set()
    owner.wait_for("first")
    owner.put_soon(job("next", cost=9.0), patience=0.001)
    owner.wait_for("first", "next")


def test_jobs_that_nobody_waits_for_are_paid_off_unworked(pools: Callable[..., Pool]) -> None:
    owner = Owner(pools(max_wait=100.0))
    hold, held = threading.Event(), threading.Event()

    def wait(name: str) -> None:
        if name == "second":
            held.set()
            hold.wait(20)

    owner.fault = wait
    blocked(owner)
    owner.put(job("left", cost=20.0)).future.cancel()
    owner.put(job("late", cost=20.0, deadline=0.0))
    owner.put(job("second"))
    owner.gate.set()
    assert held.wait(20)  # the worker is busy, so that the queue's account is what counts
    owner.put(job("next"), patience=0.001)
    hold.set()
    owner.wait_for("first", "second", "next")


def test_a_worker_survives_a_fault_whose_callers_hear_of_it(
    pools: Callable[..., Pool], caplog: pytest.LogCaptureFixture
) -> None:
    owner = Owner(pools(max_wait=1.0), "klue-ynat")

    def fail(name: str) -> None:
        if name == "bad":
            raise RuntimeError("a secret of the caller")

    owner.fault = fail

    async def scenario() -> None:
        bad = job("bad", cost=50.0, loop=asyncio.get_running_loop())
        owner.put(bad)
        with pytest.raises(InternalError, match="the model failed on this item"):
            await asyncio.wait_for(bad.future, 20)
        # Paid off, although it came to nothing: the pool is idle again.
        good = job("good", loop=asyncio.get_running_loop())
        owner.put_soon(good, patience=0.001)
        assert await asyncio.wait_for(good.future, 20) == {"name": "good"}

    with caplog.at_level(logging.ERROR, logger="bentoml.clueserve"):
        asyncio.run(scenario())
    assert [r.getMessage() for r in caplog.records] == ["klue-ynat: a take of 1 items failed: RuntimeError"]
    assert "secret" not in caplog.text


def test_a_worker_survives_a_queue_that_cannot_be_read_and_too_few_results(pools: Callable[..., Pool]) -> None:
    class Clumsy(Owner):
        def take(self, budget: float, short: bool) -> tuple[list[Job], list[Job]]:
            first = self.queue.first()
            if first and first.item == "unreadable":
                raise RuntimeError("no")
            return super().take(budget, short)

        def process(self, jobs: Sequence[Job]) -> Sequence[Answer | Exception]:
            return [] if jobs[0].item == "forgotten" else super().process(jobs)

    owner = Clumsy(pools(max_wait=1.0))

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        for name, answered in (("unreadable", True), ("forgotten", False), ("good", True)):
            one = owner.put(job(name, loop=loop))
            if answered:
                assert await asyncio.wait_for(one.future, 20) == {"name": name}
            else:
                with pytest.raises(InternalError):
                    await asyncio.wait_for(one.future, 20)

    asyncio.run(scenario())


def test_results_reach_their_own_callers_on_their_own_loops() -> None:
    answered: dict[str, Answer] = {}

    async def caller(names: list[str], barrier: threading.Barrier, jobs: list[Job]) -> None:
        mine = [job(name, loop=asyncio.get_running_loop()) for name in names]
        mine[0].future.cancel()
        jobs.extend(mine)
        await asyncio.to_thread(barrier.wait, 20)
        for one in mine[1:]:
            answered[one.item] = await asyncio.wait_for(one.future, 20)

    jobs: list[Job] = []
    barrier = threading.Barrier(3)
    callers = [
        threading.Thread(target=lambda names=names: asyncio.run(caller(names, barrier, jobs)))
        for names in (["a", "b", "c"], ["d", "e"])
    ]
    for thread in callers:
        thread.start()
    barrier.wait(20)
    gone = job("gone")
    deliver([gone, *jobs], [{"name": one.item} for one in [gone, *jobs]])
    for thread in callers:
        thread.join(20)
    assert answered == {name: {"name": name} for name in "bce"}
    assert not gone.future.done()


def test_closing_finishes_what_is_queued_and_then_refuses(pools: Callable[..., Pool]) -> None:
    pool = pools(threads=2, max_wait=100.0)
    owner = Owner(pool)
    owner.gate.clear()
    names = [str(i) for i in range(20)]
    for name in names:
        owner.put(job(name))
    closing = threading.Thread(target=pool.close)
    closing.start()
    sleep(0.05)
    assert closing.is_alive()
    with pytest.raises(NotReady, match="shutting down") as refused:
        owner.put(job("late"))
    assert refused.value.status == 503
    owner.gate.set()
    closing.join(20)
    assert not closing.is_alive()
    assert sorted(owner.done, key=int) == names
    assert not any(thread.is_alive() for thread in pool._threads)
    pool.close()


def test_an_idle_pool_closes_at_once(pools: Callable[..., Pool]) -> None:
    start = monotonic()
    pools(threads=4).close()
    assert monotonic() - start < 1
