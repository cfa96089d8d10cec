"""A server whose behaviour is known: one request after another, each as long; it may freeze once, and refuse.

A process of its own, so that its work is not the load generator's. Times are kept on a clock that is not late when the
machine is: a request is done when the queue says so, not when a sleep happened to end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

MODEL = {"name": "m", "suite": "klue/ynat", "language": "ko", "example": {"text": "hello"}}


@contextmanager
def synthetic(**settings: float) -> Iterator[str]:
    """The URL of a running one: `service`, `freeze_at`, `freeze`, `most_wait` in seconds, `most_items` of a batch."""
    arguments = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    process = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.communicate()


class Queue:
    """When a single server is done with what arrives now."""

    def __init__(self, settings: argparse.Namespace) -> None:
        self._settings = settings
        self._first: float | None = None
        self._free = 0.0

    def admit(self, now: float) -> float | None:
        """The instant at which the answer is ready; None if it would wait too long."""
        s = self._settings
        if self._first is None:
            self._first = now
        start = max(now, self._free)
        if 0 <= start - self._first - s.freeze_at < s.freeze:
            start = self._first + s.freeze_at + s.freeze
        if start - now > s.most_wait:
            return None
        self._free = start + s.service
        return self._free


class Http(asyncio.Protocol):
    """Enough of HTTP for one request at a time."""

    def __init__(self, queue: Queue, settings: argparse.Namespace) -> None:
        self._queue, self._settings = queue, settings
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        if not end or len(body) < int(length or 0):
            return
        self._received = b""
        path = head.split(b" ")[1].decode()
        if path == "/v1/models":
            self._answer(200, json.dumps({"models": [MODEL]}).encode())
        elif path == "/m/batch":
            self._batch(json.loads(body)["items"])
        elif path == "/m":
            self._one()
        else:
            self._answer(404, b"{}")

    def _one(self) -> None:
        loop = asyncio.get_running_loop()
        done = self._queue.admit(loop.time())
        if done is None:
            self._answer(429, b"{}", "Retry-After: 1\r\n")
        else:
            loop.call_at(done, self._answer, 200, b"{}", "X-Batch-Rows: 4\r\n")

    def _batch(self, items: list[dict[str, str]]) -> None:
        if len(items) > self._settings.most_items:
            self._answer(422, b'{"error":{"code":"batch_too_large"}}')
            return
        results = [{"error": {"code": "overloaded"}} if item["text"] == "no" else {"label": "a"} for item in items]
        self._answer(200, json.dumps({"results": results}).encode())

    def _answer(self, status: int, body: bytes, extra: str = "") -> None:
        if not self._transport.is_closing():
            head = (
                f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
            )
            self._transport.write(head.encode() + body)


async def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (
        ("service", 0.0),
        ("freeze-at", 0.0),
        ("freeze", 0.0),
        ("most-wait", 1e9),
        ("most-items", 1e9),
    ):
        parser.add_argument(f"--{name}", type=float, default=default)
    settings = parser.parse_args()
    queue = Queue(settings)
    server = await asyncio.get_running_loop().create_server(lambda: Http(queue, settings), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
