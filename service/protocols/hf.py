"""Hugging Face's Inference API: `POST /models/<name>` with `inputs` and `parameters`, as its clients send them.

`inputs` is an item or a list of items, an item a text or the fields of a native request. A list gets a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service.batching.runner import Result
from service.edge.body import parse
from service.edge.endpoints import timing_headers
from service.edge.http import Asked, Endpoint, Style, json_response
from service.errors import InvalidItem, ServiceError
from service.protocols.common import Ask, Model, Reader, Writer, models, spelled, together
from service.protocols.described import answered, named
from service.protocols.pipelines import form
from service.protocols.zero_shot import zero_shot
from service.server import Server

# Clients before this version read zero-shot classes as two lists.
LISTS_SINCE = (1, 1, 5)
CLIENT = re.compile(r"hf_hub/(\d{1,4})\.(\d{1,4})\.(\d{1,4})")


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    inputs: Any = Field(description="an item or a list of them: a text, or the fields of a native request")
    parameters: dict[str, Any] | None = Field(None, description="those of the family; others are refused")


def routes(server: Server) -> dict[str, dict[str, Endpoint]]:
    return {f"/models/{m.name}": {"POST": Endpoint(m.handler(reader(m)))} for m in models(server)}


def reader(model: Model) -> Reader:
    async def read(asked: Asked) -> tuple[Sequence[Ask], Writer]:
        request = await parse(Request, asked.body)
        given = {name: value for name, value in (request.parameters or {}).items() if value is not None}
        zero = "candidate_labels" in given
        shape = zero_shot(model, given, older=is_older(asked)) if zero else form(model, given)
        many = isinstance(request.inputs, list)
        if many and not request.inputs:
            raise InvalidItem("give at least one item", field="inputs")
        count = len(request.inputs) if many else 1
        model.limit(count if count > model.server.settings.max_batch_items else count * shape.each, "inputs")
        items = (
            [(item, f"inputs.{i}") for i, item in enumerate(request.inputs)] if many else [(request.inputs, "inputs")]
        )
        groups = [shape.asks(item, path) for item, path in items]
        asks = [ask for group in groups for ask in group]

        def write(results: Sequence[Result]) -> Response:
            rest = iter(results)
            written = [shape.written([next(rest).answer for _ in group]) for group in groups]
            content = written if many or shape.nested else written[0]
            return json_response(content, headers=timing_headers(together(results)))

        return asks, write

    return read


def is_older(asked: Asked) -> bool:
    version = CLIENT.search(asked.header("user-agent") or "")
    return version is not None and tuple(map(int, version.groups())) < LISTS_SINCE


def style(error: ServiceError) -> Response:
    return json_response({"error": spelled(error), "error_type": error.reason}, error.status, error.headers())


STYLES: dict[str, Style] = {"models": style}


def paths(server: Server) -> dict[str, Any]:
    operation = answered("Hugging Face's Inference API", named(server), Request, {"inputs": "..."})
    return {"/models/{model}": {"post": operation}}
