"""Pages of other sites: which origins are named, and what a browser is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.middleware.cors import CORSMiddleware

from service.batching.runner import Result
from service.config import Settings, load_settings
from service.edge import cors
from service.edge.endpoints import timing_headers
from service.edge.http import json_response
from service.errors import ConfigError, InvalidItem, Overloaded, Unauthorized
from service.protocols import tei
from service.protocols.tensors import HEADER_LENGTH
from service.types import Timing

ORIGIN = "https://example.org"
TIMING = Timing(version="1", rows=1)


def ask(method: str, origin: str | None, **headers: str) -> tuple[int, dict[str, str]]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await json_response({})(scope, receive, send)

    named = {"origin": origin, **{k.replace("_", "-"): v for k, v in headers.items()}}
    scope = {"type": "http", "method": method, "path": "/ner", "query_string": b""}
    scope["headers"] = [(k.encode(), v.encode()) for k, v in named.items() if v is not None]
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    middleware = CORSMiddleware(app, **cors.options(cors.origins(f"{ORIGIN}, http://localhost:8080")))
    asyncio.run(middleware(scope, None, send))  # type: ignore[arg-type]
    return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}


@pytest.mark.parametrize(
    "text", ["*", "https://*.example.org", "example.org", "https://example.org/", "null", "https://a b", "ftp://a.org"]
)
def test_an_origin_is_written_exactly_as_browsers_do(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLU_CORS_ORIGINS", text)
    with pytest.raises(ConfigError, match=r"NLU_CORS_ORIGINS: .* is no origin"):
        load_settings()


def test_nobody_is_named_unless_the_operator_names_them() -> None:
    assert cors.origins(Settings().cors_origins) == []
    assert cors.origins(" https://a.org ,, http://[::1]:3000") == ["https://a.org", "http://[::1]:3000"]


def test_a_page_that_is_named_may_ask_with_a_key_and_read_what_the_headers_say() -> None:
    asked = {"access_control_request_method": "POST"}
    asked["access_control_request_headers"] = "authorization,content-type,x-api-key,x-request-id"
    status, headers = ask("OPTIONS", ORIGIN, **asked)
    assert (status, headers["access-control-allow-origin"]) == (200, ORIGIN)
    status, headers = ask("POST", ORIGIN)
    assert (status, headers["access-control-allow-origin"], headers["vary"]) == (200, ORIGIN, "Origin")
    exposed = headers["access-control-expose-headers"].split(", ")
    ours = {"X-Request-Id", *InvalidItem("").headers(), *Overloaded("", 1).headers(), *Unauthorized("").headers()}
    ours |= timing_headers(TIMING).keys() | tei._headers([Result({}, TIMING)], 0.0).keys() | {HEADER_LENGTH}
    assert {"Retry-After", "X-Model-Version", "X-Queue-Ms", "X-Queue-Time"} <= ours
    assert ours <= set(exposed)


def test_a_page_that_is_named_may_send_tensors_in_binary() -> None:
    asked = {"access_control_request_method": "POST", "access_control_request_headers": HEADER_LENGTH.lower()}
    assert ask("OPTIONS", ORIGIN, **asked)[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.org", "http://example.org", "https://example.org.evil.org", "null"])
def test_any_other_page_is_told_nothing(origin: str) -> None:
    assert ask("OPTIONS", origin, access_control_request_method="POST")[0] == 400
    assert "access-control-allow-origin" not in ask("POST", origin)[1]


def test_cookies_never_come_along() -> None:
    for method, headers in (("POST", {}), ("OPTIONS", {"access_control_request_method": "POST"})):
        assert "access-control-allow-credentials" not in ask(method, ORIGIN, **headers)[1]
