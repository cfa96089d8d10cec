"""Nothing that a caller sends keeps the event loop from the others for more than five milliseconds."""

from __future__ import annotations

import asyncio
import gc
import json
from asyncio.events import Handle
from collections.abc import Callable
from time import thread_time
from typing import Any

import pytest
from bench import Bench
from desk import Desk, request

LIMIT = 0.005


@pytest.fixture
def desk(benches: Callable[..., Bench]) -> Desk:
    return Desk(benches(threads=2))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Processor time of every step of the event loop's thread, in seconds: not what other threads do meanwhile."""
    taken: list[float] = []
    run = Handle._run

    def timed(self: Handle) -> None:
        start = thread_time()
        run(self)
        taken.append(thread_time() - start)

    monkeypatch.setattr(Handle, "_run", timed)
    return taken


def post(handle: Any, body: Any, steps: list[float]) -> tuple[int, Any]:
    """A first request pays for what is made once; the second is the one that counts."""

    async def twice() -> Any:
        await handle(request({"text": "서울"} if "text" in body else {"items": [{"text": "서울"}]}))
        steps.clear()
        return await handle(second)

    second = request(body)
    # As in the server: what was there before is not looked through again while callers wait.
    gc.collect()
    gc.freeze()
    try:
        response = asyncio.run(twice())
    finally:
        gc.unfreeze()
    return response.status_code, json.loads(response.body)


def test_a_text_as_long_as_the_server_takes(desk: Desk, steps: list[float]) -> None:
    status, answer = post(desk.one, {"text": "서울에서 회의 " * 12_000}, steps)
    assert (status, answer["truncated"]) == (200, True)
    assert max(steps) < LIMIT


def test_a_long_text_in_a_form_that_must_be_composed(desk: Desk, steps: list[float]) -> None:
    status, _ = post(desk.one, {"text": "\u1109\u1165\u110b\u116e\u11af " * 15_000}, steps)
    assert status == 200
    assert max(steps) < LIMIT


def test_a_batch_as_large_as_the_server_takes(desk: Desk, steps: list[float]) -> None:
    status, answer = post(desk.batch, {"items": [{"text": f"서울에서 회의 {n}"} for n in range(1000)]}, steps)
    assert status == 200
    assert sum("label" in result for result in answer["results"]) == 1000
    assert max(steps) < LIMIT
