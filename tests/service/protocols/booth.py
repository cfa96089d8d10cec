"""Tiny models behind the edge, asked in the words of the protocols: all of a request's way but the socket."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kit import load

from service.batching.pool import Pool
from service.batching.runner import Runner
from service.bundle import Bundle
from service.config import Settings
from service.edge.endpoints import one_endpoint
from service.edge.http import Edge, Endpoint
from service.observability.telemetry import Telemetry
from service.protocols import hf, oip, tei
from service.server import Server


class Counts:
    """What the metrics would say."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.refusals: list[str] = []

    def outcome(self, bundle: str, outcome: str) -> None:
        self.outcomes[bundle, outcome] += 1

    def answered(self, bundle: str, *_: Any) -> None:
        self.outcome(bundle, "ok")

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        return self.status, self.json["error"]


class Booth:
    """One server with one worker thread whose takes are watched and can be held back."""

    def __init__(self, folders: Mapping[str, Path], take: float = 10.0, **settings: Any) -> None:
        self.server = Server(Settings(**settings), {name: Bundle(folder) for name, folder in folders.items()})
        self.counts = Counts()
        self.server.telemetry = cast(Telemetry, self.counts)
        self.pool = Pool(1, max_wait=self.server.settings.max_wait_ms / 1000, take=take)
        self.takes: list[int] = []
        self.gate, self.busy = threading.Event(), threading.Event()
        self.gate.set()
        routes: dict[str, dict[str, Endpoint]] = {}
        for name, folder in folders.items():
            opened = load(folder)
            opened.task.predict = self._watched(opened.task.predict)
            self.server.runners[name] = Runner(opened.task, opened.session, self.pool)
            routes[f"/{name}"] = {"POST": Endpoint(one_endpoint(self.server, name, opened.task.Input))}
        for protocol in (hf, oip, tei):
            routes |= protocol.routes(self.server)
        self.routes = routes
        styles = hf.STYLES | oip.STYLES | tei.STYLES
        most = self.server.settings.max_body_bytes
        self.edge = Edge(cast(Any, None), routes, (), styles, most, self.server.refused, 20.0, self.server.gate)

    def _watched(self, predict: Callable[..., Any]) -> Callable[..., Any]:
        def run(items: Sequence[Any], *rest: Any) -> Any:
            self.busy.set()
            assert self.gate.wait(20)
            self.takes.append(len(items))
            return predict(items, *rest)

        return run

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return asyncio.run(self.ask("POST", path, body, **headers))

    def get(self, path: str) -> Reply:
        return asyncio.run(self.ask("GET", path, b""))

    async def ask(self, method: str, path: str, body: Any, **headers: str) -> Reply:
        """A request as HTTP would bring it; `content_type="..."` is a header."""
        content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        path, _, query = path.partition("?")
        encoded = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
        scope = {"type": "http", "method": method, "path": path, "headers": encoded, "query_string": query.encode()}
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        inbox.put_nowait({"type": "http.request", "body": content, "more_body": False})
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async with asyncio.timeout(20):
            await self.edge(scope, cast(Any, inbox.get), cast(Any, send))
        found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        return Reply(sent[0]["status"], found, b"".join(m.get("body", b"") for m in sent[1:]))

    def behind(self, *scenario: Callable[[], Awaitable[Reply]]) -> list[Reply]:
        """Replies to requests that are all waiting before the worker takes any of them."""

        async def run() -> list[Reply]:
            self.gate.clear()
            self.busy.clear()
            name = next(iter(self.server.bundles))
            golden = self.server.bundles[name].manifest.golden[0].item
            first = asyncio.create_task(self.ask("POST", f"/{name}", golden))
            assert await asyncio.to_thread(self.busy.wait, 20)
            waiting = [asyncio.ensure_future(make()) for make in scenario]
            await asyncio.sleep(0.1)
            self.takes.clear()
            self.gate.set()
            await first
            return list(await asyncio.gather(*waiting))

        return asyncio.run(run())

    def native(self, name: str, **fields: Any) -> Any:
        reply = self.post(f"/{name}", fields)
        assert reply.status == 200, reply.body
        return reply.json

    def version(self, name: str) -> str:
        return self.server.bundles[name].version

    def close(self) -> None:
        self.gate.set()
        self.pool.close()


def ask_hf(booth: Booth, name: str, inputs: Any, client: str = "", **parameters: Any) -> Any:
    body = {"inputs": inputs} | ({"parameters": parameters} if parameters else {})
    reply = booth.post(f"/models/{name}", body, user_agent=client)
    assert reply.status == 200, reply.body
    return reply.json


def refused_hf(booth: Booth, name: str, inputs: Any, **parameters: Any) -> str:
    reply = booth.post(f"/models/{name}", {"inputs": inputs, "parameters": parameters})
    assert reply.status == 422
    return str(reply.json["error"])
