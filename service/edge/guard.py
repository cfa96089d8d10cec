"""At the door, where keys are configured: who brings none, may not do this or comes too often is told so at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping
from time import monotonic

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access import CALLER, Key, Keys, named
from service.edge import signin
from service.edge.gate import PROBES
from service.edge.http import Style, error_response
from service.errors import Forbidden, InternalError, ServiceError, Unauthorized, without_message
from service.observability.exchange import failed, keyed

log = logging.getLogger("bentoml.clueserve")

METRICS = "/metrics"
OPEN = PROBES - {METRICS} | {signin.PATH}
"""What needs no key: probes, which say nothing but yes or no, and where a browser's user gives one."""
HEALTH = "/health"
"""Open without a query, which would name a model."""
ADMIN = ("/v2/repository/",)
"""What begins like this changes what is served."""


class Guard:
    """ASGI middleware in front of `Edge`. `models` are the names that are served, of which a key may have only some.

    A path with such a name in it is about that model, whatever the protocol; what a body or a query names is checked
    where it is known, against the same `CALLER`.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        models: Container[str],
        styles: Mapping[str, Style],
        refused: Callable[[str], None],
        used: Callable[[str, str], None],
    ) -> None:
        self.app = app
        self.keys = keys
        self.models = models
        self.styles = styles
        self.refused = refused
        self.used = used

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or is_open(scope):
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            key = self._admit(scope)
        except ServiceError as error:
            await self._refuse(error, scope)(scope, receive, send)
            return
        except Exception as error:
            log.error("a key could not be checked\n%s", without_message(error))  # nor the path, which is a stranger's
            await self._refuse(InternalError("the server failed on this request"), scope)(scope, receive, send)
            return
        token = CALLER.set(key)
        try:
            await self.app(scope, receive, send)
        finally:
            CALLER.reset(token)

    def _refuse(self, error: ServiceError, scope: Scope) -> Response:
        self.refused(error.reason)
        failed(error.reason)
        if error.status == 401 and signin.shown(scope):
            return signin.page()
        return self.styles.get(scope["path"][1:].partition("/")[0], error_response)(error)

    def _admit(self, scope: Scope) -> Key:
        """The key that a request came with; a ServiceError if it came with none that may do this now."""
        presented, typed = credentials(scope)
        key = self.keys.find(presented)
        keyed(key.id)
        try:
            key.spend(monotonic())
            self._check(key, scope["path"], typed)
        except ServiceError as error:
            self.used(key.id, error.reason)
            raise
        self.used(key.id, "admitted")
        return key

    def _check(self, key: Key, path: str, typed: bool) -> None:
        role = key.entry.role
        if path.startswith(ADMIN) and not (role == "admin" and typed):
            raise Forbidden("this needs the key of an administrator, in a header")
        if role == "metrics" and path != METRICS:
            raise Forbidden("this key reads /metrics and nothing else")
        if role == "caller" and path == METRICS:
            raise Forbidden("this key asks models; /metrics needs a key with the role `metrics`")
        if key.bundles is not None:
            for name in named(path, self.models):
                key.require(name)


def is_open(scope: Scope) -> bool:
    path = scope.get("path")
    return path in OPEN or (path == HEALTH and not scope["query_string"])


def credentials(scope: Scope) -> tuple[str, bool]:
    """What may be a key, and whether the caller wrote it itself: a browser sends its cookie unasked.

    `Authorization: Bearer` goes before `X-API-Key`, and both before the cookie. Unauthorized if there is none.
    """
    bearer = header = cookie = b""
    own = True
    for name, value in scope["headers"]:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            bearer = value[7:].strip()
        elif name == b"x-api-key":
            header = value
        elif name == b"cookie":
            cookie = signin.read(value) or cookie  # proxies may leave cookies in several headers
        elif name == b"sec-fetch-site":
            own = value in signin.OWN
    typed = bearer or header
    found = typed or (cookie if own else b"")
    if not found:
        raise Unauthorized("send a key as `Authorization: Bearer KEY` or `X-API-Key: KEY`")
    return found.decode("latin-1"), bool(typed)
