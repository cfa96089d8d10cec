"""Bodies as what they should hold, and what is said of those that do not."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from service.errors import InvalidItem, InvalidRequest, ServiceError

Model = TypeVar("Model", bound=BaseModel)

# Above this size a body is parsed beside the event loop.
OFF_LOOP_BYTES = 64 * 1024
# Where there are more problems than this none is looked at: a body may have one every three bytes.
MOST_PROBLEMS = 256
CODES = {"missing": "missing_field", "extra_forbidden": "unknown_field"}


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> ServiceError:
    """The first problem of a body as our error: 400 if it is not JSON, 422 with the field's path otherwise.

    `model`: what it should have been.
    """
    if error.error_count() > MOST_PROBLEMS:
        return _crowd()
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return InvalidRequest(first["msg"])
    path = ".".join(map(str, first["loc"]))
    message = first["msg"]
    if first["type"] == "model_type":
        needed = [name for name, field in model.model_fields.items() if field.is_required()] if model else []
        message = "Input should be an object" + (f" with {', '.join(needed)}" if needed and not path else "")
    return InvalidItem(message, field=path or None, code=CODES.get(first["type"], "invalid_value"))


async def parse(model: type[Model], body: bytes) -> Model:
    """The body as a `model`; ServiceError says what is wrong with it."""
    read = await asyncio.to_thread(_read, model, body) if len(body) > OFF_LOOP_BYTES else _read(model, body)
    if isinstance(read, ServiceError):
        raise read
    return read


def _read(model: type[Model], body: bytes) -> Model | ServiceError:
    """Returns an error instead of raising it: that would take what it is made of to the event loop."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        return explain(error, model)


def checked(model: type[Model], value: Any) -> Model:
    """What a body holds as a `model`; InvalidItem says what is wrong with it."""
    if isinstance(value, dict) and len(value) > len(model.model_fields) + MOST_PROBLEMS:
        raise _crowd()
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise explain(error, model) from None


def _crowd() -> InvalidItem:
    return InvalidItem(f"there are more than {MOST_PROBLEMS} problems", code="invalid_value")
