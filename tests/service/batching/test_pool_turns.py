"""Whose turn it is: by when a worker of its own would have finished it, and one worker is kept for the short."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep

import pytest
from workers import Owner, blocked, job

from service.batching.jobs import Job, Turn
from service.batching.pool import Pool
from service.errors import Overloaded


def test_of_equal_jobs_the_oldest_of_all_queues_is_next(pools: Callable[..., Pool]) -> None:
    """A busy bundle may not starve a quiet one."""
    pool = pools(max_wait=100.0)
    one, two = Owner(pool, "one"), Owner(pool, "two")
    one.done = two.done = order = []
    blocked(one)
    for owner, name, age in [(one, "d", 1), (one, "e", 0.5), (two, "a", 9), (two, "b", 8), (one, "f", 0.2)]:
        owner.put(job(name, age=age))
    one.gate.set()
    one.wait_for("f")
    assert order == ["first", "a", "b", "d", "e", "f"]


def test_a_short_job_goes_before_a_long_one_until_that_has_waited_for_its_own_length(
    pools: Callable[..., Pool],
) -> None:
    owner = Owner(pools(max_wait=100.0))
    blocked(owner)
    # Due 4 s after it came, and 1 s after it came: 3 s of a head start.
    for name, cost, age in [("long", 4.0, 1.0), ("short", 1.0, 0.0), ("waited", 4.0, 3.5)]:
        owner.put(job(name, cost, age=age))
    owner.gate.set()
    owner.wait_for("first", "waited", "short", "long")


def test_the_items_of_one_request_take_turns_with_other_callers() -> None:
    """A batch is due as one worker would get to its items, so that a lone caller passes its tail, not its head."""
    batch = Turn()
    start = monotonic()
    dues = [batch.due(0.5) - start for _ in range(4)]
    assert dues == pytest.approx([0.5, 1.0, 1.5, 2.0], abs=0.05)
    assert dues[1] < Turn().due(1.2) - start < dues[2]


def test_what_is_due_later_is_no_part_of_a_predicted_wait(pools: Callable[..., Pool]) -> None:
    owner = Owner(pools(max_wait=100.0))
    blocked(owner)
    owner.put(job("endless", cost=50.0))
    owner.put(job("headline", cost=0.1), patience=0.1)
    with pytest.raises(Overloaded, match=r"the predicted wait is 50\.1 s"):
        owner.put(job("as long", cost=51.0), patience=1.0)
    owner.gate.set()
    owner.wait_for("first", "headline", "endless")


def budgets_of(owner: Owner) -> list[float]:
    """What a worker may take of this owner's queue, each time that it takes."""
    budgets: list[float] = []
    taken = owner.take

    def take(budget: float, short: bool) -> tuple[list[Job], list[Job]]:
        budgets.append(budget)
        return taken(budget, short)

    owner.take = take  # type: ignore[method-assign]
    return budgets


@pytest.mark.parametrize(("waiting", "budget"), [(1, 0.005), (4, 0.02), (10, 0.03)])
def test_a_worker_takes_its_share_of_what_waits(pools: Callable[..., Pool], waiting: int, budget: float) -> None:
    owner = Owner(pools(threads=2, max_wait=100.0, take=0.03))
    blocked(owner)
    blocked(owner)
    budgets = budgets_of(owner)
    for i in range(waiting):
        owner.put(job(str(i), cost=0.01))
    owner.gate.set()
    while len(owner.done) < waiting + 2:
        sleep(0.001)
    assert budgets[0] == pytest.approx(budget)


def test_a_worker_takes_more_while_the_others_are_busy(pools: Callable[..., Pool]) -> None:
    """Half of what waits would be run in halves, one after the other, by the same worker."""
    pool = pools(threads=2, max_wait=1000.0, take=0.1)
    free, busy = Owner(pool, "free"), Owner(pool, "busy")
    blocked(free)
    blocked(busy, cost=0.4)
    budgets = budgets_of(free)
    for i in range(4):
        free.put(job(str(i), cost=0.01))
    free.gate.set()
    free.wait_for("first", "0", "1", "2", "3")
    busy.gate.set()
    assert budgets[0] == pytest.approx(0.1)


def usual(owner: Owner, cost: float) -> None:
    """Let the pool get used to jobs of this cost."""
    for _ in range(100):
        owner.put(job("usual", cost))
    owner.wait_for("usual")
    while owner.queue:
        sleep(0.001)


def test_while_the_others_run_long_jobs_one_worker_is_kept_for_the_short(pools: Callable[..., Pool]) -> None:
    pool = pools(threads=2, max_wait=100.0)
    short, long = Owner(pool, "short"), Owner(pool, "long")
    usual(short, 0.001)
    blocked(long, cost=0.5)
    long.put(job("second", cost=0.5))
    sleep(0.02)
    assert long.queue, "it waits, although a worker is idle"
    short.put(job("quick", cost=0.001))
    short.wait_for("quick")
    assert long.queue
    long.gate.set()
    long.wait_for("first", "second")


