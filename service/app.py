"""The BentoML service: one API a bundle and one for its batches, around the runners.

`bentoml serve service.app:NLU`. Importing this module reads the settings and the bundles' manifests, so that a wrong
setting ends the start at once; graphs are loaded by each worker in the background, while /livez already answers.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import bentoml
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from service import __version__, openapi
from service.config import find_bundles, load_settings
from service.device import require_device
from service.endpoints import Batch, Results, api, batch_endpoint, one_endpoint
from service.errors import BundleError, ConfigError, NotReady
from service.http import Asked, Edge, Endpoint, Handler, json_response
from service.loading import open_graph
from service.server import Server
from service.tasks import FAMILIES, family
from service.telemetry import exposition

# Nothing about what is served leaves the machine.
os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")

# Seconds that an answer may take to be sent after its deadline.
GRACE = 5

# Answered by BentoML.
BEHIND = ("/livez", "/healthz", "/readyz", "/schema.json")


def build_service(server: Server) -> Any:
    """The service class for a server's bundles."""
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

    def start(self: Any) -> None:
        server.start()

    async def is_ready(self: Any) -> bool:
        try:
            server.ready()
        except NotReady as error:
            raise HTTPException(503, error.message) from None
        return True

    @bentoml.on_shutdown  # type: ignore[untyped-decorator]
    async def drain(self: Any) -> None:
        await asyncio.to_thread(server.close)

    cls = type("NLU", (), {**apis, "__init__": start, "__is_ready__": is_ready, "_drain": drain, "__doc__": __doc__})
    service = bentoml.service(
        name="clueserve",
        workers=settings.workers,
        # Our own metrics replace BentoML's, whose endpoint label is whatever path a stranger asks for.
        metrics={"enabled": False},
        logging={"access": {"enabled": False}},
        tracing={"excluded_urls": ".*"},
        # A request ends by our own deadline. BentoML keeps a timer a request for this long, answered or not.
        traffic={"timeout": settings.timeout_ms / 1000 + GRACE},
    )(cls)
    service.add_asgi_middleware(
        Edge, routes=routes, behind=BEHIND, styles={}, max_body=settings.max_body_bytes, refused=server.refused
    )
    return service


def pages(server: Server) -> dict[str, Handler]:
    """What is read rather than asked: the list of models, the OpenAPI document, the metrics, the start page."""
    manifests = {name: bundle.manifest for name, bundle in server.bundles.items()}
    document = openapi.document(FAMILIES, manifests, __version__)

    def entries() -> list[dict[str, Any]]:
        bundles = server.bundles.items()
        return [openapi.describe(n, r.task if (r := server.runners.get(n)) else None, b) for n, b in bundles]

    async def models(_: Asked) -> Response:
        return json_response({"models": entries()})

    async def docs(_: Asked) -> Response:
        return json_response(document)

    async def index(asked: Asked) -> Response:
        return HTMLResponse(openapi.page(entries(), asked.header("host") or "localhost"))

    async def metrics(_: Asked) -> Response:
        content, media_type = await asyncio.to_thread(exposition)
        return Response(content, media_type=media_type)

    return {"/v1/models": models, "/docs.json": docs, "/metrics": metrics, "/": index}


def create() -> Any:
    """Settings and bundles -> service. What cannot be served ends the process with one line that says why."""
    try:
        settings = load_settings()
        require_device(settings.device)
        bundles = find_bundles(settings)
        if settings.device != "cpu":
            # A wheel with CUDA says nothing of the machine: only a session that starts there does.
            open_graph(next(iter(bundles.values())).parts[0], settings.device)
        return build_service(Server(settings, bundles))
    except BundleError as error:
        raise SystemExit(f"clueserve cannot start: {error}") from None


NLU = create()
