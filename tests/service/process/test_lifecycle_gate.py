"""The edge while a server ends: what is refused, what is still answered, and what happens to the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import Response
from test_http import Wire, chunk

from service.edge.gate import CROWDED, PROBES, Gate
from service.edge.http import Asked, Edge, Endpoint, json_response


async def answered(asked: Asked) -> Response:
    return json_response({})


async def endless(asked: Asked) -> Response:
    await asyncio.sleep(60)
    raise AssertionError


def edge(wire: Wire, gate: Gate, handler: Any = answered, read_timeout: float = 20.0) -> Edge:
    routes = {"/news": {"POST": Endpoint(handler)}, "/metrics": {"GET": Endpoint(answered)}}
    behind = ("/livez", "/readyz")
    return Edge(wire.behind, routes, behind, {}, 100, wire.refusals.append, read_timeout, gate)


async def passed(wire: Wire, *arguments: Any, **options: Any) -> None:
    async with asyncio.timeout(20):
        await edge(wire, *arguments, **options)(wire.scope, wire.receive, wire.send)  # type: ignore[arg-type]


def test_a_closed_gate_refuses_on_a_connection_that_ends_but_answers_probes() -> None:
    gate = Gate()
    gate.closed = True
    wire = Wire("POST", "/news", chunk(b"{}"))
    asyncio.run(passed(wire, gate))
    assert (wire.status, wire.body["error"]["code"], wire.refusals) == (503, "not_ready", ["not_ready"])
    assert (wire.headers["connection"], wire.headers["retry-after"]) == ("close", "1")
    assert not wire.inbox.empty(), "its body was not waited for"
    for path in ("/livez", "/readyz", "/metrics"):
        assert path in PROBES
        probe = Wire("GET", path)
        asyncio.run(passed(probe, gate))
        assert probe.status == 200


def test_a_draining_gate_answers() -> None:
    gate = Gate()
    gate.draining = True
    wire = Wire("POST", "/news", chunk(b"{}"))
    asyncio.run(passed(wire, gate))
    assert wire.status == 200


def test_one_connection_too_many_is_told_so() -> None:
    wire = Wire("POST", "/news", chunk(b"{}"))
    wire.scope["state"] = {CROWDED: True}
    asyncio.run(passed(wire, Gate()))
    assert (wire.status, wire.body["error"]["code"]) == (503, "too_many_connections")
    assert wire.headers["connection"] == "close"
    assert wire.refusals == ["too_many_connections"]


@pytest.mark.parametrize("messages", [[chunk(b"{}")], [chunk(b"{", more=True)]], ids=["running", "in its body"])
def test_what_outlasts_the_grace_period_is_turned_away(messages: list[Any]) -> None:
    gate = Gate()
    wire = Wire("POST", "/news", *messages)

    async def scenario() -> None:
        exchange = asyncio.create_task(passed(wire, gate, endless))
        await asyncio.sleep(0.05)
        assert gate.under_way == 1
        gate.finish()
        await exchange
        assert gate.under_way == 0

    asyncio.run(scenario())
    assert (wire.status, wire.body["error"]["code"]) == (503, "not_ready")
    assert wire.headers["connection"] == "close"


def test_a_body_that_does_not_come_is_a_request_timeout() -> None:
    wire = Wire("POST", "/news", chunk(b"{", more=True))
    asyncio.run(passed(wire, Gate(), read_timeout=0.02))
    assert (wire.status, wire.body["error"]["code"], wire.refusals) == (408, "request_timeout", ["request_timeout"])
    assert wire.headers["connection"] == "close"
