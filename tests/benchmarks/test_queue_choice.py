"""The load generator's own arithmetic: what it sends, from when it counts, and how it names what went wrong."""

from __future__ import annotations

import asyncio
import math
import time
from itertools import pairwise
from typing import cast

import pytest

from benchmarks import trace
from benchmarks.client import Connection, Reply
from benchmarks.playback import Outcome, percentile, play, saturate, summarise
from benchmarks.queue_table import table

POOL = ["하나 둘 셋 넷", "다섯 여섯 일곱"]


def test_arrivals_come_from_the_seed_alone() -> None:
    first = trace.arrivals(rate=50, seconds=20, seed=1)
    assert first == trace.arrivals(rate=50, seconds=20, seed=1)
    assert first != trace.arrivals(rate=50, seconds=20, seed=2)
    assert all(a < b for a, b in pairwise(first))
    assert 0 < first[0] < first[-1] < 20
    assert len(first) == pytest.approx(1000, rel=0.15)


def test_texts_come_from_the_seed_and_the_pool() -> None:
    drawn = trace.texts(POOL, 200, seed=1)
    assert drawn == trace.texts(POOL, 200, seed=1)
    assert drawn != trace.texts(POOL, 200, seed=2)
    assert {word for text in drawn for word in text.split()} == {word for text in POOL for word in text.split()}
    lengths = sorted(len(text.split()) for text in drawn)
    assert lengths[0] < trace.MEDIAN_WORDS < lengths[-1] <= trace.LONGEST_WORDS


def test_every_language_has_examples() -> None:
    assert all(len(set(trace.example_texts(language))) >= 3 for language in ("ko", "zh", "en"))


def test_percentile_is_a_value_that_was_measured() -> None:
    values = [float(v) for v in range(100, 0, -1)]
    assert percentile(values, 50) == 50
    assert percentile(values, 99) == 99
    assert percentile(values, 100) == 100
    assert percentile([7.0], 1) == 7
    assert math.isnan(percentile([], 50))


def test_latency_counts_from_the_scheduled_instant() -> None:
    async def ask(number: int) -> Reply:
        if number == 0:
            # The generator itself stalls; who was due meanwhile must not look fast.
            time.sleep(0.2)
        return Reply(200)

    stalled, waiting = asyncio.run(play([0.0, 0.05], ask, patience=5))
    assert stalled.latency >= 0.2
    assert waiting.latency >= waiting.lag >= 0.1


def test_patience_counts_from_the_scheduled_instant() -> None:
    async def ask(_: int) -> Reply:
        await asyncio.sleep(60)
        return Reply(200)

    (outcome,) = asyncio.run(play([0.0], ask, patience=0.05))
    assert outcome.kind == "timeout"
    assert 0.05 <= outcome.latency < 5


def test_each_end_is_counted_by_its_kind() -> None:
    async def ask(number: int) -> Reply:
        if number == 2:
            raise ConnectionResetError
        if number == 3:
            await asyncio.sleep(60)
        return Reply(429 if number == 1 else 200)

    summary = summarise(asyncio.run(play([0.0] * 5, ask, patience=0.1)), seconds=2, slo=1)
    assert summary["kinds"] == {"200": 2, "429": 1, "connection": 1, "timeout": 1}
    assert summary["other_p50_ms"].keys() == {"429", "connection", "timeout"}
    assert summary["offered_per_s"] == 2.5
    assert summary["goodput_per_s"] == 1


def test_late_answers_are_no_goodput_and_refusals_no_latency() -> None:
    outcomes = [Outcome("200", 0.5, 0.0), Outcome("200", 1.5, 0.0), Outcome("429", 0.002, 0.01)]
    summary = summarise(outcomes, seconds=1, slo=1)
    assert (summary["goodput_per_s"], summary["late"]) == (1, 1)
    assert (summary["p50_ms"], summary["p99_ms"]) == (500, 1500)
    assert summary["other_p50_ms"] == {"429": 2}
    assert summary["lag_p99_ms"] == 10


def test_closed_loop_never_has_more_requests_than_callers() -> None:
    under_way = most = 0

    async def ask(_: int) -> Reply:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return Reply(200)

    outcomes = asyncio.run(saturate(ask, callers=4, seconds=0.05, patience=1))
    assert most == 4
    assert len(outcomes) > 4


def test_answer_may_arrive_in_pieces() -> None:
    class Wire:
        def __init__(self) -> None:
            self.closed = False

        def write(self, data: bytes) -> None: ...

        def close(self) -> None:
            self.closed = True

    async def read(pieces: list[bytes]) -> tuple[int, bool]:
        connection, wire = Connection(), Wire()
        connection.connection_made(cast(asyncio.BaseTransport, wire))
        answer = connection.send(b"")
        for piece in pieces:
            assert not answer.done()
            connection.data_received(piece)
        return answer.result().status, wire.closed

    head = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n"
    assert asyncio.run(read([head[:20], head[20:] + b"\r\n", b"ab", b"cd"])) == (503, False)
    assert asyncio.run(read([head + b"Connection: close\r\n\r\nabcd"])) == (503, True)


def test_table_names_refusals_and_what_never_came() -> None:
    phase = summarise([Outcome("200", 0.01, 0.0), Outcome("429", 0.002, 0.0)], seconds=1, slo=1)
    phase |= {"cpu_ms": 5.0, "cpu_ms_good": 5.0}
    found = {
        "light": phase,
        "heavy": phase,
        "overload": phase,
        "alone_ms": 7.0,
        "peak_per_s": 100.0,
        "first_after_s": None,
        "alone_after_ms": None,
        "isolation": {"failed": 3, "innocents": 320, "culprit": ["422"]},
    }
    rates = {"light": 30.0, "heavy": 80.0, "overload": 200.0}
    setup = {"bundle": "b", "seed": 1, "seconds": 5.0, "rates_per_s": rates, "slo_s": 1.0, "concurrency": 32}
    text = table(setup, {"one": found, "another": found})
    assert text.count("429 x 1 (2 ms)") == 6
    assert text.count("never") == 4
    assert "3 of 320" in text
    assert "Overload, 200/s for 5 s" in text
