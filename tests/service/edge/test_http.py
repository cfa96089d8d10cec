"""The edge as plain ASGI: unknown paths, wrong methods, large bodies, clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.responses import Response

from service.edge.gate import Gate
from service.edge.http import Asked, Edge, Endpoint, Handler, json_response
from service.errors import InvalidItem, ServiceError

POSTED, READ, BEHIND = ("/news", "/news/batch"), ("/", "/old/page"), ("/livez",)
MAX = 100
Message = dict[str, Any]


def plain(error: ServiceError) -> Response:
    """How another protocol writes errors."""
    return json_response({"error": error.message}, 400)


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

    async def echo(self, asked: Asked) -> Response:
        """A handler that answers with the size of what it got."""
        self.seen.append(asked.body)
        return json_response({"size": len(asked.body)}, headers={"X-Own": "1"})

    async def page(self, asked: Asked) -> Response:
        return json_response({"page": asked.query("x"), "host": asked.header("host")})

    async def behind(self, scope: Any, receive: Any, send: Any) -> None:
        await json_response({"page": scope.get("path")})(scope, receive, send)

    async def through(self, handler: Handler | None = None, app: Callable[..., Awaitable[None]] | None = None) -> None:
        posted, read = Endpoint(handler or self.echo), Endpoint(handler or self.page)
        routes = (
            {path: {"POST": posted} for path in POSTED}
            | {path: {"GET": read} for path in READ}
            | {"/both": {"GET": read, "POST": posted}}
        )
        front: Any = app or self.behind
        edge = Edge(front, routes, BEHIND, {"old": plain}, MAX, self.refusals.append, 20.0, Gate())
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
    [
        ("GET", "/news", "POST"),
        ("HEAD", "/news", "POST"),
        ("DELETE", "/news", "POST"),
        ("POST", "/", "GET"),
        ("POST", "/livez", "GET"),
        ("PUT", "/both", "GET, POST"),
    ],
)
def test_a_method_that_is_not_served_names_the_one_that_is(method: str, path: str, allow: str) -> None:
    wire = Wire(method, path)
    asyncio.run(wire.through())
    assert (wire.status, wire.headers["allow"]) == (405, allow)
    assert wire.body == {"error": {"code": "method_not_allowed", "message": f"use {allow}"}}
    assert wire.refusals == ["method_not_allowed"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("HEAD", "/"), ("POST", "/news"), ("POST", "/news/batch"), ("GET", "/livez"), ("HEAD", "/livez")],
)
def test_what_is_served_passes(method: str, path: str) -> None:
    wire = Wire(method, path)
    asyncio.run(wire.through())
    assert (wire.status, wire.refusals) == (200, [])


def test_a_page_reads_the_query_and_the_headers() -> None:
    wire = Wire("GET", "/", headers={"host": "example.org"})
    asyncio.run(wire.through())
    assert wire.body == {"page": "1", "host": "example.org"}


@pytest.mark.parametrize("path", ["/old/nothing", "/old/page"])
def test_errors_are_written_as_the_protocol_of_the_path_does(path: str) -> None:
    wire = Wire("POST", path)
    asyncio.run(wire.through())
    assert wire.status == 400
    assert isinstance(wire.body["error"], str)
    assert len(wire.refusals) == 1


def test_what_a_handler_refuses_is_written_but_not_counted_at_the_edge() -> None:
    async def handler(asked: Asked) -> Response:
        raise InvalidItem("the text is empty", field="text")

    for path, status, error in (("/news", 422, {"code": "invalid_item"}), ("/old/page", 400, "the text is empty")):
        wire = Wire("POST" if path == "/news" else "GET", path)
        asyncio.run(wire.through(handler))
        assert wire.status == status
        assert wire.refusals == []
        if isinstance(error, str):
            assert wire.body["error"] == error
        else:
            assert wire.body["error"].items() >= error.items()


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


ZEROS = "0" * 5000


@pytest.mark.parametrize(
    "declared", [{}, *({"content-length": size} for size in ("5", "-1", ZEROS + "5"))], ids=range(4)
)
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

    async def handler(asked: Asked) -> Response:
        try:
            await asyncio.sleep(20)
            ended.append("ran on")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        raise AssertionError

    async def scenario() -> None:
        exchange = asyncio.create_task(wire.through(handler))
        await asyncio.sleep(0.01)
        wire.inbox.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(exchange, 5)  # the server's own task goes on
        assert not exchange.cancelled()
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert (ended, wire.sent[0]["status"]) == (["cancelled"], 499)  # BentoML waits until something was sent


def test_a_fault_of_ours_is_a_500_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire("POST", "/news", chunk(b"what the caller wrote"))

    async def handler(asked: Asked) -> Response:
        raise RuntimeError(asked.body.decode())

    asyncio.run(wire.through(handler))
    assert (wire.status, wire.body["error"]["code"]) == (500, "internal")
    assert "RuntimeError" in caplog.text
    assert "what the caller wrote" not in caplog.text + json.dumps(wire.body)


@pytest.mark.parametrize(
    "media", ["text/plain", "multipart/form-data; boundary=x", "", "application/vnd.bentoml+pickle"]
)
def test_a_body_of_another_type_is_refused_by_name(media: str) -> None:
    wire = Wire("POST", "/news", chunk(b"{}"), headers={"content-type": media})
    asyncio.run(wire.through())
    assert (wire.status, wire.body["error"]["code"], wire.seen) == (415, "unsupported_media_type", [])
    assert f"not {media.partition(';')[0]}" in wire.body["error"]["message"]


@pytest.mark.parametrize("media", [None, "application/json", "Application/JSON; charset=utf-8", "application/json ;x"])
def test_json_is_taken_however_it_is_written(media: str | None) -> None:
    wire = Wire("POST", "/news", chunk(b"{}"), headers={"content-type": media} if media else {})
    asyncio.run(wire.through())
    assert (wire.status, wire.seen) == (200, [b"{}"])


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

    async def handler(asked: Asked) -> Response:
        await asyncio.sleep(20)
        raise AssertionError

    async def scenario() -> None:
        exchange = asyncio.create_task(wire.through(handler))
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
    asyncio.run(wire.through(app=app))
    assert seen == ["lifespan"]
