"""The search for a capacity, held beside queues whose capacity can be worked out."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, factorial
from typing import Any

import pytest
import uvloop
from synthetic_server import synthetic

from benchmarks import trace
from benchmarks.capacity import PASSING, PRECISION, Try, capacity, search
from benchmarks.client import Client
from benchmarks.load_table import capacity_verdict, try_row
from benchmarks.playback import Outcome
from benchmarks.run import Offer, describe

REQUESTS = [("/m", b"{}")]


def run_of(latencies: Sequence[float], slo_ms: float) -> dict[str, Any]:
    outcomes = [Outcome("200", latency, 0.0) for latency in latencies]
    return describe("m", Offer(1.0, rate=1.0, slo_ms=slo_ms), outcomes, 0.0, None)


def waits_at_most(wait: float, rate: float, service: float) -> float:
    """Erlang's distribution of the wait before a single server with a fixed service time and Poisson arrivals."""
    terms = (
        (rate * (k * service - wait)) ** k / factorial(k) * exp(-rate * (k * service - wait))
        for k in range(int(wait / service) + 1)
    )
    return (1 - rate * service) * sum(terms)


def analytic(service: float, slo: float) -> float:
    """The rate at which 99 % are answered within `slo`, by bisection."""
    low, high = 0.0, 1 / service
    for _ in range(50):
        middle = (low + high) / 2
        if waits_at_most(slo - service, middle, service) >= PASSING:
            low = middle
        else:
            high = middle
    return low


def searched(start: float, service: float, slo: float, seconds: float) -> tuple[float, list[Try]]:
    """The search on a clock of its own: arrivals of the harness, waits by Lindley's recursion."""

    async def attempt(phase: str, rate: float, seed: int) -> dict[str, Any]:
        free, latencies = 0.0, []
        for at in trace.arrivals(rate, seconds, seed):
            free = max(at, free) + service
            latencies.append(free - at)
        return run_of(latencies, slo * 1000)

    return uvloop.run(search(attempt, start, seed=1, confirmations=3))


@pytest.mark.parametrize("start", [40.0, 150.0, 900.0])
def test_the_search_finds_what_queueing_theory_says(start: float) -> None:
    rate, tries = searched(start, service=0.005, slo=0.05, seconds=60.0)
    assert analytic(0.005, 0.05) == pytest.approx(154.7, abs=0.1)
    assert rate == pytest.approx(analytic(0.005, 0.05), rel=PRECISION)
    confirming = [t for t in tries if t.phase == "confirm"][-3:]
    assert [(t.rate, t.seed, t.passed) for t in confirming] == [(rate, seed, True) for seed in (2, 3, 4)]


def test_a_rate_that_is_not_confirmed_comes_down() -> None:
    async def attempt(phase: str, rate: float, seed: int) -> dict[str, Any]:
        bears = 100 if seed in (1, 2) else 90  # the second confirmation is less lucky
        return run_of([0.01 if rate <= bears else 1.0] * 100, 100)

    rate, tries = uvloop.run(search(attempt, 100.0, seed=1, confirmations=2))
    assert rate == pytest.approx(100 / 1.05**3)
    assert [t.passed for t in tries if t.phase == "confirm"] == [True, False] * 3 + [True, True]


def test_no_rate_at_all_is_a_capacity_of_zero() -> None:
    async def attempt(phase: str, rate: float, seed: int) -> dict[str, Any]:
        return run_of([1.0], 100)

    assert uvloop.run(search(attempt, 3.0, seed=1, confirmations=1))[0] == 0


def test_refusals_and_errors_are_misses() -> None:
    good, refusal = Outcome("200", 0.01, 0.0), Outcome("429", 0.001, 0.0)
    offer = Offer(1.0, rate=1.0)
    passing = Try("bisect", 10.0, 1, describe("m", offer, [good] * 99 + [refusal], 0.0, None))
    missing = Try("bisect", 10.0, 1, describe("m", offer, [good] * 98 + [refusal] * 2, 0.0, None))
    assert (passing.share, passing.passed) == (0.99, True)
    assert (missing.share, missing.passed) == (0.98, False)
    assert try_row(missing.json()).endswith("missed (429 x 2)")


def found(url: str, **settings: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async with Client(url) as client:
            return await capacity("m", client, REQUESTS, None, warm_up=0.1, confirmations=1, **settings)

    return uvloop.run(run())


def test_capacity_of_a_real_server(monkeypatch: pytest.MonkeyPatch) -> None:
    # Short runs and few of them: the figure is rough, the way through HTTP is what is tested.
    monkeypatch.setattr("benchmarks.capacity.PRECISION", 0.3)
    with synthetic(service=0.008) as url:
        result = found(url, seconds=0.4, slo_ms=80.0)
    assert result["capacity_per_s"] == pytest.approx(analytic(0.008, 0.08), rel=0.4)
    assert result["peak"]["answered_per_s"] == pytest.approx(125, rel=0.2)
    assert 8 <= result["alone_p50_ms"] < 40
    assert result["tries"][-1]["passed"]
    assert "confirmed by 1 run" in capacity_verdict(result)


def test_a_server_that_answers_nothing_has_no_capacity() -> None:
    with synthetic(most_wait=-1.0) as url:
        result = found(url, seconds=0.2, slo_ms=10.0)
    assert (result["capacity_per_s"], result["alone_p50_ms"]) == (0.0, None)
    assert "not answered" in capacity_verdict(result)


def test_an_slo_below_a_lone_answer_is_not_searched_for() -> None:
    with synthetic(service=0.02) as url:
        result = found(url, seconds=0.2, slo_ms=10.0)
    assert (result["capacity_per_s"], result["peak"], result["tries"]) == (0.0, None, [])
    assert capacity_verdict(result).startswith("capacity: none")
