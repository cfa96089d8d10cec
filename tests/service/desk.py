"""The endpoints of one model around a watched runner, and a caller who posts to them without HTTP."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, cast

from bench import Bench
from starlette.responses import Response

from service.config import Settings
from service.edge.endpoints import batch_endpoint, one_endpoint
from service.edge.http import Asked, Handler, error_response
from service.errors import ServiceError
from service.observability.telemetry import Telemetry
from service.process.board import Board
from service.server import Server
from service.types import Timing


class Counts:
    """What the metrics would say."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()

    def outcome(self, bundle: str, outcome: str) -> None:
        assert bundle == "news"
        self.outcomes[outcome] += 1

    def answered(self, bundle: str, timing: Timing) -> None:
        self.outcome(bundle, "ok")


class Desk:
    """A server whose one model is a tiny bundle, and its two endpoints."""

    def __init__(self, bench: Bench, board: Board | None = None, **settings: Any) -> None:
        self.bench = bench
        self.server = Server(Settings(**settings), {"news": cast(Any, None)}, board)
        self.counts = Counts()
        self.server.telemetry = cast(Telemetry, self.counts)
        self.server.runners["news"] = bench.runner
        self.one = one_endpoint(self.server, "news", bench.task.Input)
        self.batch = batch_endpoint(self.server, "news", bench.task.Input)


def request(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()


async def ask(handle: Handler, body: Any) -> tuple[int, Any, Response]:
    try:
        response = await handle(Asked(request(body)))
    except ServiceError as error:
        response = error_response(error)
    return response.status_code, json.loads(response.body), response
