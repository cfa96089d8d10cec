"""What lies before a runner: nothing is done for those who left, what would be late is refused, the oldest is first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, cast

import pytest
from bench import TEXTS, Bench

from service.batching.jobs import Job, Queue
from service.batching.pool import Pool
from service.batching.runner import Runner
from service.errors import DeadlineExceeded, InvalidItem, NotReady, Overloaded
from service.graph.session import Cost

Benches = Callable[..., Bench]


def test_the_item_of_a_caller_who_left_is_not_run(benches: Benches) -> None:
    bench = benches()

    async def scenario() -> None:
        first = await bench.blocked()
        left = [asyncio.create_task(bench.ask(text)) for text in TEXTS[1:4]]
        stays = asyncio.create_task(bench.ask(TEXTS[4]))
        await asyncio.sleep(0.01)
        for task in left:
            task.cancel()
        await asyncio.sleep(0.01)
        bench.task.gate.set()
        bench.equals(await first, TEXTS[0])
        bench.equals(await stays, TEXTS[4])
        assert all(task.cancelled() for task in left)

    asyncio.run(scenario())
    assert bench.task.ran == [TEXTS[0], TEXTS[4]]


def test_an_expired_item_is_not_run_and_its_caller_hears_in_time(benches: Benches) -> None:
    bench = benches(take=0.01)

    async def scenario() -> None:
        first = await bench.blocked()
        start = monotonic()
        with pytest.raises(DeadlineExceeded, match="not answered within 300 ms") as late:
            await bench.ask(TEXTS[1], timeout=0.3)
        assert 0.28 < monotonic() - start < 1
        assert late.value.status == 504
        bench.task.gate.set()
        await first
        await bench.ask(TEXTS[2])

    asyncio.run(scenario())
    assert bench.task.ran == [TEXTS[0], TEXTS[2]]


def test_a_deadline_that_passes_while_the_model_runs_is_kept_too(benches: Benches) -> None:
    bench = benches()

    async def scenario() -> None:
        with pytest.raises(DeadlineExceeded):
            await (await bench.blocked(timeout=0.05))
        bench.task.gate.set()
        bench.equals(await bench.ask(TEXTS[1]), TEXTS[1])

    asyncio.run(scenario())


def test_what_would_wait_too_long_is_refused_at_once(benches: Benches) -> None:
    bench = benches(max_wait=0.5)
    bench.session.cost = Cost(t0=3.0, c=1e-9)

    async def scenario() -> None:
        first = await bench.blocked()
        start = monotonic()
        with pytest.raises(Overloaded, match="the predicted wait is") as refused:
            await bench.ask(TEXTS[1])
        assert monotonic() - start < 0.5
        assert refused.value.retry_after == 1 + 3
        bench.task.gate.set()
        bench.equals(await first, TEXTS[0])

    asyncio.run(scenario())
    assert bench.task.ran == [TEXTS[0]]


def test_an_idle_pool_answers_an_item_longer_than_every_budget(benches: Benches) -> None:
    bench = benches(max_wait=0.001, take=1e-9)
    bench.session.cost = Cost(t0=900.0, c=1.0)
    bench.equals(asyncio.run(bench.ask(TEXTS[5])), TEXTS[5])


def test_of_equal_items_the_oldest_of_two_bundles_is_next(benches: Benches) -> None:
    one = benches(take=1e-9)  # one item a take
    two = benches(pool=one.pool)
    two.task.takes = one.task.takes
    one.session.cost = two.session.cost = Cost(t0=1e-6, c=1e-9)  # all due when they come

    async def scenario() -> None:
        tasks = [await one.blocked()]
        for bench, text in [(two, TEXTS[1]), (one, TEXTS[2]), (one, TEXTS[3]), (two, TEXTS[4]), (one, TEXTS[5])]:
            tasks.append(asyncio.create_task(bench.ask(text)))
            await asyncio.sleep(0.002)
        one.task.gate.set()
        for got, text in zip(await asyncio.gather(*tasks), TEXTS, strict=True):
            one.equals(got, text)

    asyncio.run(scenario())
    assert one.task.takes == [[text] for text in TEXTS]


def test_closing_answers_what_is_queued_and_then_refuses(benches: Benches) -> None:
    bench = benches()

    async def scenario() -> None:
        tasks = [await bench.blocked(), *(asyncio.create_task(bench.ask(text)) for text in TEXTS[1:])]
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(asyncio.to_thread(bench.pool.close))
        await asyncio.sleep(0.05)
        with pytest.raises(NotReady, match="shutting down"):
            await bench.ask(TEXTS[0])
        bench.task.gate.set()
        await closing
        for got, text in zip(await asyncio.gather(*tasks), TEXTS, strict=True):
            bench.equals(got, text)

    asyncio.run(scenario())


def test_an_event_loop_that_ended_takes_no_worker_with_it(benches: Benches) -> None:
    bench = benches()

    async def leaves() -> None:
        await bench.blocked()

    asyncio.run(leaves())  # cancels what it began, and its loop is closed when the answer comes
    bench.task.gate.set()
    bench.equals(asyncio.run(bench.ask(TEXTS[1])), TEXTS[1])


def test_an_empty_text_is_refused_before_it_waits(benches: Benches) -> None:
    bench = benches()

    async def scenario() -> None:
        first = await bench.blocked()
        with pytest.raises(InvalidItem, match="the text is empty"):
            await bench.ask(" \u3000\u200b")
        bench.task.gate.set()
        await first

    asyncio.run(scenario())


class Parked:
    """A pool without workers: what is put stays."""

    def add(self, owner: Runner) -> None:
        pass

    def put(self, queue: Queue, job: Job, patience: float) -> None:
        queue.push(job)


def parked(bundle_of: Callable[[str], Path], depths: list[int]) -> tuple[Bench, Runner]:
    bench = Bench(bundle_of("klue/ynat"), cast(Pool, Parked()))
    bench.session.cost = Cost(t0=0.0, c=1.0)  # a token a second, and a character is taken for a token
    bench.runner = Runner(bench.task, bench.session, cast(Pool, Parked()), depths.append)
    return bench, bench.runner


def test_a_take_holds_at_least_one_item_and_else_about_its_budget(bundle_of: Callable[[str], Path]) -> None:
    depths: list[int] = []
    bench, runner = parked(bundle_of, depths)

    async def scenario() -> list[list[str]]:
        asked = [asyncio.create_task(bench.ask(text)) for text in ["가" * 9, "나" * 4, "다" * 4, "라" * 4, "마" * 5]]
        await asyncio.sleep(0.01)
        takes = []
        while runner.queue:
            jobs, dropped = runner.take(8.0, short=False)
            assert dropped == []
            takes.append([job.item.text[0] for job in jobs])
        for task in asked:
            task.cancel()
        return takes

    assert asyncio.run(scenario()) == [["나", "다"], ["라", "마"], ["가"]]
    assert depths == [1, 2, 3, 4, 5, 3, 1, 0]


def test_the_unwanted_are_thrown_out_of_a_take_with_their_cost(bundle_of: Callable[[str], Path]) -> None:
    bench, runner = parked(bundle_of, [])

    async def scenario() -> tuple[list[Any], list[float]]:
        asked = [asyncio.create_task(bench.ask(text)) for text in ["가" * 3, "나" * 4, "다" * 5]]
        await asyncio.sleep(0.01)
        asked[0].cancel()
        asked[2].cancel()
        await asyncio.sleep(0.01)
        jobs, dropped = runner.take(100.0, short=False)
        asked[1].cancel()
        return [job.item.text for job in jobs], [job.cost for job in dropped]

    assert asyncio.run(scenario()) == (["나" * 4], [3.0, 5.0])
