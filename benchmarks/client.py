"""A small HTTP/1.1 client for load generation: keep-alive connections, JSON bodies, the few headers that matter.

A full client costs about as much CPU a request as a small model does, on the very cores that are being measured.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import NamedTuple, cast
from urllib.parse import urlsplit

SHORTEST_KEEP_ALIVE = 1.0
"""Seconds for which every server keeps an idle connection: gunicorn, the least patient, has two."""


class Reply(NamedTuple):
    """Status, whether the answer says when to come back, rows of its batch (0 where it does not say), and its body."""

    status: int
    retry_after: bool = False
    rows: int = 0
    body: bytes = b""


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request on it."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.answer: asyncio.Future[Reply] | None = None
        self.answered: float | None = None
        """When its last answer came, on the monotonic clock."""
        self.silent = True
        """Whether nothing has come back for the present request."""
        self._reset()

    @property
    def old(self) -> bool:
        """Whether it has been idle for so long that its server may have closed it for that."""
        return self.answered is not None and monotonic() - self.answered > SHORTEST_KEEP_ALIVE

    def _reset(self) -> None:
        self._head = b""
        self._pieces: list[bytes] = []
        self._missing = -1  # bytes of the body that are yet to come; -1: the head is

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes) -> asyncio.Future[Reply]:
        self._reset()
        self.silent = True
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.answer

    def data_received(self, data: bytes) -> None:
        self.silent = False
        if self.answer is None or self.answer.done():
            self.transport.abort()  # more than was asked for; whatever comes next could be anybody's
            return
        if self._missing < 0:
            head, end, data = (self._head + data).partition(b"\r\n\r\n")
            self._head = head if end else head + data
            if not end:
                return
            self._head = head.lower() + b"\r\n"
            length = self._field(b"content-length")
            if length is None:
                self._fail("the answer has no Content-Length (a stream of chunks?), so its end cannot be known cheaply")
                return
            self._missing = int(length)
        self._pieces.append(data)
        self._missing -= len(data)
        if self._missing < 0:
            self._fail("the answer is longer than its Content-Length")
        elif self._missing == 0:
            self._finish(self.answer)

    def _finish(self, answer: asyncio.Future[Reply]) -> None:
        self.answered = monotonic()
        if b"close" in (self._field(b"connection") or b""):
            self.transport.close()
        rows = self._field(b"x-batch-rows")
        answer.set_result(
            Reply(
                int(self._head[9:12]),
                b"\r\nretry-after:" in self._head,
                0 if rows is None else int(rows),
                self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces),
            )
        )

    def _field(self, name: bytes) -> bytes | None:
        """One header's value, found without reading the others."""
        at = self._head.find(b"\r\n" + name + b":")
        if at < 0:
            return None
        at += len(name) + 3
        return self._head[at : self._head.index(b"\r\n", at)].strip()

    def _fail(self, why: str) -> None:
        self.transport.abort()
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError(why))

    def connection_lost(self, error: Exception | None) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError("the server closed the connection"))


class Client:
    """Posts to the server at `http://host[:port][/prefix]` over as many connections as there are requests under way.

    ValueError if the URL is of another form. Leaving its context closes the connections, inside their event loop.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.query:
            raise ValueError(f"{url!r} is no server's URL, such as http://127.0.0.1:3000")
        self.host, self.port = parts.hostname, parts.port or 80
        self._prefix = parts.path.rstrip("/")
        self._fields = f" HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\nContent-Length: "
        self._address = (self.host, self.port)
        self._idle: list[Connection] = []

    async def post(self, path: str, body: bytes) -> Reply:
        """The answer. ConnectionError if there was none; a cancelled call drops its connection."""
        request = f"POST {self._prefix}{path}{self._fields}{len(body)}\r\n\r\n".encode() + body
        while self._idle:
            # The latest used: the server has had the least time to close it.
            connection = self._idle.pop()
            if not connection.transport.is_closing():
                old = connection.old
                try:
                    return await self._exchange(connection, request)
                except ConnectionError:
                    if not (old and connection.silent):
                        raise  # a server that dies with a request has lost it
                    # The server closed an idle connection while the request was on its way: that is not its answer.
                    break
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(Connection, *self._address)
        self._address = transport.get_extra_info("peername")[:2]  # no name is looked up twice
        return await self._exchange(connection, request)

    async def _exchange(self, connection: Connection, request: bytes) -> Reply:
        try:
            reply = await connection.send(request)
        except BaseException:
            connection.transport.abort()
            raise
        self._idle.append(connection)
        return reply

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await asyncio.sleep(0)  # transports close in the loop's next round

    def close(self) -> None:
        for connection in self._idle:
            connection.transport.abort()
        self._idle.clear()
