"""Runs of load against a server whose behaviour is known: the harness says what it did, and what itself did."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest
import uvloop
from synthetic_server import synthetic

from benchmarks import histogram
from benchmarks.client import Client
from benchmarks.load_table import report
from benchmarks.playback import Outcome
from benchmarks.processes import Processes, behind
from benchmarks.run import Offer, describe, measure

REQUESTS = [("/m", b'{"text": "hello"}')]


def measured(offer: Offer, **settings: float) -> dict[str, Any]:
    async def run(url: str) -> dict[str, Any]:
        async with Client(url) as client:
            return await measure("m", client, REQUESTS, offer, behind(client.host, client.port))

    with synthetic(**settings) as url:
        return uvloop.run(run(url))


def described(outcomes: list[Outcome], **offer: Any) -> dict[str, Any]:
    return describe("m", Offer(**{"seconds": 2.0, "rate": 2.0, "warm_up": 0.0} | offer), outcomes, 0.1, None)


def test_open_loop_shows_a_stall_that_closed_loop_hides() -> None:
    stall = {"service": 0.002, "freeze_at": 0.5, "freeze": 0.3}
    opened = measured(Offer(1.0, rate=100.0, warm_up=0.2), **stall)
    closed = measured(Offer(1.5, callers=1, warm_up=0.2), **stall)
    # Everybody who was due in the 0.3 s waits for the rest of them: a fifth of all requests.
    assert opened["latency_ms"]["p99"] > 250
    assert opened["latency_ms"]["p90"] > 100
    assert opened["good"] < 0.92 * opened["offered"]
    # One caller waited; whoever would have come meanwhile was never sent.
    assert closed["latency_ms"]["max"] > 250
    assert closed["latency_ms"]["p99"] < 100
    stalled = min(opened["timeline"], key=lambda second: second["good"] / second["answered"])
    assert stalled["p99_ms"] > 250


def test_what_a_run_says_of_a_quiet_server() -> None:
    run = measured(Offer(1.0, rate=100.0, profile="constant", warm_up=0.3), service=0.001)
    assert run["kinds"] == {"200": 100}  # the warm-up's thirty are left out
    assert run["answered_per_s"] == 100
    assert run["batch_rows"] == {"4": 100}
    assert run["server"]["processes"] == 1
    assert 0 < run["server"]["cpu_ms_per_answer"] < 10
    assert run["server"]["rss_mb"] > 5
    assert 0 < run["latency_ms"]["p50"] <= run["latency_ms"]["p99"] <= run["latency_ms"]["max"]
    assert histogram.decode(run["histogram"]).total_count == 100
    assert run["generator"]["cpu_share"] < 0.5


class OneCore(Processes):
    """A server that is busy all the time, on one core."""

    def __init__(self) -> None:
        super().__init__([])

    def cpu(self) -> float:
        return monotonic()


@pytest.mark.parametrize("callers", [1, 16])
def test_work_that_is_not_counted_is_not_charged(callers: int) -> None:
    """Twenty requests a second of 50 ms, however many callers wait: those under way at the end are paid for later."""

    async def run(url: str) -> dict[str, Any]:
        async with Client(url) as client:
            return await measure("m", client, REQUESTS, Offer(1.0, callers=callers, warm_up=1.0), OneCore())

    with synthetic(service=0.05) as url:
        run_of = uvloop.run(run(url))
    assert run_of["server"]["cpu_ms_per_answer"] == pytest.approx(50, rel=0.15)


def test_a_saturated_generator_is_reported() -> None:
    run = measured(Offer(0.3, rate=60_000.0, warm_up=0.0))
    assert run["generator"]["saturated"]
    assert run["generator"]["lag_p99_ms"] > 10
    assert "do not believe" in report(run, "http://x")


def test_refusals_and_their_retry_after_are_counted() -> None:
    # 100 a second can be served; four times as many come, and who would wait longer than 20 ms is refused.
    run = measured(Offer(1.0, rate=400.0, warm_up=0.2, slo_ms=200), service=0.01, most_wait=0.02)
    assert run["kinds"].keys() == {"200", "429"}
    assert run["retry_after"] == 1
    assert run["refused_ms"]["p50"] < 100
    assert run["answered_per_s"] == pytest.approx(100, rel=0.2)
    assert run["good"] == run["answered"]


def test_goodput_counts_answers_within_the_slo() -> None:
    run = described(
        [
            Outcome("200", 0.010, 0.0, due=0.1, rows=2),
            Outcome("200", 0.020, 0.001, due=0.9, rows=2),
            Outcome("200", 0.150, 0.0, due=1.2, rows=1),
            Outcome("429", 0.002, 0.0, due=1.3, retry_after=True),
            Outcome("503", 0.004, 0.0, due=1.4),
            Outcome("timeout", 10.0, 0.0, due=1.5),
        ]
    )
    assert (run["offered"], run["answered"], run["good"]) == (6, 3, 2)
    assert (run["answered_per_s"], run["goodput_per_s"]) == (1.5, 1.0)
    assert run["latency_ms"]["p50"] == pytest.approx(20, rel=1e-3)
    assert run["latency_ms"]["max"] == pytest.approx(150, rel=1e-3)
    assert run["kinds"] == {"200": 3, "429": 1, "503": 1, "timeout": 1}
    assert run["refused_ms"] == {"p50": 2.0, "p99": 4.0}
    assert run["retry_after"] == 0.5
    assert run["batch_rows"] == {"1": 1, "2": 2}
    assert run["timeline"] == [
        {"second": 0, "answered": 2, "good": 2, "refused": 0, "failed": 0, "p50_ms": 10.0, "p99_ms": 20.0},
        {"second": 1, "answered": 1, "good": 0, "refused": 2, "failed": 1, "p50_ms": 150.0, "p99_ms": 150.0},
    ]


def test_a_generator_that_sends_late_is_saturated_whatever_its_cpu() -> None:
    late = described([Outcome("200", 0.02, 0.011)])
    assert late["generator"] == {"lag_p99_ms": 11.0, "cpu_share": 0.1, "saturated": True}
    assert not described([Outcome("200", 0.02, 0.011)], slo_ms=200)["generator"]["saturated"]


def test_nothing_answered_is_a_run_too() -> None:
    run = described([Outcome("connection", 0.001, 0.0)])
    assert run["latency_ms"] == dict.fromkeys(("mean", "p50", "p90", "p99", "p99.9", "max"))
    assert run["refused_ms"] is None
    assert run["retry_after"] is None
    assert "connection lost or refused: 1" in report(run, "http://x")


def test_an_offer_is_open_or_closed() -> None:
    for rate, callers in ((None, None), (1.0, 1)):
        with pytest.raises(ValueError, match="either a rate"):
            Offer(1.0, rate=rate, callers=callers)


def test_a_server_that_is_gone_is_a_finding() -> None:
    with synthetic() as url:
        client = Client(url)
    run = asyncio.run(measure("m", client, REQUESTS, Offer(0.2, callers=2, warm_up=0.0), None))
    assert run["kinds"].keys() == {"connection"}
    assert run["offered"] < 100
    assert run["server"] is None
