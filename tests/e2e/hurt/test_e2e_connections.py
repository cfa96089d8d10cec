"""Heads that no client should send, and one that Java's does: what is done before there is a request to answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from time import perf_counter

import httpx
import pytest
from e2e_http import Connection, Reply, encode, series
from e2e_servers import StartServer

REQUEST = encode("/klue-ynat", {"text": "반도체 수출 3% 증가…코스피 상승 마감"})
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
WEBSOCKET = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIA==\r\n"
CHUNKED = b"POST /klue-ynat HTTP/1.1\r\nhost: e2e\r\ntransfer-encoding: chunked\r\n\r\n"


def on_connection(url: str, work: Callable[[Connection], Awaitable[list[Reply]]]) -> list[Reply]:
    async def run() -> list[Reply]:
        connection = await Connection(url).open()
        try:
            return await asyncio.wait_for(work(connection), 30)
        finally:
            await connection.close()

    return asyncio.run(run())


def asked(url: str, *pieces: bytes, answers: int = 1) -> list[Reply]:
    """The answers to bytes that come piece by piece."""

    async def work(connection: Connection) -> list[Reply]:
        for piece in pieces:
            connection.writer.write(piece)
            await connection.writer.drain()
            await asyncio.sleep(0.05)
        return [await connection.receive() for _ in range(answers)]

    return on_connection(url, work)


def wishing(field: bytes) -> bytes:
    """The request with more fields in its head."""
    return REQUEST.replace(b"\r\n", b"\r\n" + field, 1)


@pytest.mark.parametrize("cuts", [[], [40], [200], [-5], [30, 60, -20]], ids=str)
@pytest.mark.parametrize("wish", [H2C, WEBSOCKET], ids=["h2c", "websocket"])
def test_a_request_that_would_like_to_be_upgraded_is_answered_as_it_is(
    server: str, wish: bytes, cuts: list[int]
) -> None:
    # Java's HttpClient asks for h2c in its first request; uvicorn lost the body of it: 400, "not JSON".
    whole = wishing(wish)
    places = sorted(cut % len(whole) for cut in cuts)
    pieces = [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]
    plain, wished = asked(server, REQUEST)[0], asked(server, *pieces)[0]
    assert (wished.status, wished.json()) == (200, plain.json())


def test_more_requests_follow_one_that_would_like_to_be_upgraded(server: str) -> None:
    body = json.dumps({"text": "코스피"}).encode()
    chunked = CHUNKED.replace(b"\r\n", b"\r\n" + H2C, 1) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    replies = asked(server, wishing(H2C) * 2 + chunked + REQUEST, answers=4)
    assert [reply.status for reply in replies] == [200] * 4
    many = asked(server, wishing(H2C) * 40, answers=40)
    assert {reply.status for reply in many} == {200}


@pytest.mark.parametrize(
    "noise",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        CHUNKED + b"zz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nno colon\r\n\r\n",
    ],
    ids=lambda noise: repr(noise[:16]),
)
def test_what_is_no_http_is_told_so_in_the_form_of_every_error(server: str, noise: bytes) -> None:
    (reply,) = asked(server, noise)
    assert (reply.status, reply.headers["content-type"], reply.headers["connection"]) == (
        400,
        "application/json",
        "close",
    )
    assert reply.json()["error"]["code"] == "invalid_http"


@pytest.mark.parametrize(
    "start",
    [b"GET /livez HTTP/1.1\r\nx: ", b"GET /livez HTTP/1.1\r\n", CHUNKED + b"1\r\n{\r\n0\r\nx: ", CHUNKED + b"1;"],
    ids=["field", "fields", "trailer", "extension"],
)
def test_what_stands_around_a_body_is_not_kept_without_end(server: str, client: httpx.Client, start: bytes) -> None:
    """90 MB of a head used to be kept, and to hold the event loop for two seconds."""
    filling = b"x: " + b"y" * 97 + b"\r\n" if start.endswith(b"1.1\r\n") else b"a" * 102
    begin = perf_counter()

    async def work(connection: Connection) -> list[Reply]:
        connection.writer.write(start + filling * 20_000)
        return [await connection.receive()]

    (reply,) = on_connection(server, work)
    assert reply.status == 431
    assert reply.json()["error"]["code"] == "head_too_large"
    assert perf_counter() - begin < 2
    assert series(client.get("/metrics").text)['clueserve_refusals_total{reason="head_too_large"}'] >= 1


def test_large_fields_and_tiny_chunks_are_fine(server: str) -> None:
    (large,) = asked(server, wishing(b"cookie: " + b"a" * 60_000 + b"\r\n"))
    body = json.dumps({"text": "a " * 40_000}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    (tiny,) = asked(server, CHUNKED, chunks)
    assert (large.status, tiny.status) == (200, 200)


def test_a_body_may_take_longer_than_its_answer(start_server: StartServer) -> None:
    """BentoML's limit was shorter than ours: its own 504 after 5.5 s, in a form of its own."""
    server = start_server({"NLU_MODELS": "klue-ynat:latest", "NLU_TIMEOUT_MS": "500", "NLU_READ_TIMEOUT_MS": "7000"})

    async def work(connection: Connection) -> list[Reply]:
        connection.writer.write(REQUEST[:-5])
        return [await connection.receive()]

    (reply,) = on_connection(server.url, work)
    assert (reply.status, reply.json()["error"]["code"]) == (408, "request_timeout")
