"""The client of the load tests: which servers it can talk to, and what it does about those that it cannot."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from synthetic_server import synthetic

from benchmarks.client import Client, Reply


class Scripted(asyncio.Protocol):
    """A server's side of a connection: the same bytes for every request, then perhaps the end; `seen` is what came.

    `dies`: the second request of a connection is the end, and gets nothing.
    """

    def __init__(self, answer: bytes, close: bool, dies: bool, seen: list[bytes]) -> None:
        self._answer, self._close, self._dies, self._seen = answer, close, dies, seen
        self._count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._seen.append(data)
        self._count += 1
        if self._dies and self._count == 2:
            self._transport.abort()
            return
        self._transport.write(self._answer)
        if self._close:
            self._transport.close()


def against(
    answer: bytes, *paths: str, close: bool = False, dies: bool = False
) -> tuple[list[Reply | ConnectionError], list[bytes]]:
    """What a client gets of such a server, one request after another, and what the server saw."""
    seen: list[bytes] = []

    async def run() -> list[Reply | ConnectionError]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Scripted(answer, close, dies, seen), "127.0.0.1", 0)
        found: list[Reply | ConnectionError] = []
        async with Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/base/") as client:
            for path in paths:
                try:
                    found.append(await asyncio.wait_for(client.post(path, b"{}"), 5))
                except ConnectionError as error:
                    found.append(error)
        await asyncio.sleep(0.02)  # the server's side hears of the end
        server.close()
        return found

    return asyncio.run(run()), seen


def test_the_few_headers_that_matter_are_read() -> None:
    answer = b"HTTP/1.1 429 Too Many\r\nRETRY-AFTER: 2\r\nX-Batch-Rows: 7\r\ncontent-length: 3\r\n\r\nabc"
    assert against(answer, "/a", "/b")[0] == [Reply(429, True, 7, b"abc")] * 2


def test_requests_go_where_the_url_says() -> None:
    found, seen = against(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "/m/batch")
    assert found == [Reply(200)]
    head = seen[0].split(b"\r\n")
    assert head[0] == b"POST /base/m/batch HTTP/1.1"
    assert head[1].startswith(b"Host: 127.0.0.1:")
    assert b"Content-Length: 2" in head


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "no Content-Length"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", "no Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{}", "longer than its Content-Length"),
    ],
)
def test_an_answer_without_a_known_end_is_an_error_and_no_hang(answer: bytes, why: str) -> None:
    (error,), _ = against(answer, "/a")
    assert isinstance(error, ConnectionError)
    assert why in str(error)


def test_a_closed_idle_connection_is_not_the_servers_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.client.SHORTEST_KEEP_ALIVE", 0.0)
    # It closes after each answer without having said so: the next request finds that out, and is sent again.
    found, seen = against(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "/a", "/b", "/c", close=True)
    assert found == [Reply(200)] * 3
    assert len(seen) == 3


def test_a_server_that_dies_with_a_request_has_lost_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent again only where the connection was idle for so long that it may have been closed for that."""
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    found, seen = against(ok, "/a", "/b", "/c", dies=True)
    assert [isinstance(reply, ConnectionError) for reply in found] == [False, True, False]
    assert len(seen) == 3
    monkeypatch.setattr("benchmarks.client.SHORTEST_KEEP_ALIVE", 0.0)
    found, seen = against(ok, "/a", "/b", dies=True)
    assert found == [Reply(200)] * 2
    assert len(seen) == 3


def test_a_fresh_connection_that_is_closed_is_an_error() -> None:
    (error,), seen = against(b"", "/a", close=True)
    assert str(error) == "the server closed the connection"
    assert len(seen) == 1


def test_names_are_looked_up_and_other_urls_refused() -> None:
    async def ask(url: str) -> Reply:
        async with Client(url) as client:
            return await client.post("/m", b"{}")

    with synthetic() as url:
        assert asyncio.run(ask(url.replace("127.0.0.1", "localhost"))) == Reply(200, False, 4, b"{}")
    for url in ("https://127.0.0.1:3000", "127.0.0.1:3000", "http://", "http://127.0.0.1:3000/?x=1"):
        with pytest.raises(ValueError, match="no server's URL"):
            Client(url)
