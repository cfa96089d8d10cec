"""What the protocols' paths have in common in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from service.server import Server

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}, "error_type": {"type": "string"}},
}
STATUSES = {
    "400": "the body is not JSON",
    "401": "no key, where the server wants one",
    "403": "the key may not ask this model",
    "404": "there is no such model",
    "413": "the body is too large",
    "415": "the body is of another media type",
    "422": "an item cannot be answered, or a parameter not honoured; the message begins with its path",
    "429": "the predicted wait is too long; see Retry-After",
    "503": "not ready: loading, failed to load, or shutting down",
    "504": "the deadline passed",
}


def named(server: Server, place: str = "path", *more: str) -> list[dict[str, Any]]:
    """For OpenAPI: the parameters of an operation for any model."""
    model = {"name": "model", "in": place, "required": place == "path"}
    listed = [model | {"schema": {"type": "string", "enum": sorted(server.bundles)}}]
    return listed + [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in more]


def answered(
    summary: str,
    parameters: Sequence[dict[str, Any]] = (),
    request: type[BaseModel] | None = None,
    example: Any = None,
    statuses: Mapping[str, str] = STATUSES,
    empty: bool = False,
) -> dict[str, Any]:
    """For OpenAPI: an operation that answers JSON, or nothing if `empty`, and refuses in one of the `statuses`."""
    content: dict[str, Any] = {} if empty else {"content": {"application/json": {"schema": {}}}}
    failed = {"application/json": {"schema": ERROR}}
    codes = statuses if request else {status: statuses[status] for status in ("404", "422", "503")}
    found: dict[str, Any] = {
        "summary": summary,
        "parameters": list(parameters),
        "responses": {
            "200": {"description": "answered", **content},
            **{status: {"description": text, "content": failed} for status, text in codes.items()},
        },
    }
    if request:
        body = {"schema": inlined(request.model_json_schema()), "example": example}
        found["requestBody"] = {"required": True, "content": {"application/json": body}}
    return found


def inlined(schema: dict[str, Any]) -> Any:
    """A schema with its definitions where they are referred to: in a document it is not at the root."""
    definitions = schema.get("$defs", {})

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(one) for one in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return walk(definitions[node["$ref"].rpartition("/")[2]])
        return {name: walk(value) for name, value in node.items() if name != "$defs"}

    return walk(schema)
