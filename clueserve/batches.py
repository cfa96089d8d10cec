"""Many items: split to what the server takes, sent side by side, put together in order."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from clueserve.errors import ClueserveError, ServerFault, of_response
from clueserve.models import Limits
from clueserve.steps import Flow, Request, Retries, Sleep, Together, encode, exchange

BUSY = {"overloaded", "not_ready"}
"""Codes of an item that may well be answered when it is asked again."""

PLACE = re.compile(r"(?:items|text)\.(\d+)")
"""The path of an error that one item made of the whole request: its number in that request."""

Cell = dict[str, Any] | ClueserveError
"""What the server says of one item to one task, an answer or `{"error": ...}`; or why it says nothing."""
Row = dict[str, Cell]
"""The cells of one item by task."""


@dataclass(frozen=True)
class Call:
    """A request that takes many items: where it goes and how it is written. Every item is asked of all `tasks`.

    `keyed`: the request names its tasks and has `options`, the answer is `{task: [...]}`; otherwise the answer is
    `{"results": [...]}`, of the only task.
    """

    path: str
    head: bytes
    tasks: Sequence[str]
    keyed: bool
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tail(self) -> bytes:
        return b"]," + encode({"tasks": list(self.tasks), **self.options})[1:] if self.keyed else b"]}"

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
        self.limits = limits
        self.url = url
        self.retries = retries
        self.until = until

    def rows(self, parts: Sequence[bytes]) -> Flow[list[Row]]:
        """A row an item, in order, each with a cell for every task. Raises only if the server said nothing of any."""
        rows: list[Row] = [{} for _ in parts]
        waiting = self._waiting(rows)
        attempt = 0
        while waiting:
            chunks = [(call, chunk) for call, indices in waiting for chunk in self._chunks(call, indices, parts)]
            found = yield Together([self._guarded(call, [parts[i] for i in chunk]) for call, chunk in chunks])
            for (_, chunk), got in zip(chunks, found, strict=True):
                for i, row in zip(chunk, got, strict=True):
                    rows[i] |= row
            waiting = self._waiting(rows)
            pause = self.retries.pause(attempt, _asked_for(rows))
            if attempt >= self.retries.most or monotonic() + pause >= self.until:
                break
            if waiting:
                yield Sleep(pause)
            attempt += 1
        cells = [cell for row in rows for cell in row.values()]
        failures = [cell for cell in cells if isinstance(cell, ClueserveError)]
        if failures and len(failures) == len(cells):
            raise failures[0]
        return rows

    def _waiting(self, rows: Sequence[Row]) -> list[tuple[Call, list[int]]]:
        """The items that are still to be asked, by the tasks that they lack; what was answered is not asked again."""
        waiting: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for i, row in enumerate(rows):
            if tasks := tuple(task for task in self.call.tasks if task not in row or _busy(row[task])):
                waiting[tasks].append(i)
        return [(replace(self.call, tasks=tasks), indices) for tasks, indices in waiting.items()]

    def _chunks(self, call: Call, indices: Sequence[int], parts: Sequence[bytes]) -> Iterator[list[int]]:
        most_items = max(1, self.limits.max_batch_items // len(call.tasks))
        most_bytes = self.limits.max_body_bytes - len(call.head) - len(call.tail)
        for chunk in split([len(parts[i]) for i in indices], most_items, most_bytes):
            yield [indices[k] for k in chunk]

    def _guarded(self, call: Call, parts: Sequence[bytes]) -> Flow[Sequence[Row]]:
        """What others were answered must not be lost with these."""
        try:
            return (yield from self._chunk(call, parts))
        except ClueserveError as error:
            culprit = PLACE.match(error.field or "")
            if not culprit or len(parts) == 1:
                return [dict.fromkeys(call.tasks, error) for _ in parts]
            # Written as the server writes the error of one item, which is then told with that item's own path.
            cell: Cell = {"error": {"code": error.code, "message": error.message, "field": error.field}}
            others = type(error)(f"not asked: {error.message}", code=error.code, status=error.status)
            return [dict.fromkeys(call.tasks, cell if i == int(culprit[1]) else others) for i in range(len(parts))]

    def _chunk(self, call: Call, parts: Sequence[bytes]) -> Flow[Sequence[Row]]:
        reply = yield from exchange(call.request(parts), self.url, self.retries, self.until)
        body = reply.json()
        if reply.status == 200:
            return call.rows(body, len(parts), self.url)
        error = of_response(reply.status, body, f"{self.url}{call.path}")
        if reply.status != 413 and error.code != "batch_too_large":
            raise error
        if len(parts) == 1:
            cell: Cell = {"error": {"code": error.code, "message": error.message}}
            return [dict.fromkeys(call.tasks, cell)]
        # The limits have changed since they were asked for, or somebody on the way has lower ones.
        half = len(parts) // 2
        return [*(yield from self._guarded(call, parts[:half])), *(yield from self._guarded(call, parts[half:]))]


def _asked_for(rows: Sequence[Row]) -> float | None:
    """Seconds until the server expects to have room for the last of the items that it refused."""
    errors = [cell["error"] for row in rows for cell in row.values() if isinstance(cell, dict) and _busy(cell)]
    return max((float(error["retry_after"]) for error in errors if "retry_after" in error), default=None)


def _busy(cell: Cell) -> bool:
    return not isinstance(cell, ClueserveError) and "error" in cell and cell["error"]["code"] in BUSY
