"""Sending what was made to a server, a few at a time, and what is wrong with its answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from e2e_fuzz_wire import Shot

AT_ONCE = 4
PATIENCE = 30.0
"""Seconds after which a request hangs."""
REFUSED_BY_LOAD = {429, 503, 504}


@dataclass
class Findings:
    """`problems`: what a server must not do, with the request that made it; `seen`: answers by kind and status."""

    problems: list[str] = field(default_factory=list)
    seen: Counter[tuple[str, int]] = field(default_factory=Counter)
    slowest: float = 0.0

    def note(self, kind: str, status: int, seconds: float, problem: str | None, request: str) -> None:
        self.seen[kind, status] += 1
        self.slowest = max(self.slowest, seconds)
        if problem:
            self.problems.append(f"{kind}: {problem}\n    {request}")

    def table(self) -> str:
        kinds = sorted({kind for kind, _ in self.seen})
        rows = [
            (k, ", ".join(f"{n} x {s or 'closed'}" for (of, s), n in sorted(self.seen.items()) if of == k))
            for k in kinds
        ]
        return "\n".join(f"{kind:24} {counts}" for kind, counts in rows)


def send(url: str, shots: Sequence[Shot], findings: Findings) -> None:
    asyncio.run(_send(url, shots, findings))


async def _send(url: str, shots: Sequence[Shot], findings: Findings) -> None:
    waiting = list(reversed(shots))
    host, port = urlsplit(url).hostname, urlsplit(url).port

    async def sender() -> None:
        while waiting:
            shot, start = waiting.pop(), perf_counter()
            try:
                async with asyncio.timeout(PATIENCE):
                    status, headers, body = await _exchange(host, port, shot)
                problem = wrong(shot, status, headers, body)
            except TimeoutError:
                status, problem = 0, f"not answered within {PATIENCE:.0f} s"
            findings.note(shot.kind, status, perf_counter() - start, problem, repr(shot.data[:600]))

    await asyncio.gather(*(sender() for _ in range(AT_ONCE)))


async def _exchange(host: str | None, port: int | None, shot: Shot) -> tuple[int, dict[str, str], bytes]:
    """The first answer on a connection of its own; status 0 if it was closed without one."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(shot.data)
        if not shot.whole:
            with suppress(OSError):  # refused and closed already
                writer.write_eof()
        status = 100
        while status == 100:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(head[0].split()[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = b"" if shot.head else await reader.readexactly(int(headers["content-length"]))
        return status, headers, body
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0, {}, b""
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def wrong(shot: Shot, status: int, headers: dict[str, str], body: bytes) -> str | None:
    """What is wrong with an answer."""
    if status == 0:
        return "closed without an answer" if shot.whole else None
    if status >= 500 or status in REFUSED_BY_LOAD or status < 200:
        return f"answered {status}: {body[:300]!r}"
    if shot.good and status != 200:
        return f"a right request was answered {status}: {body[:300]!r}"
    return bad_shape(headers, body) if status >= 400 and not shot.head else None


def bad_shape(headers: dict[str, str], body: bytes) -> str | None:
    """An error is JSON in the form of its protocol: native, or a line with or without a type."""
    if headers.get("content-type") != "application/json":
        return f"an error of type {headers.get('content-type')}: {body[:200]!r}"
    error: Any = json.loads(body)
    told = error.get("error")
    native = (
        isinstance(told, dict)
        and {"code", "message"} <= told.keys() <= {"code", "message", "field"}
        and len(error) == 1
    )
    line = isinstance(told, str) and error.keys() <= {"error", "error_type"}
    return None if native or line else f"an error of no known form: {body[:200]!r}"
