"""The edge: which paths exist, how large a body may be, what a bad one is told, and that who left is not served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import (
    ClientLeft,
    InternalError,
    InvalidItem,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    ServiceError,
    TooLarge,
    UnsupportedMedia,
    without_message,
)

log = logging.getLogger("bentoml.clueserve")

Model = TypeVar("Model", bound=BaseModel)

Handler = Callable[[bytes], Awaitable[Response]]
"""Answers one request from its body."""

JSON = b"application/json"

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


async def parse(model: type[Model], body: bytes) -> Model:
    """The body as a `model`; ServiceError says what is wrong with it."""
    try:
        if len(body) > OFF_LOOP_BYTES:
            return await asyncio.to_thread(model.model_validate_json, body)
        return model.model_validate_json(body)
    except ValidationError as error:
        raise explain(error) from None


class Edge:
    """ASGI middleware in front of every route.

    `handlers` answer POSTs, each at its path, from a whole body; BentoML's own routing costs half as much as all of
    ours. When the client leaves, the handler is cancelled, which takes its items out of the queues. `pages` are the
    paths of the app behind, which only answers GET.
    """

    def __init__(
        self,
        app: ASGIApp,
        handlers: Mapping[str, Handler],
        pages: Collection[str],
        max_body: int,
        refused: Callable[[str], None],
    ) -> None:
        self.app = app
        self.handlers = handlers
        self.pages = pages
        self.max_body = max_body
        self.refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            handler = self._route(scope)
            if handler is None:
                await self.app(scope, receive, send)
                return
            response = await self._post(handler, scope, receive)
        except ClientLeft as error:
            # Nobody reads it, but the layers around us wait until something was sent.
            response = error_response(error)
        except ServiceError as error:
            self.refused(error.reason)
            response = error_response(error)
        await response(scope, receive, send)

    def _route(self, scope: Scope) -> Handler | None:
        """What answers this request; None is the app behind."""
        path, method = scope["path"], scope["method"]
        if handler := self.handlers.get(path):
            if method != "POST":
                raise MethodNotAllowed("use POST", "POST")
            return handler
        if path not in self.pages:
            raise NotFound("there is nothing at this path; GET /v1/models lists the models")
        if method not in {"GET", "HEAD"}:
            raise MethodNotAllowed("use GET", "GET")
        return None

    async def _post(self, handler: Handler, scope: Scope, receive: Receive) -> Response:
        headers = dict(scope["headers"])
        media = headers.get(b"content-type", JSON).partition(b";")[0].strip().lower()
        if media != JSON:
            raise UnsupportedMedia(f"send the body as application/json, not {media.decode('latin-1')}")
        body = await self._body(headers.get(b"content-length", b""), receive)
        task = asyncio.current_task()
        assert task is not None
        left = False

        async def watch() -> None:
            nonlocal left
            while (await receive())["type"] != "http.disconnect":
                pass
            left = True
            task.cancel()

        watcher = asyncio.create_task(watch())
        try:
            return await handler(body)
        except asyncio.CancelledError:
            if not left:
                raise
            task.uncancel()
            raise ClientLeft("the client left") from None
        except Exception as error:
            log.error("%s: a request failed\n%s", scope["path"], without_message(error))
            return error_response(InternalError("the server failed on this request"))
        finally:
            # The connection may carry another request, which must not be ended by who watched over this one.
            watcher.cancel()

    async def _body(self, declared: bytes, receive: Receive) -> bytes:
        """The whole body; ClientLeft if it does not come."""
        size = int(declared) if declared.isdigit() else 0
        body = bytearray()
        more = True
        while more and size <= self.max_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft("the client left")
            body += message.get("body", b"")
            size = max(size, len(body))
            more = message.get("more_body", False)
        if size > self.max_body:
            raise TooLarge(f"the body is larger than {self.max_body} bytes")
        return bytes(body)
