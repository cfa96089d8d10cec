"""`POST /parse`: several models over the same texts in one call, answered as one document keyed by task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, PlainValidator, TypeAdapter
from pydantic_core import PydanticCustomError, to_json
from starlette.responses import Response

from service.access import require
from service.batching.jobs import Turn
from service.bundle import Manifest
from service.edge.body import parse
from service.edge.endpoints import STEP
from service.edge.http import Asked, Endpoint
from service.errors import InvalidItem, ServiceError
from service.server import Server
from service.tasks import FAMILIES
from service.tasks.base import Item, Text

PATH = "/parse"
Many = Annotated[list[Text], Field(min_length=1, fail_fast=True)]
MANY: TypeAdapter[list[str]] = TypeAdapter(Many)


def _texts(value: Any) -> str | list[str]:
    """One text or several; pydantic's own union would name its members in the path of an error."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise PydanticCustomError("text_type", "Input should be a string or a list of strings")
    return MANY.validate_python(value, strict=True)


class ParseItem(Item):
    text: Annotated[str | list[str], PlainValidator(_texts, json_schema_input_type=Text | Many)] = Field(
        description="one text, or several: each task's answer is then a list in the same order"
    )
    tasks: list[str] = Field(min_length=1, fail_fast=True, description="names of models that need nothing but a `text`")


def takes_text(family: str) -> bool:
    """Whether a family can answer a text and nothing else."""
    fields = FAMILIES[family].Input.model_fields
    return "text" in fields and not any(field.is_required() for name, field in fields.items() if name != "text")


def routes(server: Server) -> dict[str, dict[str, Endpoint]]:
    families = {name: bundle.manifest.family for name, bundle in server.bundles.items()}
    models = {name: FAMILIES[family].Input for name, family in families.items() if takes_text(family)}

    async def handle(asked: Asked) -> Response:
        try:
            request = await parse(ParseItem, asked.body)
            _check(request, families, server.settings.max_batch_items)
        except ServiceError as error:
            server.refused(error.reason)
            raise
        texts = [request.text] if isinstance(request.text, str) else request.text
        columns = await _cells(server, request, texts, models)
        entries = [
            to_json(name) + b":" + (cells[0] if isinstance(request.text, str) else b"[" + b",".join(cells) + b"]")
            for name, cells in zip(request.tasks, columns, strict=True)
        ]
        return Response(b"{" + b",".join(entries) + b"}", media_type="application/json")

    return {PATH: {"POST": Endpoint(handle)}}


def _check(request: ParseItem, families: Mapping[str, str], limit: int) -> None:
    for i, name in enumerate(request.tasks):
        path = f"tasks.{i}"
        if name not in families:
            raise InvalidItem("there is no such model; GET /v1/models lists them", field=path, code="unknown_task")
        require(name, path)
        if not takes_text(families[name]):
            raise InvalidItem(f"{families[name]} needs more than a text: ask /{name}", field=path, code="unfit_task")
        if name in request.tasks[:i]:
            raise InvalidItem("the task is named twice", field=path)
    items = len(request.tasks) * (1 if isinstance(request.text, str) else len(request.text))
    if items > limit:
        raise InvalidItem(f"{items} answers, texts by tasks; at most {limit}", field="text", code="batch_too_large")


async def _cells(
    server: Server, request: ParseItem, texts: Sequence[str], models: Mapping[str, type[Item]]
) -> list[list[bytes]]:
    """By task, the answer or error of each text as JSON. All are asked together, as one request's turn."""
    turn = Turn()

    async def one(name: str, index: int) -> bytes:
        item = models[name](text=texts[index], offset_unit=request.offset_unit, timeout_ms=request.timeout_ms)  # type: ignore[call-arg]
        try:
            return to_json((await server.answer(name, item, turn)).answer)
        except ServiceError as error:
            # Whatever a family calls its fields, the culprit here is the text.
            path = "text" if isinstance(request.text, str) else f"text.{index}"
            return to_json({"error": error.body() | {"field": path}})

    columns: list[list[asyncio.Task[bytes]]] = [[] for _ in request.tasks]
    async with asyncio.TaskGroup() as group:  # a client that leaves takes all of its items with it
        for i in range(len(texts)):
            for name, column in zip(request.tasks, columns, strict=True):
                column.append(group.create_task(one(name, i)))
            if i % STEP == STEP - 1:
                await asyncio.sleep(0)
    return [[task.result() for task in column] for column in columns]


def description(manifests: Mapping[str, Manifest]) -> tuple[str, Any, Any, Any, Any] | None:
    """For OpenAPI: summary, schemas of the request and its answer, and one of each; None where no model has one."""
    fit = {name: manifest for name, manifest in manifests.items() if takes_text(manifest.family)}
    shown = [(name, golden) for name, manifest in fit.items() for golden in manifest.golden if "text" in golden.item]
    if not shown:
        return None
    # One without options, if there is any: it gives the very answer.
    name, golden = min(shown, key=lambda one: len(one[1].item))
    outputs = sorted({FAMILIES[manifest.family].Output.__name__ for manifest in fit.values()})
    cell = {"anyOf": [{"$ref": f"#/components/schemas/{schema}"} for schema in (*outputs, "Error")]}
    return (
        "several models over the same texts: a document keyed by task",
        ParseItem.model_json_schema(),
        {"type": "object", "additionalProperties": {"anyOf": [cell, {"type": "array", "items": cell}]}},
        {"text": golden.item["text"], "tasks": [name]},
        {name: golden.answer},
    )
