"""The BentoML service: one API a bundle and one for its batches, around the runners.

`bentoml serve service.app:NLU`. Importing this module reads the settings and the bundles' manifests, so that a wrong
setting ends the start at once; graphs are loaded by each worker in the background, while /livez already answers.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from time import perf_counter
from typing import Any

import bentoml
from _bentoml_sdk.io_models import IOMixin
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from service import openapi
from service.bundle import Bundle
from service.config import Settings, find_bundles, load_settings, usable_cpus, worker_threads
from service.errors import InvalidItem, NotReady, ServiceError
from service.http import Edge, error_response, explain, json_response, parse
from service.runner import Pool, Result, Runner, open_bundle
from service.session import require_device
from service.tasks import FAMILIES
from service.telemetry import Telemetry, exposition
from service.types import Answer, Timing

log = logging.getLogger("clueserve")


class Batch(BaseModel):
    model_config = ConfigDict(extra="forbid")

    items: list[Any] = Field(min_length=1)


class Server:
    """One worker's state: settings, bundles, and the runners that are loaded so far."""

    def __init__(self, settings: Settings, bundles: dict[str, Bundle]) -> None:
        self.settings = settings
        self.bundles = bundles
        self.runners: dict[str, Runner] = {}
        self.failures: dict[str, str] = {}
        self.draining = False
        self.telemetry: Telemetry
        self.pool: Pool

    def start(self) -> None:
        """Begin loading in the background. Called once, in the worker process."""
        s = self.settings
        processes = int(os.environ.get("BENTOML_API_WORKERS", "1"))
        threads = worker_threads(s, usable_cpus(), processes)
        log.info("device %s, %d worker threads, 1 thread a graph run", s.device, threads)
        self.telemetry = Telemetry()
        self.pool = Pool(threads, max_wait=s.max_wait_ms / 1000, take=s.take_ms / 1000)
        threading.Thread(target=self._load, args=(threads,), name="loader", daemon=True).start()

    def _load(self, threads: int) -> None:
        start = perf_counter()
        with ThreadPoolExecutor(threads, thread_name_prefix="load") as executor:
            list(executor.map(self._load_one, self.bundles))
        # What is loaded stays: the collector need not look at it again while requests wait.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        log.info("%d of %d bundles ready after %.1f s", len(self.runners), len(self.bundles), perf_counter() - start)

    def _load_one(self, name: str) -> None:
        bundle = self.bundles[name]
        try:
            task, session = open_bundle(bundle, self.settings.device, self.telemetry.runs(name))
        except Exception as error:
            log.exception("%s is not served", name)
            self.failures[name] = str(error)
            return
        self.runners[name] = Runner(task, session, self.pool, self.telemetry.depth(name))
        self.telemetry.ready(name, bundle.manifest, self.settings.device)

    def ready(self) -> None:
        """Returns if every bundle passed its golden records; NotReady says which did not."""
        if self.draining:
            raise NotReady("draining")
        if self.failures:
            raise NotReady("; ".join(f"{name}: {why}" for name, why in sorted(self.failures.items())))
        if len(self.runners) < len(self.bundles):
            raise NotReady("loading " + ", ".join(sorted(self.bundles.keys() - self.runners.keys())))

    async def answer(self, name: str, item: Any) -> Result:
        """Answer one validated item, counting how it ended."""
        outcome = "error"
        try:
            runner = self.runners.get(name)
            if runner is None:
                raise NotReady(f"{name} is not loaded")
            for path, text in runner.task.texts(item):
                if len(text) > self.settings.max_text_chars:
                    limit = self.settings.max_text_chars
                    raise InvalidItem(f"the text has more than {limit} characters", field=path, code="text_too_long")
            result = await runner.submit(item, (item.timeout_ms or self.settings.timeout_ms) / 1000)
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except ServiceError as error:
            outcome = error.code
            raise
        else:
            outcome = "ok"
            self.telemetry.answered(name, result.timing)
            return result
        finally:
            if outcome != "ok":
                self.telemetry.outcome(name, outcome)

    def close(self) -> None:
        self.draining = True
        self.pool.close()


def timing_headers(timing: Timing) -> dict[str, str]:
    return {
        "X-Queue-Ms": f"{timing.queue * 1000:.2f}",
        "X-Tokenize-Ms": f"{timing.tokenize * 1000:.2f}",
        "X-Inference-Ms": f"{timing.inference * 1000:.2f}",
        "X-Batch-Rows": str(timing.rows),
    }


def one_endpoint(server: Server, name: str, model: type[BaseModel]) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        try:
            item = await parse(model, request)
        except ServiceError as error:
            server.telemetry.outcome(name, error.code)
            return error_response(error)
        try:
            result = await server.answer(name, item)
        except ServiceError as error:
            return error_response(error)
        return json_response(result.answer, headers=timing_headers(result.timing))

    return handle


