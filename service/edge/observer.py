"""Around the whole of HTTP: gives a request its id, counts it, and once it is answered traces and logs it."""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.edge.gate import PROBES
from service.observability.exchange import CURRENT, Exchange
from service.observability.logs import request_line
from service.server import Server

OTHER = "other"
"""The route of all that is at no path of ours."""


class Observer:
    """ASGI middleware outside of `Edge`.

    `routes` and `behind` are the paths that exist. A route is a path with `{model}` and `{version}` in the place of
    theirs, so that there are few, whatever strangers ask for. Probes and scrapes are counted, not logged or traced.
    """

    def __init__(self, app: ASGIApp, server: Server, routes: Collection[str], behind: Collection[str]) -> None:
        self.app = app
        self.server = server
        self.routes = routes
        self.behind = behind
        self.quiet = PROBES
        self._known: dict[str, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        wished = parent = None
        for name, value in scope["headers"]:
            if name == b"x-request-id":
                wished = value
            elif name == b"traceparent":
                parent = value
        exchange = Exchange(scope["method"], self._route(scope["path"]), wished)

        telemetry = self.server.telemetry
        telemetry.in_flight.inc()
        begun = False

        def count() -> None:
            nonlocal begun
            begun = True
            telemetry.in_flight.dec()
            telemetry.responded(exchange.route, exchange.status, monotonic() - exchange.start)

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", exchange.id)]
                count()  # before its caller can know, so that whoever has an answer finds it counted
            await send(message)

        token = CURRENT.set(exchange)
        try:
            await self.app(scope, receive, watched)
        finally:
            CURRENT.reset(token)
            if not begun:
                count()
            if exchange.route not in self.quiet:
                tracer = self.server.tracer
                trace_id = tracer.finish(exchange, parent) if tracer else None
                request_line(exchange, trace_id, self.server.settings.log_requests)

    def _route(self, path: str) -> str:
        route = self._known.get(path)
        if route is None:
            if path not in self.routes and path not in self.behind:
                return OTHER
            route = self._known[path] = self._template(path)
        return route

    def _template(self, path: str) -> str:
        parts = path.split("/")
        if parts[1] == "assets":
            return "/assets/{file}"
        for i, part in enumerate(parts):
            if part in self.server.bundles:
                parts[i] = "{model}"
            elif i and parts[i - 1] == "versions":
                parts[i] = "{version}"
        return "/".join(parts)
