"""The edge as plain ASGI: unknown paths, wrong methods, large bodies, clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import Request

from service.http import Edge, json_response

ROUTES = {"/": "GET", "/news": "POST", "/news/batch": "POST"}
MAX = 100
Message = dict[str, Any]


class Wire:
    """One HTTP exchange: what the client sends, what it gets, what the app behind the edge saw."""

    def __init__(
        self, method: str, path: str, *messages: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        encoded = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        self.scope = {"type": "http", "method": method, "path": path, "headers": encoded, "query_string": b"x=1"}
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        for message in messages or [chunk(b"")]:
            self.inbox.put_nowait(message)
        self.sent: list[Message] = []
        self.refusals: list[str] = []
        self.seen: list[bytes] = []

    async def receive(self) -> Message:
        return await self.inbox.get()

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.inbox.put_nowait({"type": "http.disconnect"})  # as servers do once an answer is out

    async def echo(self, scope: Any, receive: Any, send: Any) -> None:
        """An app that reads its body as any app does and answers with it."""
        request = Request(scope, receive)
        self.seen.append(await request.body())
        await json_response({"size": len(self.seen[-1])}, headers={"X-Own": "1"})(scope, receive, send)

    async def through(self, app: Callable[..., Awaitable[None]] | None = None) -> None:
        edge = Edge(app or self.echo, ROUTES, MAX, self.refusals.append)  # type: ignore[arg-type]
        async with asyncio.timeout(20):
            await edge(self.scope, self.receive, self.send)  # type: ignore[arg-type]

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def headers(self) -> dict[str, str]:
        return {k.decode(): v.decode() for k, v in self.sent[0]["headers"]}

    @property
    def body(self) -> Any:
        return json.loads(b"".join(m.get("body", b"") for m in self.sent[1:]))


def chunk(body: bytes, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


@pytest.mark.parametrize("path", ["/nope", "/news/", "/news/batch/1", "/NEWS", "/../news", ""])
def test_a_path_that_is_not_there_is_not_found(path: str) -> None:
    wire = Wire("POST", path)
    asyncio.run(wire.through())
    assert (wire.status, wire.body["error"]["code"]) == (404, "not_found")
    assert "/v1/models" in wire.body["error"]["message"]
    assert wire.refusals == ["not_found"], "one label for all of them (perdy/starlette-prometheus#7)"
    assert wire.seen == []


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("GET", "/news", "POST"), ("HEAD", "/news", "POST"), ("DELETE", "/news", "POST"), ("POST", "/", "GET")],
)
def test_a_method_that_is_not_served_names_the_one_that_is(method: str, path: str, allow: str) -> None:
    wire = Wire(method, path)
    asyncio.run(wire.through())
    assert (wire.status, wire.headers["allow"]) == (405, allow)
    assert wire.body == {"error": {"code": "method_not_allowed", "message": f"use {allow}"}}
    assert wire.refusals == ["method_not_allowed"]


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("HEAD", "/"), ("POST", "/news"), ("POST", "/news/batch")])
def test_what_is_served_passes(method: str, path: str) -> None:
    wire = Wire(method, path)
    asyncio.run(wire.through())
    assert (wire.status, wire.refusals) == (200, [])


@pytest.mark.parametrize("pieces", [[b"abc"], [b"", b"a", b"bc"], [b"a" * MAX], [b"a" * 60, b"b" * 40], [b"\xff\x00"]])
def test_the_body_and_the_answer_pass_unchanged(pieces: list[bytes]) -> None:
    chunks = [chunk(piece, more=True) for piece in pieces[:-1]] + [chunk(pieces[-1])]
    wire = Wire("POST", "/news", *chunks, headers={"content-length": str(sum(map(len, pieces)))})
    asyncio.run(wire.through())
    assert wire.seen == [b"".join(pieces)]
    assert (wire.status, wire.headers["x-own"], wire.body) == (200, "1", {"size": sum(map(len, pieces))})


def test_a_body_that_is_declared_too_large_is_not_even_read() -> None:
    wire = Wire("POST", "/news", headers={"content-length": str(MAX + 1)})
    asyncio.run(wire.through())
    assert (wire.status, wire.body["error"]["code"], wire.refusals) == (413, "body_too_large", ["body_too_large"])
    assert str(MAX) in wire.body["error"]["message"]
    assert not wire.inbox.empty(), "the body was read"
    assert wire.seen == []


@pytest.mark.parametrize("declared", [{}, {"content-length": "5"}, {"content-length": "-1"}])
def test_a_body_that_grows_too_large_is_cut_off_there(declared: dict[str, str]) -> None:
    wire = Wire("POST", "/news", *[chunk(b"a" * 40, more=True)] * 50, chunk(b""), headers=declared)
    asyncio.run(wire.through())
    assert (wire.status, wire.seen) == (413, [])
    assert wire.inbox.qsize() >= 47, "no more was read than shows that it is too large"


def test_a_client_that_leaves_while_sending_starts_nothing() -> None:
    wire = Wire("POST", "/news", chunk(b"ab", more=True), {"type": "http.disconnect"})
    asyncio.run(wire.through())
    assert (wire.sent[0]["status"], wire.seen, wire.refusals) == (499, [], [])


def test_a_client_that_leaves_takes_its_work_with_it() -> None:
    wire = Wire("POST", "/news", chunk(b"{}"))
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await receive()
            await asyncio.sleep(20)
            ended.append("ran on")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def scenario() -> None:
        exchange = asyncio.create_task(wire.through(app))
        await asyncio.sleep(0.01)
        wire.inbox.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(exchange, 5)  # the server's own task goes on
        assert not exchange.cancelled()
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert (ended, wire.sent[0]["status"]) == (["cancelled"], 499)  # BentoML waits until something was sent


def test_a_disconnect_after_the_answer_cancels_nothing() -> None:
    wire = Wire("POST", "/news", chunk(b"{}"))
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await wire.echo(scope, receive, send)
        await asyncio.sleep(0.05)  # what is done behind the answer: accounts, logs
        ended.append("finished")

    asyncio.run(wire.through(app))
    assert (ended, wire.status) == (["finished"], 200)


def test_nothing_watches_a_connection_whose_answer_is_out() -> None:
    """Kept alive, it will carry the next request: whoever still waits for it to close would cancel that one."""
    wire = Wire("POST", "/news", chunk(b"{}"))

    async def send(message: Message) -> None:
        wire.sent.append(message)

    async def scenario() -> set[asyncio.Task[Any]]:
        wire.send = send  # type: ignore[method-assign]
        await wire.through()
        await asyncio.sleep(0)
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

    assert asyncio.run(scenario()) == set()
    assert wire.status == 200


def test_a_cancel_from_the_server_itself_is_not_swallowed() -> None:
    wire = Wire("POST", "/news", chunk(b"{}"))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(20)

    async def scenario() -> None:
        exchange = asyncio.create_task(wire.through(app))
        await asyncio.sleep(0.01)
        exchange.cancel()
        with pytest.raises(asyncio.CancelledError):
            await exchange

    asyncio.run(scenario())


def test_what_is_not_http_passes_by() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    wire = Wire("GET", "/")
    wire.scope = {"type": "lifespan"}
    asyncio.run(wire.through(app))
    assert seen == ["lifespan"]
