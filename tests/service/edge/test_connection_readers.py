"""A client that does not read its answer loses it, and its connection, after a while."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvloop
from line import line, until

SIZE = 4 << 20
PATIENCE = 0.4


async def large(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % SIZE)]})
    await send({"type": "http.response.body", "body": b"a" * SIZE})


@pytest.mark.parametrize(
    ("pieces", "reads"),
    [
        ([b"GET / HTTP/1.0\r\n\r\n"], 0),
        ([b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n"], 0),
        ([b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n"], 1000),
        ([b"GET / HTTP/1.1\r\n\r\n", b"G"], 0),
        ([b"GET / HTTP/1.1\r\n\r\n", b"\0"], 0),
        ([b"GET / HTTP/1.1\r\n\r\n" * 2], 0),
        ([b"GET / HTTP/1.1\r\n\r\n" * 2], 1000),
    ],
    ids=["1.0", "close", "close, begins", "one byte more", "noise behind", "pipelined", "pipelined, begins"],
)
def test_who_does_not_read_is_given_up(pieces: list[bytes], reads: int) -> None:
    """The transport waited for ever until the answer had left, or the next answer waited for room to be written."""

    async def main() -> None:
        async with line(large, PATIENCE) as server:
            client, loop = server.dial(room=4096), asyncio.get_running_loop()
            try:
                for piece in pieces:
                    await loop.sock_sendall(client, piece)
                    await until(lambda: server.connections)
                    await asyncio.sleep(0.1)
                if reads:
                    await loop.sock_recv(client, reads)
                await until(lambda: not server.connections, 8 * PATIENCE)
            finally:
                client.close()

    uvloop.run(main())


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n" * 2])
def test_who_reads_slowly_is_not_given_up(head: bytes) -> None:
    """A piece at a time, with pauses: in all it takes longer than anybody's patience."""

    async def main() -> tuple[int, float]:
        async with line(large, PATIENCE) as server:
            client, loop, size = server.dial(room=1 << 16), asyncio.get_running_loop(), 0
            start = loop.time()
            await loop.sock_sendall(client, head)
            while size <= SIZE and (piece := await loop.sock_recv(client, 1 << 16)):
                size += len(piece)
                await asyncio.sleep(PATIENCE / 20)
            client.close()
            return size, loop.time() - start

    size, seconds = uvloop.run(main())
    assert size > SIZE
    assert seconds > 2 * PATIENCE


def test_who_reads_gets_it_all_however_it_ends() -> None:
    async def main() -> int:
        async with line(large, 5.0) as server:
            client, loop, size = server.dial(room=4096), asyncio.get_running_loop(), 0
            await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
            while piece := await loop.sock_recv(client, 1 << 20):
                size += len(piece)
            client.close()
            return size

    assert uvloop.run(main()) > SIZE
