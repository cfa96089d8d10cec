"""The BentoML service: one API a bundle and one for its batches, around the runners.

`bentoml serve service.app:NLU`. Importing this module reads the settings and the bundles' manifests, so that a wrong
setting ends the start at once; graphs are loaded by each worker in the background, while /livez already answers.
"""

from __future__ import annotations

import asyncio
import os
from functools import lru_cache
from typing import Any

import bentoml
from bentoml._internal.utils.analytics import usage_stats
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from service import __version__, playground
from service.access import Keys, may_ask
from service.config import find_bundles, find_models, find_served, load_settings
from service.edge import admin, cors, openapi, parse, signin
from service.edge.endpoints import Batch, Results, api, batch_endpoint, one_endpoint
from service.edge.guard import Guard
from service.edge.http import Asked, Edge, Endpoint, Handler, Style, json_response
from service.edge.observer import Observer
from service.errors import BundleError, ConfigError, NotReady
from service.graph.device import require_device
from service.loading import open_graph
from service.observability import logs, tracing
from service.observability.telemetry import exposition
from service.process.board import Board
from service.process.lifecycle import Lifecycle
from service.process.supervisor import allow_files, supervise
from service.protocols import hf, oip, tei
from service.server import Server
from service.tasks import FAMILIES, family

# Nothing about what is served leaves the machine. BentoML's command has looked before it came to us, and remembers.
os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")
usage_stats.do_not_track.cache_clear()

# Seconds that an answer may take to be sent after its deadline.
GRACE = 5

# Answered by BentoML.
BEHIND = ("/livez", "/healthz", "/readyz")

PROTOCOLS = (hf, oip, tei)


def build_service(server: Server, keys: Keys | None = None) -> Any:
    """The service class for a server's bundles; with `keys`, for who has one of them."""
    settings, bundles = server.settings, server.bundles
    apis: dict[str, Any] = {}
    routes: dict[str, dict[str, Endpoint]] = {path: {"GET": Endpoint(page)} for path, page in pages(server).items()}
    for name, bundle in bundles.items():
        task = family(bundle)
        method = "".join(c if c.isalnum() else "_" for c in name)
        if not apis.keys().isdisjoint({method, f"{method}_batch"}):
            raise ConfigError(f"{name!r} and another model would both be called {method} by clients; choose an alias")
        one, many = one_endpoint(server, name, task.Input), batch_endpoint(server, name, task.Input)
        routes[f"/{name}"] = {"POST": Endpoint(one)}
        routes[f"/{name}/batch"] = {"POST": Endpoint(many)}
        apis[method] = api(method, f"/{name}", task.Input, task.Output, one)
        apis[f"{method}_batch"] = api(f"{method}_batch", f"/{name}/batch", Batch, Results, many)
    routes |= parse.routes(server)
    styles: dict[str, Style] = {}
    for protocol in PROTOCOLS:
        routes |= protocol.routes(server)
        styles |= protocol.STYLES
    routes |= playground.routes()

    async def schema(_: Asked) -> Response:
        return json_response(openapi.calls(service.schema(), server.bundles, may_ask))

    routes["/schema.json"] = {"GET": Endpoint(schema)}
    if keys:
        routes |= signin.routes(keys)
    if server.board is not None and (keys or settings.admin):
        routes |= admin.routes(server, server.board)
    cls = type("NLU", (), {**apis, **hooks(server), "__doc__": __doc__})
    service = bentoml.service(
        name="clueserve",
        workers=settings.workers,
        # Our own metrics replace BentoML's, whose endpoint label is whatever path a stranger asks for.
        metrics={"enabled": False},
        logging={"access": {"enabled": False}},
        tracing={"excluded_urls": ".*"},
        # A request ends by our own limits: its body has come by the one and is answered by the other. BentoML, whose
        # error has a form of its own, counts both, and keeps a timer a request for this long, answered or not.
        traffic={"timeout": (settings.read_timeout_ms + settings.timeout_ms) / 1000 + GRACE},
    )(cls)
    service.add_asgi_middleware(Observer, server=server, routes=routes, behind=BEHIND)
    if allowed := cors.origins(settings.cors_origins):
        service.add_asgi_middleware(CORSMiddleware, **cors.options(allowed))
    if keys:
        service.add_asgi_middleware(
            Guard, keys=keys, models=bundles, styles=styles, refused=server.refused, used=server.used
        )
    service.add_asgi_middleware(
        Edge,
        routes=routes,
        behind=BEHIND,
        styles=styles,
        max_body=settings.max_body_bytes,
        refused=server.refused,
        read_timeout=settings.read_timeout_ms / 1000,
        gate=server.gate,
    )
    return service


