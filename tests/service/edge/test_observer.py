"""What surrounds HTTP: ids, finite routes, counts, whatever happens inside."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from service.edge.gate import Gate
from service.edge.http import Asked, Edge, Endpoint, json_response
from service.edge.observer import OTHER, Observer
from service.errors import Overloaded
from service.observability.exchange import CURRENT, Exchange, failed
from service.types import Timing

Message = dict[str, Any]
ROUTES = (
    "/news",
    "/news/batch",
    "/v2/models/news/infer",
    "/v2/models/news/versions/3f/infer",
    "/v1/models",
    "/metrics",
)
BEHIND = ("/livez",)


class Counts:
    """What the metrics would say, and a tracer that keeps what it is given."""

    def __init__(self) -> None:
        self.in_flight = self
        self.running = 0
        self.responses: list[tuple[str, int]] = []
        self.traced: list[tuple[Exchange, bytes | None]] = []

    def inc(self) -> None:
        self.running += 1

    def dec(self) -> None:
        self.running -= 1

    def responded(self, route: str, status: int, seconds: float) -> None:
        assert 0 <= seconds < 20
        self.responses.append((route, status))

    def finish(self, exchange: Exchange, traceparent: bytes | None) -> None:
        self.traced.append((exchange, traceparent))


class Watched:
    """An edge with an observer around it, asked without HTTP."""

    def __init__(self, answer: Any) -> None:
        self.counts = Counts()
        server = SimpleNamespace(
            telemetry=self.counts, tracer=self.counts, bundles={"news"}, settings=SimpleNamespace(log_requests="off")
        )
        routes = {path: {"POST": Endpoint(answer)} for path in ROUTES}

        async def behind(scope: Any, receive: Any, send: Any) -> None:
            await json_response({})(scope, receive, send)

        edge = Edge(behind, routes, BEHIND, {}, 100, lambda _: None, 20.0, Gate())
        self.observer = Observer(edge, cast(Any, server), routes, BEHIND)

    def ask(self, path: str, method: str = "POST", **headers: str) -> tuple[int, dict[str, str]]:
        return asyncio.run(self._ask(path, method, headers))

    async def _ask(self, path: str, method: str, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
        sent: list[Message] = []
        inbox = [{"type": "http.request", "body": b"{}"}]

        async def receive() -> Message:
            if inbox:
                return inbox.pop()
            await asyncio.Event().wait()
            raise AssertionError

        before = len(self.counts.responses)

        async def send(message: Any) -> None:
            assert len(self.counts.responses) == before + 1, "whoever has an answer finds it counted"
            sent.append(message)

        encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope: Any = {"type": "http", "method": method, "path": path, "headers": encoded, "query_string": b"canary"}
        async with asyncio.timeout(20):
            await self.observer(scope, cast(Any, receive), send)
        return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}


async def fine(_: Asked) -> Any:
    return json_response({})


async def busy(_: Asked) -> Any:
    raise Overloaded("later", 3)


async def broken(_: Asked) -> Any:
    raise RuntimeError


async def items(_: Asked) -> Any:
    exchange = CURRENT.get()
    assert exchange is not None
    async with asyncio.TaskGroup() as group:  # as a batch does: tasks see the exchange of their request
        for _i in range(3):
            group.create_task(one())
    return json_response({})


async def one() -> None:
    exchange = CURRENT.get()
    assert exchange is not None
    exchange.answered("news", Timing(rows=2))


@pytest.mark.parametrize(
    ("path", "method", "route", "status"),
    [
        ("/news", "POST", "/{model}", 200),
        ("/news/batch", "POST", "/{model}/batch", 200),
        ("/v2/models/news/infer", "POST", "/v2/models/{model}/infer", 200),
        ("/v2/models/news/versions/3f/infer", "POST", "/v2/models/{model}/versions/{version}/infer", 200),
        ("/v1/models", "POST", "/v1/models", 200),
        ("/livez", "GET", "/livez", 200),
        ("/news", "BREW", "/{model}", 405),
        ("/news/17", "POST", OTHER, 404),
        ("/v2/models/nope/infer", "POST", OTHER, 404),
        ("/{model}", "POST", OTHER, 404),
    ],
)
def test_a_request_is_counted_by_its_route_and_status(path: str, method: str, route: str, status: int) -> None:
    watched = Watched(fine)
    assert watched.ask(path, method)[0] == status
    assert watched.counts.responses == [(route, status)]
    assert watched.counts.running == 0


def test_routes_stay_few_whatever_is_asked_for() -> None:
    watched = Watched(fine)
    for i in range(100):
        watched.ask(f"/news/{i}")
    assert {route for route, _ in watched.counts.responses} == {OTHER}
    assert watched.observer._known == {}


def test_every_answer_has_an_id_and_errors_have_one_too() -> None:
    assert Watched(fine).ask("/news", x_request_id="mine-1")[1]["x-request-id"] == "mine-1"
    for path in ("/news", "/nope", "/livez"):
        assert len(Watched(fine).ask(path, x_request_id="카나리")[1]["x-request-id"]) == 16


@pytest.mark.parametrize(("answer", "status", "code"), [(busy, 429, "overloaded"), (broken, 500, "internal")])
def test_the_code_of_an_error_is_noted(answer: Any, status: int, code: str) -> None:
    watched = Watched(answer)
    assert watched.ask("/news")[0] == status
    ((exchange, _),) = watched.counts.traced
    assert (exchange.status, exchange.code) == (status, code)


def test_items_of_a_request_are_noted_from_their_own_tasks() -> None:
    watched = Watched(items)
    watched.ask("/news/batch", traceparent="00-x")
    ((exchange, traceparent),) = watched.counts.traced
    assert (exchange.items, list(exchange.models), exchange.most.rows) == (3, ["news"], 2)
    assert traceparent == b"00-x"


def test_probes_and_scrapes_are_not_traced() -> None:
    watched = Watched(fine)
    watched.ask("/livez", "GET")
    watched.ask("/metrics")
    assert watched.counts.traced == []
    assert len(watched.counts.responses) == 2


def test_where_there_is_no_request_nothing_is_noted() -> None:
    failed("internal")
    assert CURRENT.get() is None
