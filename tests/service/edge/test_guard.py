"""The guard as plain ASGI: what needs a key, where a key may stand, what a key may not, and a browser's way in."""

from __future__ import annotations

import asyncio
import json
import timeit
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from service.access import CALLER, Keys, make, may_ask
from service.edge import signin
from service.edge.guard import Guard
from service.edge.http import Asked, json_response
from service.errors import ServiceError

MODELS = {"ner", "nli"}


def plain(error: ServiceError) -> Response:
    """How another protocol writes errors."""
    return json_response({"error": error.message}, error.status, error.headers())


class Door:
    """A guard over a file of keys, and an app behind it that says who came in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts: dict[str, str] = {}
        self.entries: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.uses: Counter[tuple[str, str]] = Counter()

    def key(self, name: str, **facts: Any) -> str:
        self.texts[name], digest = make(name)
        self.entries.append({"id": name, "sha256": digest, "role": "caller", **facts})
        self.path.write_text(json.dumps({"keys": self.entries}))
        self.guard = Guard(
            self.behind,
            Keys(self.path),
            MODELS,
            {"models": plain},
            self.refusals.append,
            lambda key, outcome: self.uses.update([(key, outcome)]),
        )
        return self.texts[name]

    async def behind(self, scope: Any, receive: Any, send: Any) -> None:
        key = CALLER.get()
        await json_response({"key": key and key.id, "may": sorted(filter(may_ask, MODELS))})(scope, receive, send)

    def ask(self, path: str, method: str = "POST", query: str = "", **headers: str) -> tuple[int, Any, dict[str, str]]:
        named = [(name.replace("_", "-").lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": named}
        sent: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            raise AssertionError("a body was read")

        asyncio.run(self.guard(scope, receive, send))
        assert CALLER.get() is None
        got = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        body = sent[1]["body"]
        return sent[0]["status"], json.loads(body) if "json" in got["content-type"] else body.decode(), got


@pytest.fixture
def door(tmp_path: Path) -> Door:
    made = Door(tmp_path / "keys.json")
    made.key("team")
    return made


@pytest.mark.parametrize(
    "path",
    [
        "/ner",
        "/ner/batch",
        "/models/ner",
        "/v1/models",
        "/metrics",
        "/",
        "/docs.json",
        "/schema.json",
        "/assets/a/app.js",
        "/nowhere",
        "/livez/",
        "/v2/health",
    ],
)
def test_without_a_key_nothing_is_told(door: Door, path: str) -> None:
    status, body, headers = door.ask(path)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert "Authorization: Bearer" in json.dumps(body)
    assert door.refusals == ["unauthorized"]
    assert door.uses == {}, "a stranger is no series"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/v2/health/live", "/v2/health/ready", "/health"])
def test_probes_need_no_key(door: Door, path: str) -> None:
    assert door.ask(path, "GET")[:2] == (200, {"key": None, "may": ["ner", "nli"]})


def test_the_health_of_one_model_needs_a_key(door: Door) -> None:
    assert door.ask("/health", "GET", "model=ner")[0] == 401
    assert door.ask("/tei/ner/health", "GET")[0] == 401
    assert door.ask("/v2/models/ner/ready", "GET")[0] == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer {}"},
        {"authorization": "bearer  {}"},
        {"x_api_key": "{}"},
        {"authorization": "Basic dXNlcjpwdw==", "x_api_key": "{}"},
        {"cookie": "a=b; clueserve_key={}; c=d"},
        {"cookie": "clueserve_key={}", "sec_fetch_site": "same-origin"},
        {"authorization": "Bearer {}", "cookie": "clueserve_key=rubbish", "sec_fetch_site": "cross-site"},
        {"cookie": "clueserve_key={}", "Cookie": "c=d"},
    ],
)
def test_a_key_may_stand_in(door: Door, headers: dict[str, str]) -> None:
    filled = {name: value.format(door.texts["team"]) for name, value in headers.items()}
    assert door.ask("/ner", **filled)[:2] == (200, {"key": "team", "may": ["ner", "nli"]})
    assert door.uses == {("team", "admitted"): 1}


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "{}"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer é{}"},
        {"x_api_key": ""},
        {"x_api_key": "{}x"},
        {"authorization": "Bearer wrong", "x_api_key": "{}"},
        {"cookie": "clueserve_key={}", "sec_fetch_site": "cross-site"},
        {"cookie": "clueserve_key={}", "sec_fetch_site": "same-site"},
        {"cookie": "key={}"},
    ],
)
def test_a_key_does_not_stand_in(door: Door, headers: dict[str, str]) -> None:
    filled = {name: value.format(door.texts["team"]) for name, value in headers.items()}
    assert door.ask("/ner", **filled)[0] == 401


def test_a_refusal_is_written_as_the_protocol_of_the_path_does(door: Door) -> None:
    door.key("slow", rate=0.001)
    for path, where in (("/models/ner", lambda body: body["error"]), ("/ner", lambda body: body["error"]["message"])):
        assert "send a key" in where(door.ask(path)[1])
    assert door.ask("/models/ner", x_api_key=door.texts["slow"])[0] == 200
    status, body, headers = door.ask("/models/ner", x_api_key=door.texts["slow"])
    assert (status, body["error"], headers["retry-after"]) == (429, "too many requests with this key", "1000")


def test_a_key_for_some_models_sees_only_them(door: Door) -> None:
    some = door.key("some", bundles=["ner"])
    assert door.ask("/v1/models", "GET", x_api_key=some)[1] == {"key": "some", "may": ["ner"]}
    for path in ("/ner", "/ner/batch", "/models/ner", "/v2/models/ner/infer", "/tei/ner/predict"):
        assert door.ask(path, x_api_key=some)[0] == 200
    for path in ("/nli", "/nli/batch", "/models/nli", "/v2/models/nli", "/v2/models/nli/infer", "/tei/nli/info"):
        status, body, _ = door.ask(path, x_api_key=some)
        assert status == 403
        assert "may not ask nli" in json.dumps(body)
    assert door.ask("/nli", x_api_key=some)[1]["error"]["code"] == "forbidden"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/ner", {"caller", "admin"}),
        ("/v1/models", {"caller", "admin"}),
        ("/metrics", {"metrics", "admin"}),
        ("/v2/repository/index", {"admin"}),
        ("/v2/repository/models/ner/unload", {"admin"}),
    ],
)
def test_what_each_role_may(door: Door, path: str, allowed: set[str]) -> None:
    roles = {role: door.key(role, role=role) for role in ("caller", "metrics", "admin")}
    statuses = {role: door.ask(path, x_api_key=text)[0] for role, text in roles.items()}
    assert statuses == {role: 200 if role in allowed else 403 for role in roles}


def test_an_administrator_shows_the_key_in_a_header(door: Door) -> None:
    """A browser sends its cookie unasked, so that any page could make it unload a model."""
    admin = door.key("admin", role="admin")
    assert door.ask("/v2/repository/models/ner/unload", cookie=f"clueserve_key={admin}")[0] == 403
    assert door.ask("/ner", cookie=f"clueserve_key={admin}")[0] == 200


def test_requests_are_counted_by_key_and_outcome(door: Door) -> None:
    few = door.key("few", rate=0.001, burst=2, bundles=["ner"])
    for path in ("/ner", "/nli", "/ner"):
        door.ask(path, x_api_key=few)
    assert door.uses == {("few", "admitted"): 1, ("few", "forbidden"): 1, ("few", "rate_limited"): 1}
    assert door.refusals == ["forbidden", "rate_limited"]


def test_a_browser_at_the_start_page_is_asked_for_a_key(door: Door) -> None:
    status, page, headers = door.ask("/", "GET", accept="text/html,application/xhtml+xml")
    assert (status, headers["www-authenticate"], headers["cache-control"]) == (401, "Bearer", "no-store")
    assert '<form method="post" action="/v1/session">' in page
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "<script" not in page
    assert door.ask("/ner", accept="text/html")[2]["content-type"] == "application/json"


def sign_in(door: Door, body: bytes, **headers: bytes) -> Response:
    handle = signin.routes(door.guard.keys)[signin.PATH]["POST"].answer

    async def scenario() -> Response:
        return await handle(Asked(body, {name.replace("_", "-").encode(): v for name, v in headers.items()}))

    return asyncio.run(scenario())


def test_a_key_that_is_given_there_goes_into_a_cookie_that_no_script_and_no_other_site_has(door: Door) -> None:
    response = sign_in(door, f"key={door.texts['team']}".encode())
    assert (response.status_code, response.headers["location"]) == (303, "/")
    cookie = response.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert door.ask("/", "GET", cookie=cookie.partition(";")[0])[0] == 200
    assert (
        "Secure"
        in sign_in(door, f"key={door.texts['team']}".encode(), x_forwarded_proto=b"https").headers["set-cookie"]
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"x_forwarded_proto": b"HTTPS"},
        {"x_forwarded_proto": b"https, http"},
        {"origin": b"https://nlu.example"},
        {"x_forwarded_proto": b"http", "origin": b"https://nlu.example"},
    ],
)
def test_the_cookie_of_a_page_behind_tls_is_sent_over_tls_only(door: Door, headers: dict[str, bytes]) -> None:
    """Whoever ends TLS may write its header in other ways or not at all; a browser says where its page is from."""
    cookie = sign_in(door, f"key={door.texts['team']}".encode(), **headers).headers["set-cookie"]
    assert "Secure" in cookie.split("; ")


@pytest.mark.parametrize("site", [b"cross-site", b"same-site"])
def test_another_site_cannot_sign_a_visitor_in(door: Door, site: bytes) -> None:
    """With a key of its own, under which the visitor would then ask."""
    response = sign_in(door, f"key={door.texts['team']}".encode(), sec_fetch_site=site)
    assert (response.status_code, "set-cookie" in response.headers) == (401, False)


def test_a_form_that_is_longer_than_any_key_is_not_read(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no key, and a megabyte of fields takes a tenth of a second of everybody's time."""
    read: list[Any] = []
    monkeypatch.setattr(signin, "parse_qs", lambda text: read.append(text) or {})
    assert sign_in(door, b"a=&" * 300_000).status_code == 401
    assert read == []


