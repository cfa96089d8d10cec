"""One HTTP request as it is counted, logged and traced: never what it says, only what became of it."""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar
from time import monotonic

from service.types import Timing

REQUEST_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MAX_SPANS_OF = 16
"""Items of one request whose stages are kept for its trace."""


class Exchange:
    """Written while the request is answered: by the edge what its error was, by the server which items it had."""

    __slots__ = (
        "code",
        "failed",
        "id",
        "items",
        "key",
        "method",
        "models",
        "most",
        "route",
        "start",
        "status",
        "timings",
    )

    def __init__(self, method: str, route: str, wished: bytes | None) -> None:
        self.start = monotonic()
        self.method = method if method in METHODS else "_OTHER"
        self.route = route
        # What a caller names itself may stand in a log line, so it cannot hold everything.
        good = wished is not None and REQUEST_ID.fullmatch(wished)
        self.id = wished if good and wished else secrets.token_hex(8).encode()
        self.status = 500
        self.code: str | None = None
        self.key: str | None = None
        self.models: dict[str, None] = {}
        self.items = 0
        self.failed = 0
        self.most = Timing()
        self.timings: list[tuple[str, Timing]] = []

    def answered(self, model: str, timing: Timing) -> None:
        """One item that was answered: `most` is the longest that any of them was at each stage."""
        self.items += 1
        self.models[model] = None
        if self.items == 1:
            self.most = timing
        else:
            most = self.most
            self.most = Timing(
                max(most.queue, timing.queue),
                max(most.tokenize, timing.tokenize),
                max(most.inference, timing.inference),
                max(most.decode, timing.decode),
                max(most.rows, timing.rows),
                most.tokens + timing.tokens,
            )
        if len(self.timings) < MAX_SPANS_OF:
            self.timings.append((model, timing))

    def refused(self, model: str) -> None:
        """One item that was not answered."""
        self.items += 1
        self.failed += 1
        self.models[model] = None


CURRENT: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
"""The exchange that the running task belongs to; None where there is no HTTP."""


def failed(code: str) -> None:
    """Note the error that the current request as a whole is answered with."""
    if exchange := CURRENT.get():
        exchange.code = code


def keyed(name: str) -> None:
    """Note whose key the current request came with."""
    if exchange := CURRENT.get():
        exchange.key = name