def test_a_long_job_that_waited_four_times_its_length_gets_that_worker_too(pools: Callable[..., Pool]) -> None:
    pool = pools(threads=2, max_wait=100.0)
    short, long = Owner(pool, "short"), Owner(pool, "long")
    usual(short, 0.001)
    blocked(long, cost=0.05)
    start = monotonic()
    long.put(job("second", cost=0.05))
    while long.queue:
        sleep(0.001)
    assert monotonic() - start >= 0.19
    long.gate.set()
    long.wait_for("first", "second", in_order=False)


def test_a_long_job_gets_that_worker_while_it_can_still_be_answered_in_time(pools: Callable[..., Pool]) -> None:
    pool = pools(threads=2, max_wait=100.0)
    short, long = Owner(pool, "short"), Owner(pool, "long")
    usual(short, 0.001)
    blocked(long, cost=0.5)
    start = monotonic()
    long.put(job("second", cost=0.5, deadline=1.5))
    while long.queue:
        sleep(0.001)
    assert monotonic() - start > 0.9
    long.gate.set()
    long.wait_for("first", "second", in_order=False)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_long_job_does_not_wait_for_one_that_nobody_waits_for(pools: Callable[..., Pool], when: str) -> None:
    pool = pools(threads=2, max_wait=100.0)
    short, long = Owner(pool, "short"), Owner(pool, "long")
    usual(short, 0.001)
    blocked(long, cost=0.5)
    left = job("left", cost=2.0, age=2.5)
    if when == "before":
        left.future.cancel()
    start = monotonic()
    long.put(left)
    long.put(job("second", cost=0.5))
    sleep(0.02)
    assert long.queue, "it is long"
    left.future.cancel()
    while long.queue:
        sleep(0.001)
    assert 1.9 < monotonic() - start < 4, "the other would have been taken after 5.5"
    assert not any(pool._waiting.values()), "both are paid off"
    long.gate.set()
    long.wait_for("first", "second", in_order=False)


def test_an_overdue_long_job_does_not_go_before_the_short_there(pools: Callable[..., Pool]) -> None:
    """Else a few of them in a row would take every worker from those who wait for a moment."""
    pool = pools(threads=2, max_wait=100.0)
    short, long = Owner(pool, "short"), Owner(pool, "long")
    usual(short, 0.001)
    blocked(long, cost=0.5)
    blocked(short, cost=0.001)  # both workers are busy, one of them for long
    long.put(job("overdue", cost=0.5, age=60.0))
    short.put(job("quick", cost=0.001))
    short.gate.set()
    short.wait_for("quick")
    assert "overdue" not in long.done
    long.gate.set()


def test_a_long_job_of_the_same_queue_does_not_hide_the_short_behind_it(pools: Callable[..., Pool]) -> None:
    """One bundle gets headlines and documents."""
    owner = Owner(pools(threads=2, max_wait=100.0))
    usual(owner, 0.001)
    owner.gate.clear()
    owner.put(job("document", cost=0.5))
    assert owner.busy.wait(20)
    owner.put(job("overdue", cost=0.5, age=60.0))
    owner.put(job("next", cost=0.5))
    owner.put(job("quick", cost=0.001))
    while owner.queue.first(short=True):
        sleep(0.001)
    assert len(owner.queue) >= 1
    owner.gate.set()


def test_short_jobs_on_all_workers_do_not_keep_a_long_one_out(pools: Callable[..., Pool]) -> None:
    pool = pools(threads=2, max_wait=100.0)
    short, long = Owner(pool, "short"), Owner(pool, "long")
    usual(short, 0.001)
    short.gate.clear()
    for i in range(4):
        short.put(job(str(i), cost=0.001))
    long.put(job("long", cost=0.5, age=1.0))
    for i in range(4, 8):
        short.put(job(str(i), cost=0.001))
    short.gate.set()
    long.wait_for("long")


def test_where_every_job_is_long_none_is(pools: Callable[..., Pool]) -> None:
    owner = Owner(pools(threads=2, max_wait=100.0))
    blocked(owner, cost=5.0)
    owner.put(job("second", cost=5.0))
    until = monotonic() + 2
    while owner.queue:
        assert monotonic() < until, "a worker stays idle"
        sleep(0.001)
    owner.gate.set()


def test_a_long_job_that_will_be_late_anyway_does_not_take_that_worker(pools: Callable[..., Pool]) -> None:
    pool = pools(threads=2, max_wait=100.0)
    short, long = Owner(pool, "short"), Owner(pool, "long")
    usual(short, 0.001)
    blocked(long, cost=0.5)
    long.put(job("hopeless", cost=3.0, deadline=0.5))
    until = monotonic() + 0.4
    while monotonic() < until:
        assert long.queue
        sleep(0.01)
    short.put(job("quick"))
    short.wait_for("quick")
    long.gate.set()
    long.wait_for("first", "hopeless", in_order=False)
