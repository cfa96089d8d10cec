"""How long requests wait for replicas: known cases of queueing theory, and a simulation that the formula must match."""

from __future__ import annotations

import math

import pytest

from benchmarks.queueing import Replica, simulate
from benchmarks.scaling import plan, service_times

HEADLINES = service_times("klue/ynat", 5.0, fixed=0.25)
PARAGRAPHS = service_times("klue/mrc", 60.0, fixed=0.0)


def test_one_thread_finds_work_as_often_as_it_is_busy() -> None:
    assert Replica(1, [10.0], rate=60).waiting == pytest.approx(0.6)


def test_two_threads_at_half_their_capacity_make_one_request_in_three_wait() -> None:
    assert Replica(2, [10.0], rate=100).waiting == pytest.approx(1 / 3)


def test_requests_of_one_length_wait_half_as_long_as_by_chance() -> None:
    """Pollaczek and Khinchine: the mean wait for one thread is `busy * service / 2 / (1 - busy)`."""
    replica = Replica(1, [10.0], rate=80)
    assert replica.mean_wait == pytest.approx(0.8 * 10 / 2 / (1 - 0.8))


def test_spread_costs_time_even_if_the_mean_stays() -> None:
    assert Replica(2, [2.0, 18.0], 100).percentile(99) > 1.5 * Replica(2, [10.0], 100).percentile(99)


def test_a_replica_that_is_asked_for_more_than_it_can_never_answers_in_time() -> None:
    assert Replica(2, [10.0], rate=200).percentile(99) == math.inf


def test_an_idle_replica_takes_as_long_as_the_model() -> None:
    assert Replica(2, HEADLINES, rate=0.001).percentile(99) == pytest.approx(sorted(HEADLINES)[-3], rel=0.03)


def test_service_times_have_the_mean_that_was_measured_and_the_spread_of_the_texts() -> None:
    assert sum(HEADLINES) / len(HEADLINES) == pytest.approx(5.0)
    assert min(HEADLINES) > 0.25 * 5.0
    spread = {name: max(times) / min(times) for name, times in (("short", HEADLINES), ("long", PARAGRAPHS))}
    assert spread["long"] > spread["short"] > 1.5


@pytest.mark.parametrize("services", [HEADLINES, PARAGRAPHS], ids=["headlines", "paragraphs"])
@pytest.mark.parametrize("threads", [1, 2, 4, 8])
@pytest.mark.parametrize("busy", [0.5, 0.75, 0.9])
def test_the_formula_agrees_with_a_simulation(services: list[float], threads: int, busy: float) -> None:
    """At most 7 % too optimistic; too careful by up to 15 %, and that for single threads only."""
    replica = Replica(threads, services, busy * threads * 1000 * len(services) / sum(services))
    took = simulate(3, threads, services, 3 * replica.rate, 100_000, seed=1)
    assert 0.85 * replica.percentile(99) <= took[int(0.99 * len(took))] <= 1.07 * replica.percentile(99)


def test_a_simulation_is_the_same_for_the_same_seed() -> None:
    one, again, other = (simulate(2, 2, HEADLINES, 500, 20_000, seed) for seed in (1, 1, 2))
    assert one == again != other


def test_a_plan_meets_the_slo_without_its_spare_replica() -> None:
    found = plan(800, 50, HEADLINES, threads=2, spare=1, most_busy=0.75)
    assert found is not None
    assert found.reduced.rate == pytest.approx(800 / (found.replicas - 1))
    assert found.reduced.percentile(99) <= 50
    assert found.reduced.busy <= 0.75
    fewer = Replica(2, HEADLINES, 800 / (found.replicas - 2))
    assert fewer.percentile(99) > 50 or fewer.busy > 0.75


def test_no_number_of_replicas_makes_a_text_shorter() -> None:
    assert plan(10, 40, PARAGRAPHS, threads=2, spare=1, most_busy=0.75) is None
