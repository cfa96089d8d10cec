"""A server over HTTP that answers as ours does, or misbehaves as a test tells it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Caller = Callable[..., Any]
"""`call("ask", "news", text="a", settings={...})`: see the fixture."""
LIMITS = {"max_batch_items": 10, "max_body_bytes": 2000, "max_text_chars": 1000}


def entry(name: str, family: str = "text-classification", **example: Any) -> dict[str, Any]:
    return {
        "name": name,
        "ready": True,
        "family": family,
        "suite": "klue/ynat",
        "language": "ko",
        "labels": ["a", "b"],
        "max_length": 128,
        "precision": "fp32",
        "example": example or {"text": "오늘"},
    }


@dataclass(frozen=True)
class Say:
    """Answer this, whatever was asked."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wait:
    """Answer well, but only after so many seconds."""

    seconds: float


DROP, CUT = "close the connection without a byte", "close it in the middle of the answer"
Deed = Say | Wait | str


def refusal(status: int, code: str, **headers: str) -> Say:
    body = {"error": {"code": code, "message": f"{code}!"}}
    return Say(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class Seen:
    path: str
    body: Any
    size: int
    at: float
    headers: Mapping[str, str]


class Flaky:
    """`script`: what the next POSTs get; after it, all are answered well. Texts are answered with themselves as label:
    but `empty` and, the first time, `busy...` are refused."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.models = [entry("news"), entry("topic"), entry("pair", "pair-classification", text="a", text_pair="b")]
        self.limits = dict(LIMITS)
        self.script: deque[Deed] = deque()
        self.lists: deque[Deed] = deque()
        """What the next GETs of the list of models get."""
        self.seen: list[Seen] = []
        self.connections = 0
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()
        self._were_busy: set[str] = set()
        self.busy_for: int | None = None
        """What a refused item is told of when to come again."""

    @property
    def posts(self) -> list[Seen]:
        return [one for one in self.seen if one.path != "/v1/models"]

    def good(self, path: str, body: Any) -> Say:
        if path == "/v1/models":
            return Say(200, {"models": self.models, "limits": self.limits})
        if path == "/parse":
            return Say(200, {t: [self.cell(x, f"text.{i}") for i, x in enumerate(body["text"])] for t in body["tasks"]})
        if path.endswith("/batch"):
            items = body["items"]
            return Say(200, {"results": [self.cell(x["text"], f"items.{i}.text") for i, x in enumerate(items)]})
        timing = {"X-Queue-Ms": "1.5", "X-Tokenize-Ms": "0.50", "X-Inference-Ms": "20.00", "X-Batch-Rows": "3"}
        return Say(200, self.cell(body["text"], "text"), timing)

    def cell(self, text: str, path: str) -> dict[str, Any]:
        if text == "empty":
            return {"error": {"code": "empty_text", "message": "the text is empty", "field": path}}
        if text.startswith("busy") and text not in self._were_busy:
            self._were_busy.add(text)
            busy = {"code": "overloaded", "message": "too much to do", "field": path.rpartition(".")[0]}
            return {"error": busy | ({"retry_after": self.busy_for} if self.busy_for else {})}
        score = {"label": text, "score": 0.75}
        return {
            "label": text,
            "score": 0.75,
            "scores": [score],
            "labels": [],
            "value": None,
            "truncated": False,
            "tokens": len(text),
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    flaky: Flaky

    def setup(self) -> None:
        super().setup()
        with self.flaky.lock:
            self.flaky.connections += 1

    def do_GET(self) -> None:
        self._answer(self.flaky.lists, None, 0)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        self._answer(self.flaky.script, json.loads(content), len(content))

    def _answer(self, script: deque[Deed], body: Any, size: int) -> None:
        flaky = self.flaky
        with flaky.lock:
            flaky.seen.append(Seen(self.path, body, size, time.monotonic(), dict(self.headers)))
            deed: Deed = script.popleft() if script else Wait(0)
            flaky.under_way += 1
            flaky.most_under_way = max(flaky.most_under_way, flaky.under_way)
        try:
            if isinstance(deed, Wait):
                time.sleep(deed.seconds)
                deed = flaky.good(self.path, body)
        finally:
            with flaky.lock:
                flaky.under_way -= 1
        if deed == DROP:
            self.close_connection = True
            return
        said = deed if isinstance(deed, Say) else Say(200, {"half": "of it"})
        content = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
        self.send_response(said.status)
        for name, value in said.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) + (10 if deed == CUT else 0)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = self.close_connection or deed == CUT

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has given up is what some tests are about."""


@contextmanager
def flaky_server() -> Iterator[Flaky]:
    handler = type("OneHandler", (Handler,), {})
    with Quiet(("127.0.0.1", 0), handler) as server:
        handler.flaky = Flaky(server.server_address[1])  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield handler.flaky  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


def nowhere() -> str:
    """The address of a server that is not there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
