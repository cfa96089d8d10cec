"""The edge: which paths exist, how large a body may be, what a bad one is told, and that who left is not served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import (
    ClientLeft,
    InvalidItem,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    ServiceError,
    TooLarge,
    UnsupportedMedia,
)

Model = TypeVar("Model", bound=BaseModel)

# Above this size a body is parsed beside the event loop.
OFF_LOOP_BYTES = 64 * 1024
CODES = {"missing": "missing_field", "extra_forbidden": "unknown_field"}
MESSAGES = {"model_type": "Input should be an object"}


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(content), status, dict(headers or {}), "application/json")


def error_response(error: ServiceError) -> Response:
    return json_response({"error": error.body()}, error.status, error.headers())


def explain(error: ValidationError) -> ServiceError:
    """The first problem of a body as our error: 400 if it is not JSON, 422 with the field's path otherwise."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return InvalidRequest(first["msg"])
    path = ".".join(map(str, first["loc"]))
    return InvalidItem(
        MESSAGES.get(first["type"], first["msg"]), field=path or None, code=CODES.get(first["type"], "invalid_value")
    )


async def parse(model: type[Model], request: Request) -> Model:
    """The body as a `model`; ServiceError says what is wrong with it."""
    media = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media != "application/json":
        raise UnsupportedMedia(f"send the body as application/json, not {media}")
    body = await request.body()
    try:
        if len(body) > OFF_LOOP_BYTES:
            return await asyncio.to_thread(model.model_validate_json, body)
        return model.model_validate_json(body)
    except ValidationError as error:
        raise explain(error) from None


class Edge:
    """ASGI middleware in front of every route.

    `routes` maps each path to its method. Bodies are read whole before anything is started; when the client leaves,
    the request's task is cancelled, which takes its items out of the queues.
    """

    def __init__(self, app: ASGIApp, routes: Mapping[str, str], max_body: int, refused: Callable[[str], None]) -> None:
        self.app = app
        self.routes = routes
        self.max_body = max_body
        self.refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            self._route(scope)
            body = await self._body(scope, receive)
        except ServiceError as error:
            self.refused(error.reason)
            await error_response(error)(scope, receive, send)
            return
        if body is None or not await self._while_connected(scope, body, receive, send):
            # Nobody reads it, but the layers around us wait until something was sent.
            await error_response(ClientLeft("the client left"))(scope, receive, send)

    def _route(self, scope: Scope) -> None:
        path, method = scope["path"], scope["method"]
        allowed = self.routes.get(path)
        if allowed is None:
            raise NotFound("there is nothing at this path; GET /v1/models lists the models")
        if method != allowed and not (method == "HEAD" and allowed == "GET"):
            raise MethodNotAllowed(f"use {allowed}", allowed)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body, or None if the client left while sending it."""
        declared = dict(scope["headers"]).get(b"content-length", b"")
        size = int(declared) if declared.isdigit() else 0
        body = bytearray()
        more = True
        while more and size <= self.max_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            size = max(size, len(body))
            more = message.get("more_body", False)
        if size <= self.max_body:
            return bytes(body)
        raise TooLarge(f"the body is larger than {self.max_body} bytes")

    async def _while_connected(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> bool:
        """Run the app; False if the client left before it had answered."""
        task = asyncio.current_task()
        assert task is not None
        left = replayed = answered = False

        async def replay() -> Message:
            nonlocal replayed
            if not replayed:
                replayed = True
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        async def passing(message: Message) -> None:
            nonlocal answered
            answered = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        async def watch() -> None:
            nonlocal left
            while (await receive())["type"] != "http.disconnect":
                pass
            # The server also says "disconnect" once an answer is out.
            if not answered:
                left = True
                task.cancel()

        watcher = asyncio.create_task(watch())
        try:
            await self.app(scope, replay, passing)
        except asyncio.CancelledError:
            if not left:
                raise
            task.uncancel()
        finally:
            watcher.cancel()
        return not left
