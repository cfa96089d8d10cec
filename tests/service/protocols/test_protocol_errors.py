"""Every protocol writes the same errors in its own form; status, reason and headers are those of the service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from booth import Booth, Reply

from service.graph.session import Cost
from service.protocols import hf, oip, tei


def tensor(text: str) -> dict[str, Any]:
    return {"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}


REQUESTS: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "hf": ("/models/{}", lambda text: {"inputs": text}),
    "oip": ("/v2/models/{}/infer", lambda text: {"inputs": [tensor(text)]}),
    "tei": ("/tei/{}/predict", lambda text: {"inputs": text}),
    "tei by query": ("/predict?model={}", lambda text: {"inputs": text}),
}
TYPES = {
    "hf": {400: "invalid_json", 404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}
    | {415: "unsupported_media_type", 429: "overloaded", 500: "internal", 503: "not_ready", 504: "deadline_exceeded"},
    "oip": {},
    "tei": {429: "Overloaded", 424: "Backend", 503: "Unhealthy", 504: "Backend"},
}
pytestmark = pytest.mark.parametrize("protocol", REQUESTS)


def sent(booth: Booth, protocol: str, text: str = "네", name: str = "topic", **options: Any) -> Reply:
    path, body = REQUESTS[protocol]
    return booth.post(path.format(name), body(text) | options)


def told(protocol: str, reply: Reply, status: int) -> str:
    """The message of an error that has its protocol's form."""
    kinds = TYPES[protocol.split(maxsplit=1)[0]]
    want = {"error"} if not kinds else {"error", "error_type"}
    assert (reply.status, set(reply.json)) == (status, want)
    if kinds:
        assert reply.json["error_type"] == kinds.get(status, "Validation")
    message: str = reply.json["error"]
    return message


def test_an_unknown_model(booth: Booth, protocol: str) -> None:
    assert "/v1/models" in told(protocol, sent(booth, protocol, name="none"), 404)
    assert booth.counts.refusals == ["not_found"]
    assert not booth.counts.outcomes


def test_a_body_that_is_no_json(booth: Booth, protocol: str) -> None:
    reply = booth.post(REQUESTS[protocol][0].format("topic"), b'{"inputs": ')
    assert "Invalid JSON" in told(protocol, reply, 400)
    assert booth.counts.outcomes == {("topic", "invalid_json"): 1}


def test_a_body_of_another_type(booth: Booth, protocol: str) -> None:
    reply = booth.post(REQUESTS[protocol][0].format("topic"), b"a", content_type="text/plain")
    assert "application/json" in told(protocol, reply, 415)


def test_a_body_that_is_too_large(booth_of: Callable[..., Booth], protocol: str) -> None:
    small = booth_of("topic", max_body_bytes=1024)
    assert "1024" in told(protocol, sent(small, protocol, "네" * 1000), 413)


def test_another_method(booth: Booth, protocol: str) -> None:
    reply = booth.get(REQUESTS[protocol][0].format("topic"))
    assert told(protocol, reply, 405) == "use POST"
    assert reply.headers["allow"] == "POST"


def test_a_model_that_is_not_loaded(booth: Booth, protocol: str) -> None:
    runner = booth.server.runners.pop("topic")
    try:
        reply = sent(booth, protocol)
    finally:
        booth.server.runners["topic"] = runner
    assert told(protocol, reply, 503) == "topic is not loaded"
    assert reply.headers["retry-after"] == "1"


def test_too_much_work(booth_of: Callable[..., Booth], protocol: str) -> None:
    """Nothing may wait here that is predicted to wait at all; the first request is already being answered."""
    busy = booth_of("topic", max_wait_ms=1)
    runner = busy.server.runners["topic"]
    runner.session.cost = Cost(t0=5.0, c=0.0)
    path, body = REQUESTS[protocol]
    (reply,) = busy.behind(lambda: busy.ask("POST", path.format("topic"), body("네")))
    assert "predicted wait" in told(protocol, reply, 429)
    assert int(reply.headers["retry-after"]) >= 1


def test_a_deadline_that_passes(booth_of: Callable[..., Booth], protocol: str) -> None:
    hasty = booth_of("topic", take=0.01, timeout_ms=400)
    path, body = REQUESTS[protocol]

    async def run() -> Reply:
        hasty.gate.clear()
        hasty.busy.clear()
        first = asyncio.create_task(hasty.ask("POST", "/topic", {"text": "네"}))
        await asyncio.to_thread(hasty.busy.wait, 20)
        reply = await hasty.ask("POST", path.format("topic"), body("네"))
        hasty.gate.set()
        await first
        return reply

    assert "not answered within 400 ms" in told(protocol, asyncio.run(run()), 504)


def test_a_fault_of_the_model(booth_of: Callable[..., Booth], protocol: str) -> None:
    broken = booth_of("topic")

    def fail(*_: Any) -> Any:
        raise RuntimeError("secret text")

    broken.server.runners["topic"].task.predict = fail  # type: ignore[method-assign]
    reply = sent(broken, protocol)
    assert told(protocol, reply, 424 if protocol.startswith("tei") else 500) == "the model failed on this item"


def test_the_openapi_document_covers_its_paths(booth: Booth, protocol: str) -> None:
    module = {"hf": hf, "oip": oip, "tei": tei}[protocol.split(maxsplit=1)[0]]
    paths = module.paths(booth.server)
    assert "$ref" not in json.dumps(paths)
    served = {}
    for path, methods in module.routes(booth.server).items():
        parts = path.split("/")
        if "versions" in parts:
            parts[parts.index("versions") + 1] = "{version}"
        served["/".join("{model}" if part in booth.server.bundles else part for part in parts)] = methods
    assert {path: set(found) for path, found in paths.items()} == {
        path: {method.lower() for method in methods} for path, methods in served.items()
    }
