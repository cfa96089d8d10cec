"""Many items: split to what the server takes, sent side by side, put together in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from clueserve.errors import BadRequest, ClueserveError, ServerFault, of_response
from clueserve.models import Limits
from clueserve.steps import Flow, Request, Retries, Sleep, Together, exchange

BUSY = {"overloaded", "not_ready"}
"""Codes of an item that may well be answered when it is asked again."""

Row = dict[str, Any]
"""What the server says of one item: by task, an answer or `{"error": ...}`."""


@dataclass(frozen=True)
class Call:
    """A request that takes many items: where it goes and how it is written. Every item is asked of all `tasks`.

    `keyed`: the answer is `{task: [...]}`; otherwise `{"results": [...]}`, of the only task.
    """

    path: str
    head: bytes
    tail: bytes
    tasks: Sequence[str]
    keyed: bool

    def request(self, parts: Sequence[bytes]) -> Request:
        return Request("POST", self.path, self.head + b",".join(parts) + self.tail)

    def rows(self, body: Any, n: int, url: str) -> list[Row]:
        try:
            columns = [body[task] for task in self.tasks] if self.keyed else [body["results"]]
            rows = [dict(zip(self.tasks, cells, strict=True)) for cells in zip(*columns, strict=True)]
            if len(rows) == n:
                return rows
        except (KeyError, TypeError, ValueError):
            pass  # told below
        raise ServerFault(f"{url}{self.path} answered what is no answer to {n} items", code="not_clueserve", status=200)


def split(sizes: Sequence[int], most_items: int, most_bytes: int) -> Iterator[range]:
    """Consecutive parts of at most so many items and, commas included, bytes; what alone is larger is a part alone."""
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and (i - start >= most_items or total + size + 1 > most_bytes):
            yield range(start, i)
            start, total = i, 0
        total += size + 1
    if start < len(sizes):
        yield range(start, len(sizes))


class Spread:
    """One call over many items, its retries and its deadline."""

    def __init__(self, call: Call, limits: Limits, url: str, retries: Retries, until: float) -> None:
        self.call = call
        self.url = url
        self.retries = retries
        self.until = until
        self._items = max(1, limits.max_batch_items // len(call.tasks))
        self._bytes = limits.max_body_bytes - len(call.head) - len(call.tail)

    def rows(self, parts: Sequence[bytes]) -> Flow[list[Row | ClueserveError]]:
        """A row an item, in order, or why there is none. Raises only if no item got a row."""
        rows: list[Row | ClueserveError] = [{}] * len(parts)
        waiting = list(range(len(parts)))
        attempt = 0
        while waiting:
            chunks = split([len(parts[i]) for i in waiting], self._items, self._bytes)
            indices = [[waiting[k] for k in chunk] for chunk in chunks]
            found = yield Together([self._guarded([parts[i] for i in chunk]) for chunk in indices])
            for chunk, got in zip(indices, found, strict=True):
                for i, row in zip(chunk, got, strict=True):
                    rows[i] = row
            waiting = [i for i in waiting if _busy(rows[i])]
            pause = self.retries.pause(attempt)
            if attempt >= self.retries.most or monotonic() + pause >= self.until:
                break
            if waiting:
                yield Sleep(pause)
            attempt += 1
        failures = [row for row in rows if isinstance(row, ClueserveError)]
        if failures and len(failures) == len(rows):
            raise failures[0]
        return rows

    def _guarded(self, parts: Sequence[bytes]) -> Flow[Sequence[Row | ClueserveError]]:
        """What others were answered must not be lost with these."""
        try:
            return (yield from self._chunk(parts))
        except BadRequest:
            raise
        except ClueserveError as error:
            return [error] * len(parts)

    def _chunk(self, parts: Sequence[bytes]) -> Flow[Sequence[Row | ClueserveError]]:
        reply = yield from exchange(self.call.request(parts), self.url, self.retries, self.until)
        body = reply.json()
        if reply.status == 200:
            return self.call.rows(body, len(parts), self.url)
        error = of_response(reply.status, body, f"{self.url}{self.call.path}")
        if reply.status != 413 and error.code != "batch_too_large":
            raise error
        if len(parts) == 1:
            cell: Any = {"error": {"code": error.code, "message": error.message}}
            return [dict.fromkeys(self.call.tasks, cell)]
        # The limits have changed since they were asked for, or somebody on the way has lower ones.
        half = len(parts) // 2
        return [*(yield from self._chunk(parts[:half])), *(yield from self._chunk(parts[half:]))]


def _busy(row: Row | ClueserveError) -> bool:
    return not isinstance(row, ClueserveError) and any(
        cell["error"]["code"] in BUSY for cell in row.values() if "error" in cell
    )
