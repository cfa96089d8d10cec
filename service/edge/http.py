"""The edge: which paths exist, how large a body may be, what a bad one is told, and that who left is not served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.edge.gate import Gate, ending
from service.errors import (
    ClientLeft,
    InternalError,
    MethodNotAllowed,
    NotFound,
    RequestTimeout,
    ServiceError,
    TooLarge,
    UnsupportedMedia,
    without_message,
)
from service.observability.exchange import failed

log = logging.getLogger("bentoml.clueserve")

JSON = b"application/json"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its whole body, and what else a handler may read of it."""

    body: bytes = b""
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    query_string: bytes = b""

    def header(self, name: str) -> str | None:
        value = self.headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    def query(self, name: str) -> str | None:
        """The last value of a query parameter."""
        values = parse_qs(self.query_string.decode("latin-1"), keep_blank_values=True).get(name)
        return values[-1] if values else None


Handler = Callable[[Asked], Awaitable[Response]]
"""Answers a request, or raises the ServiceError that refuses it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What answers one method of a path, and the media types that its body may have."""

    answer: Handler
    media: Collection[bytes] = (JSON,)


Routes = Mapping[str, Mapping[str, Endpoint]]
"""Path -> method -> endpoint."""

Style = Callable[[ServiceError], Response]
"""How a protocol writes an error."""


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(content), status, dict(headers or {}), "application/json")


def error_response(error: ServiceError) -> Response:
    return json_response({"error": error.body()}, error.status, error.headers())


class Edge:
    """ASGI middleware in front of BentoML's routes, which cost half as much as all of ours.

    `routes` are answered here, POSTs from a whole body. When the client leaves, the handler is cancelled, which takes
    its items out of the queues. `behind` are the paths of the app behind, which only answers GET. `styles` say how
    errors below a first path segment are written. A body must have come after `read_timeout` seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        routes: Routes,
        behind: Collection[str],
        styles: Mapping[str, Style],
        max_body: int,
        refused: Callable[[str], None],
        read_timeout: float,
        gate: Gate,
    ) -> None:
        self.app = app
        self.routes = routes
        self.behind = behind
        self.styles = styles
        self.max_body = max_body
        self.refused = refused
        self.read_timeout = read_timeout
        self.gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        write = self.styles.get(scope["path"][1:].partition("/")[0], error_response)

        def style(error: ServiceError) -> Response:
            failed(error.reason)
            return write(error)

        with self.gate.inside() as task:
            try:
                response = await self._response(scope, receive, send, style)
            except asyncio.CancelledError:
                if not self.gate.over:
                    raise
                task.uncancel()
                response = style(ending())
            if response is not None:
                await response(scope, receive, send)

    async def _response(self, scope: Scope, receive: Receive, send: Send, style: Style) -> Response | None:
        """What is to be sent; None if the app behind has sent it."""
        try:
            self.gate.check(scope["path"], scope.get("state", {}))
            endpoint = self._route(scope)
            if endpoint is None:
                await self.app(scope, receive, send)
                return None
            asked = await self._asked(endpoint, scope, receive)
        except ClientLeft as error:
            # Nobody reads it, but the layers around us wait until something was sent.
            return style(error)
        except ServiceError as error:
            self.refused(error.reason)
            return style(error)
        try:
            return await _watched(endpoint.answer(asked), receive)
        except ServiceError as error:
            return style(error)
        except Exception as error:
            log.error("%s: a request failed\n%s", scope["path"], without_message(error))
            return style(InternalError("the server failed on this request"))

    def _route(self, scope: Scope) -> Endpoint | None:
        """What answers this request; None is the app behind."""
        path, method = scope["path"], scope["method"]
        known: Mapping[str, Endpoint | None] | None = {"GET": None} if path in self.behind else self.routes.get(path)
        if known is None:
            raise NotFound("there is nothing at this path; GET /v1/models lists the models")
        read = "GET" if method == "HEAD" else method
        if read not in known:
            allow = ", ".join(sorted(known))
            raise MethodNotAllowed(f"use {allow}", allow)
        return known[read]

    async def _asked(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Asked:
        headers = dict(scope["headers"])
        if scope["method"] in {"GET", "HEAD"}:
            return Asked(b"", headers, scope["query_string"])
        media = headers.get(b"content-type", JSON).partition(b";")[0].strip().lower()
        if media not in endpoint.media:
            wanted = " or ".join(m.decode() for m in endpoint.media)
            raise UnsupportedMedia(f"send the body as {wanted}, not {media.decode('latin-1')}")
        try:
            async with asyncio.timeout(self.read_timeout):
                body = await self._body(headers.get(b"content-length", b""), receive)
        except TimeoutError:
            raise RequestTimeout(f"the body did not come within {self.read_timeout:g} s") from None
        return Asked(body, headers, scope["query_string"])

    async def _body(self, declared: bytes, receive: Receive) -> bytes:
        """The whole body; ClientLeft if it does not come."""
        size = int(declared[-20:]) if declared.isdigit() else 0  # what is before that can only be zeros
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


async def _watched(answer: Awaitable[Response], receive: Receive) -> Response:
    """The answer; ClientLeft, with all work for it cancelled, if its client goes away first."""
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
        return await answer
    except asyncio.CancelledError:
        if not left:
            raise
        task.uncancel()
        raise ClientLeft("the client left") from None
    finally:
        # The connection may carry another request, which must not be ended by who watched over this one.
        watcher.cancel()
