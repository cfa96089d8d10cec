"""The native endpoints of a bundle: one item, and many items each answered or refused on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import bentoml
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from service.batching.jobs import Turn
from service.edge.body import checked, parse
from service.edge.http import Asked, Handler, error_response, json_response
from service.errors import InvalidItem, ServiceError
from service.server import Server
from service.tasks.base import Item
from service.types import Timing

# Items of one batch that are started before others get the event loop: about a millisecond of work.
STEP = 32


class Batch(BaseModel):
    model_config = ConfigDict(extra="forbid")

    items: list[Any] = Field(min_length=1, description="requests as the single endpoint takes them")


class Results(BaseModel):
    results: list[Any] = Field(description='an answer or {"error": ...} for each item, in order')


def timing_headers(timing: Timing) -> dict[str, str]:
    version = {"X-Model-Version": timing.version} if timing.version else {}
    return version | {
        "X-Queue-Ms": f"{timing.queue * 1000:.2f}",
        "X-Tokenize-Ms": f"{timing.tokenize * 1000:.2f}",
        "X-Inference-Ms": f"{timing.inference * 1000:.2f}",
        "X-Batch-Rows": str(timing.rows),
    }


def one_endpoint(server: Server, name: str, model: type[BaseModel]) -> Handler:
    async def handle(asked: Asked) -> Response:
        try:
            item = await parse(model, asked.body)
        except ServiceError as error:
            server.telemetry.outcome(name, error.code)
            raise
        result = await server.answer(name, item, Turn())
        return json_response(result.answer, headers=timing_headers(result.timing))

    return handle


def batch_endpoint(server: Server, name: str, model: type[Item]) -> Handler:
    async def one(index: int, raw: Any, turn: Turn, versions: set[str]) -> bytes:
        try:
            result = await server.answer(name, read(raw), turn)
            versions.add(result.timing.version)
            return to_json(result.answer)
        except ServiceError as error:
            problem = error
        path = f"items.{index}" + (f".{problem.field}" if problem.field else "")
        return to_json({"error": problem.body() | {"field": path}})

    def read(raw: Any) -> BaseModel:
        try:
            return checked(model, raw)
        except ServiceError as error:
            server.telemetry.outcome(name, error.code)
            raise

    async def handle(asked: Asked) -> Response:
        try:
            batch = await parse(Batch, asked.body)
            limit = server.settings.max_batch_items
            if (count := _count(batch.items, model.series, limit)) > limit:
                what = f"items, counted by their {model.series}" if model.series else "items"
                raise InvalidItem(f"{count} {what}; at most {limit}", field="items", code="batch_too_large")
        except ServiceError as error:
            server.telemetry.outcome(name, error.code)
            raise
        tasks, turn, versions = [], Turn(), set[str]()
        async with asyncio.TaskGroup() as group:  # a client that leaves takes all of its items with it
            for i, raw in enumerate(batch.items):
                tasks.append(group.create_task(one(i, raw, turn, versions)))
                if i % STEP == STEP - 1:
                    await asyncio.sleep(0)
        # Written item by item: a thousand answers at once would hold the event loop.
        results = b",".join(task.result() for task in tasks)
        answered_by = {"X-Model-Version": ", ".join(sorted(versions))} if any(versions) else {}
        return Response(b'{"results":[' + results + b"]}", headers=answered_by, media_type="application/json")

    return handle


def _count(items: Sequence[Any], series: str | None, limit: int) -> int:
    """Items of a batch, each as many as its series has texts; one that alone has too many is refused alone."""
    found = (item.get(series) if series and isinstance(item, dict) else None for item in items)
    return sum(len(texts) if isinstance(texts, list) and 1 < len(texts) <= limit else 1 for texts in found)


def api(name: str, route: str, model: type[BaseModel], output: type[BaseModel], handle: Handler) -> Any:
    """A BentoML API: what BentoML's clients read in /schema.json. Over HTTP `Edge` asks the handler itself.

    It reads the body itself too: BentoML's own 4xx do not name the field.
    """

    class Body(bentoml.IODescriptor, model):  # type: ignore[misc, valid-type]
        __root_input__ = True
        # Of alternatives that a request may have BentoML would take the first for the only one.
        model_config = ConfigDict(json_schema_extra=None)

        @classmethod
        async def from_http_request(cls, request: Request, serde: Any) -> bytes:
            return await request.body()

    Body.__name__ = f"{model.__name__}Body"

    async def call(self: Any, body: bytes, /) -> Response:
        try:
            return await handle(Asked(body))
        except ServiceError as error:
            return error_response(error)

    call.__name__ = name
    call.__doc__ = output.__doc__
    answer = type(f"{output.__name__}Body", (bentoml.IODescriptor, output), {})
    return bentoml.api(route=route, name=name, input_spec=Body, output_spec=answer)(call)
