"""Who answers a benchmark's requests: a bundle in this process, or a running server.

Both say of each request either its answer or why it was refused, with the same codes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from service.bundle import FILE, Bundle, Score, sha256
from service.edge.body import explain
from service.errors import InternalError, ServiceError
from service.graph.device import Device
from service.loading import open_bundle
from service.types import Answer, Timing

log = logging.getLogger("benchmarks")

ITEMS = 32
"""Most requests that are asked at once; with the next, a part of any server's limits."""
BYTES = 256 * 1024


class PredictorError(Exception):
    """Nobody there answers requests."""


@dataclass(frozen=True)
class Outcome:
    """An answer, or the error of a request that was refused: `{"code": ..., "message": ..., "field": ...}`."""

    answer: Answer | None = None
    error: dict[str, Any] | None = None


class Predictor(Protocol):
    """`suite` and `scores` are what the bundle says of itself; `sha256` is that of its manifest, where it is known."""

    name: str
    suite: str
    scores: Sequence[Score]
    sha256: str | None

    def ask(self, items: Sequence[dict[str, Any]]) -> list[Outcome]:
        """Outcomes in order. Called from several threads at once."""
        ...


class InProcess:
    """A bundle that was loaded as the server loads it."""

    def __init__(self, bundle: Bundle, device: Device = "cpu") -> None:
        self.task, self._session = open_bundle(bundle, device)
        self._item = TypeAdapter(self.task.Input)
        self.name = bundle.manifest.name
        self.suite = bundle.manifest.suite
        self.scores: Sequence[Score] = bundle.manifest.scores
        self.sha256: str | None = sha256(bundle.folder / FILE)

    def ask(self, items: Sequence[dict[str, Any]]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        valid: dict[int, Any] = {}
        for i, raw in enumerate(items):
            try:
                valid[i] = self._item.validate_python(raw)
                self.task.check(valid[i])
            except ValidationError as error:
                outcomes[i] = Outcome(error=explain(error).body())
            except ServiceError as error:
                del valid[i]
                outcomes[i] = Outcome(error=error.body())
        outcomes |= zip(valid, self._predict(list(valid.values())), strict=True)
        return [outcomes[i] for i in range(len(items))]

    def _predict(self, items: Sequence[Any]) -> list[Outcome]:
        """As the server does it: together, and if that fails, each alone."""
        if not items:
            return []
        try:
            results = self.task.predict(items, self._session.run, [Timing() for _ in items])
        except Exception as error:
            if len(items) > 1:
                return [outcome for item in items for outcome in self._predict([item])]
            results = [error]
        return [self._outcome(result) for result in results]

    def _outcome(self, result: Answer | Exception) -> Outcome:
        if not isinstance(result, Exception):
            return Outcome(result)
        if isinstance(result, ServiceError):
            return Outcome(error=result.body())
        log.error("%s failed on a record", self.name, exc_info=result)
        return Outcome(error=InternalError("the model failed on this item").body())


def ask_all(predictor: Predictor, items: Sequence[dict[str, Any]], threads: int) -> Iterator[list[Outcome]]:
    """Outcomes of all items, in order, as they come in: a list a chunk, `threads` chunks under way at once."""
    with ThreadPoolExecutor(threads, thread_name_prefix="ask") as pool:
        yield from pool.map(predictor.ask, _chunks(items))


def _chunks(items: Sequence[Mapping[str, Any]]) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    size = 0
    for item in items:
        length = len(to_json(item))
        if chunk and (len(chunk) == ITEMS or size + length > BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += length
    if chunk:
        yield chunk
