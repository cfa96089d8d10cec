"""What the protocols share: a model as they see it, and a request of theirs as native items answered together.

A protocol reads its request into `Ask`s and says how their results are written. Everything between is the service's
own, so that answers, limits, deadlines, errors and metrics are those of the native endpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel
from starlette.responses import Response

from service.batching.jobs import Turn
from service.batching.runner import Result
from service.bundle import Bundle, Manifest
from service.edge.body import checked
from service.edge.endpoints import STEP
from service.edge.http import Asked, Handler
from service.errors import InvalidItem, NotReady, ServiceError
from service.server import Server
from service.tasks import family
from service.tasks.base import Task
from service.types import Timing

Parameters = TypeVar("Parameters", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the fields of an item stand in the caller's request: those of `fields`, and the others below `below`."""

    below: str
    fields: Mapping[str, str] = field(default_factory=dict)

    def path(self, native: str | None) -> str:
        if native is None:
            return self.below
        head, dot, rest = native.partition(".")
        return self.fields.get(head, f"{self.below}.{head}" if self.below else head) + dot + rest


class Ask(NamedTuple):
    """One native item, and where it came from."""

    item: Any
    place: Place


Writer = Callable[[Sequence[Result]], Response]
"""Writes the results of a request, in the order of its items."""

Reader = Callable[[Asked], Awaitable[tuple[Sequence[Ask], Writer]]]
"""Reads a request; ServiceError if it cannot be answered."""


class Model:
    """What one name serves."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.task: type[Task] = family(self.bundle)

    @property
    def bundle(self) -> Bundle:
        """What answers at the moment: another version may come, and is of the same family."""
        return self.server.bundles[self.name]

    @property
    def manifest(self) -> Manifest:
        return self.bundle.manifest

    @property
    def params(self) -> Any:
        """The decoder's parameters, as the task reads them; NotReady if there is none yet."""
        runner = self.server.runners.get(self.name)
        if runner is None:
            raise NotReady(self.server.why_not(self.name) or f"{self.name} is not loaded")
        return runner.task.params

    @property
    def versions(self) -> list[str]:
        """The versions that answer."""
        told = self.server.condition(self.name)["versions"]
        return [one["version"] for one in told if one["share"]] or [self.bundle.version]

    def ready(self) -> None:
        """Returns if requests are answered; NotReady says why not."""
        if self.server.draining:
            raise NotReady("draining")
        if why := self.server.why_not(self.name):
            raise NotReady(why)

    def ask(self, fields: Mapping[str, Any], place: Place) -> Ask:
        """A native item of these fields; InvalidItem with the path in the caller's own request."""
        try:
            return Ask(checked(self.task.Input, fields), place)
        except InvalidItem as error:
            raise _moved(error, place) from None

    def limit(self, items: int, path: str) -> None:
        """Refuse a request of more items than a native batch may have."""
        most = self.server.settings.max_batch_items
        if items > most:
            raise InvalidItem(f"{items} items; at most {most}", field=path, code="batch_too_large")

    def _fits(self, asks: Sequence[Ask]) -> None:
        """What an item has a series of counts as so many; one that alone has too many is refused by itself."""
        if (series := self.task.Input.series) and len(asks) > 1:
            self.limit(sum(max(1, len(getattr(ask.item, series) or ())) for ask in asks), f"the items' {series}")

    def handler(self, read: Reader) -> Handler:
        """Answers requests that `read` understands; what it refuses is counted as the native endpoints count it."""

        async def handle(asked: Asked) -> Response:
            try:
                asks, write = await read(asked)
                self._fits(asks)
            except ServiceError as error:
                self.server.telemetry.outcome(self.name, error.code)
                raise
            return write(await self._answers(asks))

        return handle

    async def _answers(self, asks: Sequence[Ask]) -> list[Result]:
        """All items at once, in one turn: they meet in the queue and are run together. An error ends them all."""
        turn = Turn()
        tasks: list[asyncio.Task[Result]] = []
        try:
            async with asyncio.TaskGroup() as group:  # a client that leaves takes all of its items with it
                for i, ask in enumerate(asks):
                    tasks.append(group.create_task(self._answer(ask, turn)))
                    if i % STEP == STEP - 1:
                        await asyncio.sleep(0)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _answer(self, ask: Ask, turn: Turn) -> Result:
        try:
            return await self.server.answer(self.name, ask.item, turn)
        except InvalidItem as error:
            raise _moved(error, ask.place) from None


def models(server: Server) -> list[Model]:
    return [Model(server, name) for name in server.bundles]


def _moved(error: ServiceError, place: Place) -> ServiceError:
    return InvalidItem(error.message, field=place.path(error.field), code=error.reason)


def parameters(model: type[Parameters], given: Mapping[str, Any], path: str = "parameters") -> Parameters:
    """Checked parameters; one that is null is as good as absent."""
    try:
        return checked(model, {name: value for name, value in given.items() if value is not None})
    except InvalidItem as error:
        raise _moved(error, Place(path)) from None


def unsupported(path: str, why: str) -> InvalidItem:
    """The refusal of a parameter that would change the answer in a way that the model cannot."""
    return InvalidItem(why, field=path, code="unsupported_parameter")


def spelled(error: ServiceError) -> str:
    """An error as one line, for protocols that have no place for a path."""
    return error.message if error.field is None else f"{error.field}: {error.message}"


def together(results: Sequence[Result]) -> Timing:
    """The time of a request's items that were answered together; `rows` are those of the largest take."""
    timings = [result.timing for result in results]
    return Timing(
        queue=max(t.queue for t in timings),
        tokenize=sum(t.tokenize for t in timings),
        inference=max(t.inference for t in timings),
        decode=sum(t.decode for t in timings),
        rows=max(t.rows for t in timings),
        tokens=sum(t.tokens for t in timings),
        version=", ".join(sorted({t.version for t in timings} - {""})),
    )