@pytest.mark.parametrize("body", [b"", b"key=", b"key=rubbish", b"\xff\xfe", b"key=%3Cscript%3E"])
def test_what_is_no_key_gets_the_form_again(door: Door, body: bytes) -> None:
    response = sign_in(door, body)
    assert (response.status_code, "set-cookie" in response.headers) == (401, False)
    assert 'role="alert"' in bytes(response.body).decode()
    assert "<script" not in bytes(response.body).decode()


@pytest.mark.parametrize("path", ["/ner", "/models/ner", "/a\nforged"])
def test_a_fault_of_ours_is_answered_and_logged_without_the_key(
    door: Door, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is raised before anything was sent would leave the caller waiting."""

    def broken(presented: str) -> None:
        raise ValueError(presented)

    monkeypatch.setattr(door.guard.keys, "find", broken)
    status, body, _ = door.ask(path, x_api_key=door.texts["team"])
    failure = "the server failed on this request"
    assert (status, body["error"]) == (500, failure if "models" in path else {"code": "internal", "message": failure})
    assert door.refusals == ["internal"]
    assert "ValueError" in caplog.text
    assert door.texts["team"] not in caplog.text
    assert "forged" not in caplog.text


def test_a_websocket_is_closed(door: Door) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/ner", "query_string": b"", "headers": []}
    asyncio.run(door.guard(scope, None, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_checking_a_key_costs_microseconds(door: Door) -> None:
    some = door.key("some", rate=1e9, bundles=["ner"])
    scope = {"path": "/ner", "headers": [(b"host", b"x"), (b"authorization", b"Bearer " + some.encode())] * 4}
    seconds = min(timeit.repeat(lambda: door.guard._admit(scope), number=200, repeat=20)) / 200
    assert seconds < 50e-6, "5 on a quiet machine"
