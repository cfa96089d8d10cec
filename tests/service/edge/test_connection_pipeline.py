"""Requests that are sent before the one in front of them is answered: only so many are kept, and none for who left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvloop
from line import Line, line, until

from service.edge.connection import MAX_PIPELINED

GET = b"GET / HTTP/1.1\r\n\r\n"
POST = b"POST / HTTP/1.1\r\ncontent-length: 100000000\r\n\r\n"


class App:
    """Answers when it is let, and notes who left before."""

    def __init__(self) -> None:
        self.begun = self.left = 0
        self.gate = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun += 1
        leaves = asyncio.create_task(self._watch(receive))
        opens = asyncio.create_task(self.gate.wait())
        await asyncio.wait([leaves, opens], return_when=asyncio.FIRST_COMPLETED)
        opens.cancel()
        leaves.cancel()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})

    async def _watch(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left += 1


async def pour(client: Any, data: bytes, seconds: float = 1.0) -> int:
    """Bytes that could be sent before the server took no more; it may hang up as well."""
    loop, sent = asyncio.get_running_loop(), 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                await loop.sock_sendall(client, data)
                sent += len(data)
    except (TimeoutError, ConnectionError):
        return sent


def queued(server: Line) -> list[Any]:
    return [one for connection in server.connections for one in connection.pipeline]


def test_who_sends_requests_without_end_is_turned_away() -> None:
    """Each piece that was read put 14,000 requests in the queue, and each answer let in another."""

    async def main() -> tuple[int, list[str], bytes]:
        async with line(app := App()) as server:
            client, most = server.dial(), 0
            asyncio.get_running_loop().call_later(0.3, app.gate.set)
            pouring = asyncio.create_task(pour(client, GET * 20_000))
            while not pouring.done():
                most = max(most, len(queued(server)))
                await asyncio.sleep(0)
            client.setblocking(False)
            told = await asyncio.get_running_loop().sock_recv(client, 1000)
            await until(lambda: not server.state.connections)
            client.close()
            return most, server.refused, told

    most, refused, told = uvloop.run(main())
    assert most <= MAX_PIPELINED
    assert refused == ["too_many_requests"]
    assert told.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"too_many_requests"' in told


def test_as_many_as_may_wait_are_answered() -> None:
    async def main() -> bytes:
        async with line(app := App()) as server:
            app.gate.set()
            client, told = server.dial(), b""
            await asyncio.get_running_loop().sock_sendall(client, GET * (MAX_PIPELINED + 1))
            async with asyncio.timeout(10):
                while told.count(b"{}") <= MAX_PIPELINED:
                    told += await asyncio.get_running_loop().sock_recv(client, 100_000)
            client.close()
            return told

    assert uvloop.run(main()).count(b"HTTP/1.1 200 ") == MAX_PIPELINED + 1


def test_the_body_of_a_request_that_waits_is_left_with_the_client() -> None:
    """Each answer to those in front of it let in another piece."""

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.01 if scope["method"] == "GET" else 1)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def main() -> int:
        async with line(slow) as server:
            client, most = server.dial(), 0
            await asyncio.get_running_loop().sock_sendall(client, GET * 60 + POST)
            pouring = asyncio.create_task(pour(client, b"a" * 65_536, 0.8))
            while not pouring.done():
                most = max(most, sum(len(cycle.body) for cycle, _ in queued(server)))
                await asyncio.sleep(0)
            client.close()
            return most

    assert uvloop.run(main()) < 1 << 20


def test_a_body_that_waited_comes_whole_when_it_is_its_turn() -> None:
    body = b"a" * 600_000

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.2)
        size, more = 0, scope["method"] == "POST"
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        told = b"%06d;" % size
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"7")]})
        await send({"type": "http.response.body", "body": told})

    async def main() -> bytes:
        async with line(echo) as server, asyncio.timeout(10):
            client, told = server.dial(), b""
            head = b"POST / HTTP/1.1\r\ncontent-length: 600000\r\n\r\n"
            await asyncio.get_running_loop().sock_sendall(client, (GET + head + body) * 2)
            while told.count(b";") < 4:
                told += await asyncio.get_running_loop().sock_recv(client, 100_000)
            client.close()
            return told

    answers = uvloop.run(main()).split(b"\r\n\r\n")
    assert [answer[:7] for answer in answers[1:]] == [b"000000;", b"600000;"] * 2


@pytest.mark.parametrize("waiting", [0, 1, 5])
def test_who_leaves_takes_the_running_request_with_him(waiting: int) -> None:
    """Only the newest request was told."""

    async def main() -> tuple[int, int]:
        async with line(app := App()) as server:
            client = server.dial()
            await asyncio.get_running_loop().sock_sendall(client, GET * (1 + waiting))
            await until(lambda: app.begun and len(queued(server)) == waiting)
            client.close()
            await until(lambda: app.left)
            return app.begun, app.left

    assert uvloop.run(main()) == (1, 1)
