"""Nothing that a caller sends keeps the event loop from the others for more than five milliseconds."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable
from time import thread_time
from typing import Any

import pytest
from bench import Bench
from desk import Desk, request

from service.edge.http import Asked, error_response
from service.errors import ServiceError

LIMIT = 0.005


@pytest.fixture
def desk(benches: Callable[..., Bench]) -> Desk:
    return Desk(benches(threads=2, take=0.01))


def post(handle: Any, body: Any) -> tuple[int, Any, float]:
    """Status, answer, and the longest that another task had to wait for its turn, in seconds.

    In processor time of the event loop's thread: what worker threads and other programs take is not its work.
    """
    second = request(body)
    waits: list[float] = []

    async def beat() -> None:
        last = thread_time()
        while True:
            await asyncio.sleep(0)
            waits.append(thread_time() - last)
            last = thread_time()

    async def twice() -> Any:
        # The first request pays for what is made once.
        await handle(Asked(request({"text": "서울"} if "text" in body else {"items": [{"text": "서울"}]})))
        heart = asyncio.create_task(beat())
        try:
            return await handle(Asked(second))
        finally:
            heart.cancel()

    # The server freezes what it has loaded and collects rarely; a test process would look through all of torch.
    gc.disable()
    try:
        response = asyncio.run(twice())
    finally:
        gc.enable()
    return response.status_code, json.loads(response.body), max(waits)


def test_a_text_as_long_as_the_server_takes(desk: Desk) -> None:
    status, answer, wait = post(desk.one, {"text": "서울에서 회의 " * 12_000})
    assert (status, answer["truncated"]) == (200, True)
    assert wait < LIMIT


def test_a_long_text_in_a_form_that_must_be_composed(desk: Desk) -> None:
    status, _, wait = post(desk.one, {"text": "\u1109\u1165\u110b\u116e\u11af " * 15_000})
    assert status == 200
    assert wait < LIMIT


def test_a_batch_as_large_as_the_server_takes(desk: Desk) -> None:
    status, answer, wait = post(desk.batch, {"items": [{"text": f"서울에서 회의 {n}"} for n in range(1000)]})
    assert status == 200
    assert sum("label" in result for result in answer["results"]) == 1000
    assert wait < LIMIT


CROWD = {f"k{i}": 0 for i in range(60_000)}


@pytest.mark.parametrize(
    "body", [{"text": "서울"} | CROWD, {"items": [{"text": "서울"} | CROWD]}], ids=["one", "batch"]
)
def test_more_faults_than_anybody_could_read(desk: Desk, body: Any) -> None:
    """An error was made of each."""

    async def told(asked: Asked) -> Any:
        try:
            return await (desk.batch if "items" in body else desk.one)(asked)
        except ServiceError as error:
            await asyncio.sleep(0)
            return error_response(error)

    _, answer, wait = post(told, body)
    problem = answer["error"] if "error" in answer else answer["results"][0]["error"]
    assert problem["code"] in ("unknown_field", "invalid_value")
    assert wait < LIMIT
