"""Many requests at once over raw sockets, metrics, and how two answers compare."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

Request = tuple[str, Any]
"""Path and JSON body (bytes are sent as they are)."""


@dataclass(slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


def encode(path: str, body: Any) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: e2e\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


class Connection:
    """One socket that is kept alive."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._sent = 0.0

    async def open(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection(self._address.hostname, self._address.port)
        return self

    def send(self, path: str, body: Any) -> None:
        self._sent = perf_counter()
        self.writer.write(encode(path, body))

    async def receive(self) -> Reply:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        body = await self.reader.readexactly(int(headers["content-length"]))
        return Reply(int(head[0].split()[1]), headers, body, perf_counter() - self._sent)

    async def ask(self, path: str, body: Any) -> Reply:
        self.send(path, body)
        return await self.receive()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


async def together(url: str, requests: Sequence[Request]) -> list[Reply]:
    """Send every request on a connection of its own before the first answer is read."""
    connections: list[Connection] = []
    try:
        for i in range(0, len(requests), 250):
            connections += await asyncio.gather(*(Connection(url).open() for _ in requests[i : i + 250]))
        for connection, (path, body) in zip(connections, requests, strict=True):
            connection.send(path, body)
        return list(await asyncio.gather(*(c.receive() for c in connections)))
    finally:
        await asyncio.gather(*(c.close() for c in connections))


async def closed_loop(
    url: str, request: Callable[[int], Request], clients: int, seconds: float, pause: float = 0.0
) -> list[Reply]:
    """`clients` that each ask again as soon as they are answered, `pause` seconds after a refusal."""
    end = perf_counter() + seconds
    replies: list[Reply] = []

    async def client(number: int) -> None:
        connection = await Connection(url).open()
        try:
            while perf_counter() < end:
                replies.append(reply := await connection.ask(*request(number)))
                if reply.status != 200:
                    await asyncio.sleep(pause)
        finally:
            await connection.close()

    await asyncio.gather(*(client(i) for i in range(clients)))
    return replies


@dataclass
class Comparison:
    """Collects how far answers are from those that were expected."""

    different: list[str] = field(default_factory=list)
    largest: float = 0.0

    def add(self, expected: Any, got: Any, path: str = "answer") -> None:
        """Numbers may differ by 1e-5, all else not at all."""
        if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
            for key in expected:
                self.add(expected[key], got[key], f"{path}.{key}")
        elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
            for i, (e, g) in enumerate(zip(expected, got, strict=True)):
                self.add(e, g, f"{path}.{i}")
        elif isinstance(expected, float) and isinstance(got, float):
            self.largest = max(self.largest, abs(expected - got))
            if abs(expected - got) > 1e-5:
                self.different.append(f"{path}: {expected} became {got}")
        elif type(expected) is not type(got) or expected != got:
            self.different.append(f"{path}: {expected!r} became {got!r}")


def series(exposition: str) -> dict[str, float]:
    """Every series of the text format with its value."""
    lines = (line.rpartition(" ") for line in exposition.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def counted(exposition: str, outcome: str = r"\w+", bundle: str = ".+?") -> float:
    """The sum of clueserve_requests_total over what the patterns match."""
    wanted = re.compile(rf'clueserve_requests_total\{{bundle="{bundle}",outcome="{outcome}"\}}')
    return sum(value for name, value in series(exposition).items() if wanted.fullmatch(name))
