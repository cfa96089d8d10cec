"""Who may come in: turns requests away while the server ends, and ends those that would outlast its grace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from service.errors import NotReady

# Asked on new connections, often by who decides whether this process lives: never turned away.
PROBES = frozenset({"/livez", "/healthz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
CROWDED = "crowded"
"""Key of a request's ASGI state that is there if its connection is one too many."""


class Gate:
    """`draining`: the server ends, so that it is not ready, but answers. `closed`: new requests are turned away.
    `over`: even those under way are."""

    def __init__(self) -> None:
        self.draining = False
        self.closed = False
        self.over = False
        self._inside: set[asyncio.Task[Any]] = set()

    @property
    def under_way(self) -> int:
        """Requests that are being answered."""
        return len(self._inside)

    @contextmanager
    def inside(self) -> Iterator[asyncio.Task[Any]]:
        """A request is under way."""
        task = asyncio.current_task()
        assert task is not None
        self._inside.add(task)
        try:
            yield task
        finally:
            self._inside.discard(task)

    def check(self, path: str, state: dict[str, Any]) -> None:
        """NotReady if a new request must be turned away."""
        if path in PROBES:
            return
        if self.closed:
            raise ending()
        if CROWDED in state:
            raise NotReady("there are too many connections", code="too_many_connections", close=True)

    def finish(self) -> None:
        """Turn away what is still under way."""
        self.closed = self.over = True
        for task in self._inside:
            task.cancel()


def ending() -> NotReady:
    return NotReady("the server is shutting down", close=True)