def batch_endpoint(server: Server, name: str, model: type[BaseModel]) -> Callable[[Request], Awaitable[Response]]:
    adapter = TypeAdapter(model)

    async def one(index: int, raw: Any) -> Answer:
        try:
            return (await server.answer(name, adapter.validate_python(raw))).answer
        except ValidationError as error:
            problem = explain(error)
            server.telemetry.outcome(name, problem.code)
        except ServiceError as error:
            problem = error
        return {"error": problem.body() | {"field": f"items.{index}" + (f".{problem.field}" if problem.field else "")}}

    async def handle(request: Request) -> Response:
        try:
            batch = await parse(Batch, request)
            limit = server.settings.max_batch_items
            if len(batch.items) > limit:
                raise InvalidItem(f"{len(batch.items)} items; at most {limit}", field="items", code="batch_too_large")
        except ServiceError as error:
            server.telemetry.outcome(name, error.code)
            return error_response(error)
        results = await asyncio.gather(*(one(i, raw) for i, raw in enumerate(batch.items)))
        return json_response({"results": results})

    return handle


def api(name: str, route: str, model: type[BaseModel], output: type[BaseModel], handle: Callable[[Request], Awaitable[Response]]) -> Any:
    """A BentoML API whose body we read ourselves: BentoML's own 4xx do not name the field, and build a schema an answer.

    Its request and answer models are still what BentoML's clients see in /schema.json.
    """

    class Body(IOMixin, model):  # type: ignore[misc, valid-type]
        __root_input__ = True

        @classmethod
        async def from_http_request(cls, request: Request, serde: Any) -> Any:
            return request

    Body.__name__ = f"{model.__name__}Body"

    async def call(self: Any, request: Request, /) -> Response:
        return await handle(request)

    call.__name__ = name
    call.__doc__ = model.__doc__
    answer = type(f"{output.__name__}Body", (IOMixin, output), {"media_type": "application/json"})
    return bentoml.api(route=route, name=name, input_spec=Body, output_spec=answer)(call)


def build_service(settings: Settings, bundles: dict[str, Bundle]) -> Any:
    """The service class for these bundles."""
    server = Server(settings, bundles)
    apis: dict[str, Any] = {}
    routes = {path: "GET" for path in ("/", "/livez", "/healthz", "/readyz", "/metrics", "/docs.json", "/schema.json", "/v1/models")}
    for name, bundle in bundles.items():
        task = FAMILIES[bundle.manifest.family]
        method = "".join(c if c.isalnum() else "_" for c in name)
        apis[method] = api(method, f"/{name}", task.Input, task.Output, one_endpoint(server, name, task.Input))
        apis[f"{method}_batch"] = api(f"{method}_batch", f"/{name}/batch", Batch, Batch, batch_endpoint(server, name, task.Input))
        routes |= {f"/{name}": "POST", f"/{name}/batch": "POST"}

    def start(self: Any) -> None:
        server.start()

    async def is_ready(self: Any) -> bool:
        try:
            server.ready()
        except NotReady as error:
            raise HTTPException(503, error.message) from None
        return True

    @bentoml.on_shutdown
    async def drain(self: Any) -> None:
        await asyncio.to_thread(server.close)

    cls = type("NLU", (), {**apis, "__init__": start, "__is_ready__": is_ready, "drain": drain, "__doc__": __doc__})
    service = bentoml.service(
        name="clueserve",
        # Our own metrics replace BentoML's, whose endpoint label is whatever path a stranger asks for.
        metrics={"enabled": False},
        logging={"access": {"enabled": False}},
        tracing={"excluded_urls": ".*"},
        traffic={"timeout": 3600},
    )(cls)
    service.add_asgi_middleware(Edge, routes=routes, max_body=settings.max_body_bytes, refused=lambda reason: server.telemetry.refused(reason))
    service.mount_asgi_app(pages(server), path="/")
    return service


def pages(server: Server) -> Starlette:
    """What is read rather than asked: the list of models, the OpenAPI document, the metrics, the start page."""
    manifests = {name: bundle.manifest for name, bundle in server.bundles.items()}
    document = openapi.document(FAMILIES, manifests, version("clueserve"))

    def entries() -> list[dict[str, Any]]:
        return [openapi.describe(n, r.task if (r := server.runners.get(n)) else None, m) for n, m in manifests.items()]

    async def models(_: Request) -> Response:
        return json_response({"models": entries()})

    async def docs(_: Request) -> Response:
        return json_response(document)

    async def index(_: Request) -> Response:
        return HTMLResponse(openapi.page(entries()))

    async def metrics(_: Request) -> Response:
        content, media_type = await asyncio.to_thread(exposition)
        return Response(content, media_type=media_type)

    endpoints = {"/v1/models": models, "/docs.json": docs, "/metrics": metrics, "/": index}
    return Starlette(routes=[Route(path, endpoint) for path, endpoint in endpoints.items()])


def create() -> Any:
    """Settings and bundles -> service; ends the process's start with one clear line if something cannot be served."""
    settings = load_settings()
    require_device(settings.device)
    bundles = find_bundles(settings)
    for bundle in bundles.values():
        if bundle.manifest.family not in FAMILIES:
            raise SystemExit(f"{bundle.folder}: unknown family {bundle.manifest.family}")
    return build_service(settings, bundles)


NLU = create()
