"""Connections to an app over real sockets, without BentoML."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import uvicorn
from uvicorn.server import ServerState

from service.edge.connection import Connection
from service.edge.gate import Gate


class Line:
    """What listens, and what it holds."""

    def __init__(self, port: int, state: ServerState, refused: list[str]) -> None:
        self.port = port
        self.state = state
        self.refused = refused

    @property
    def connections(self) -> list[Connection]:
        return [cast(Connection, connection) for connection in self.state.connections]

    def dial(self, room: int = 0) -> socket.socket:
        """A client that does not wait; `room`: bytes that the kernel takes in for it."""
        client = socket.socket()
        if room:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        client.connect(("127.0.0.1", self.port))
        client.setblocking(False)
        return client


@asynccontextmanager
async def line(app: Any, patience: float = 30.0) -> AsyncIterator[Line]:
    loop, refused = asyncio.get_running_loop(), list[str]()
    limits = {"gate": Gate(), "limit": 100, "patience": patience, "refused": staticmethod(refused.append)}
    config = uvicorn.Config(app, log_config=None)
    config.load()
    made, state = type("Connection", (Connection,), limits), ServerState()
    listener = await loop.create_server(lambda: made(config, state, {}, loop), "127.0.0.1", 0)
    listening = Line(listener.sockets[0].getsockname()[1], state, refused)
    try:
        yield listening
    finally:
        for connection in listening.connections:
            connection.transport.abort()
        listener.close()
        await asyncio.sleep(0.01)


async def until(true: Any, seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.01)