def hooks(server: Server) -> dict[str, Any]:
    """What BentoML calls before there are workers, and as one of them comes and goes."""
    settings, lifecycle = server.settings, Lifecycle(server)

    def deploy() -> None:
        """In the process that is about to start the workers."""
        allow_files(settings.max_connections)
        board = Board.make()
        board.want(find_models(settings))
        board.remember(server.bundles)
        supervise(board, settings.grace_ms / 1000, settings.hang_ms / 1000)

    def start(self: Any) -> None:
        lifecycle.start()

    async def settle(self: Any) -> None:
        await lifecycle.settle()

    async def is_ready(self: Any) -> bool:
        try:
            server.ready()
        except NotReady as error:
            raise HTTPException(503, error.message) from None
        return True

    async def drain(self: Any) -> None:
        await lifecycle.stop()

    return {
        "__init__": start,
        "__is_ready__": is_ready,
        "_deploy": bentoml.on_deployment(deploy),
        "_settle": bentoml.on_startup(settle),
        "_drain": bentoml.on_shutdown(drain),
    }


def pages(server: Server) -> dict[str, Handler]:
    """What is read rather than asked: the list of models, the OpenAPI document, the metrics."""
    manifests = {name: bundle.manifest for name, bundle in server.bundles.items()}
    others = {path: methods for protocol in PROTOCOLS for path, methods in protocol.paths(server).items()}

    @lru_cache(maxsize=32)
    def document(names: frozenset[str]) -> dict[str, Any]:
        """For a caller who may ask these models."""
        some = {name: manifest for name, manifest in manifests.items() if name in names}
        found = openapi.document(FAMILIES, some, __version__, others)
        if server.settings.keys_file:
            openapi.secured(found)
        return found

    document(frozenset(manifests))  # what is wrong with it ends the start

    def entries() -> list[dict[str, Any]]:
        bundles = ((n, b) for n, b in server.bundles.items() if may_ask(n))
        return [openapi.describe(n, None, b) | server.condition(n) for n, b in bundles]

    async def models(_: Asked) -> Response:
        return json_response({"models": entries(), "limits": server.settings.limits()})

    async def docs(_: Asked) -> Response:
        return json_response(document(frozenset(filter(may_ask, manifests))))

    async def metrics(_: Asked) -> Response:
        content, media_type = await asyncio.to_thread(exposition)
        return Response(content, media_type=media_type)

    return {"/v1/models": models, "/docs.json": docs, "/metrics": metrics}


def create() -> Any:
    """Settings and bundles -> service. What cannot be served ends the process with one line that says why."""
    try:
        settings = load_settings()
        logs.configure(settings.log_format)
        if tracing.wanted(os.environ):
            tracing.require_exporter()
        require_device(settings.device)
        board = Board.find()
        bundles = find_served(board) if board else find_bundles(settings)
        if settings.device != "cpu" and not board:
            # A wheel with CUDA says nothing of the machine: only a session that starts there does.
            first = next(iter(bundles.values())).parts[0]
            first.verify()
            open_graph(first, settings.device)
        keys = Keys(settings.keys_file, settings.workers) if settings.keys_file else None
        return build_service(Server(settings, bundles, board), keys)
    except BundleError as error:
        raise SystemExit(f"clueserve cannot start: {error}") from None


NLU = create()
