"""A small HTTP/1.1 client for load generation: keep-alive connections, JSON bodies, statuses back.

A full client costs about as much CPU a request as a small model does, on the very cores that are being measured.
"""

from __future__ import annotations

import asyncio
from typing import cast


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request on it."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.answer: asyncio.Future[int] | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes) -> asyncio.Future[int]:
        self._received = b""
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or self.answer is None or self.answer.done():
            return
        lines = head.lower().split(b"\r\n")
        fields = dict(line.split(b":", 1) for line in lines[1:])
        if len(body) >= int(fields.get(b"content-length", b"0")):
            if b"close" in fields.get(b"connection", b""):
                self.transport.close()
            self.answer.set_result(int(lines[0].split()[1]))

    def connection_lost(self, error: Exception | None) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError("the server closed the connection"))


class Client:
    """Posts to one server over as many connections as there are requests under way."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[Connection] = []

    async def post(self, path: str, body: bytes) -> int:
        """The status of the answer. ConnectionError if there was none; a cancelled call drops its connection."""
        connection = await self._connection()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        try:
            status = await connection.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        except BaseException:
            connection.transport.abort()
            raise
        self._idle.append(connection)
        return status

    async def _connection(self) -> Connection:
        while self._idle:
            # The latest used: the server has had the least time to close it.
            connection = self._idle.pop()
            if not connection.transport.is_closing():
                return connection
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, "127.0.0.1", self._port)
        return connection

    def close(self) -> None:
        for connection in self._idle:
            connection.transport.abort()
        self._idle.clear()
