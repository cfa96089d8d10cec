"""A server as a predictor: what is asked again, in parts, or given up. The server of these tests reads a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from benchmarks import remote
from benchmarks.predictors import Outcome, PredictorError, ask_all
from benchmarks.remote import OverHttp

Reply = tuple[int, dict[str, str], Any]
MODEL = {"name": "m", "suite": "klue/ynat", "scores": [{"metric": "macro_f1", "value": 1.0, "n": 2, "data": "d"}]}
ITEMS = [{"text": str(i)} for i in range(5)]


class Script:
    """A server that answers a batch as `say` says, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.say: Callable[[list[str]], Reply] = answered
        script = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(200, {}, {"models": [MODEL]} if self.path == "/v1/models" else {})

            def do_POST(self) -> None:
                assert self.path == "/m/batch"
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                script.asked.append([item["text"] for item in body["items"]])
                self.reply(*script.say(script.asked[-1]))

            def reply(self, status: int, headers: dict[str, str], body: Any) -> None:
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Not to stderr."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/m"


def results(texts: list[str], *busy: str) -> list[dict[str, Any]]:
    error = {"error": {"code": "overloaded", "message": "wait", "field": "items.0"}}
    return [error if text in busy else {"label": text} for text in texts]


def answered(texts: list[str]) -> Reply:
    return 200, {}, {"results": results(texts)}


def refusal(code: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": "no"}}


@pytest.fixture
def script() -> Iterator[Script]:
    made = Script()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were slept, without sleeping."""
    slept: list[float] = []
    monkeypatch.setattr(remote, "sleep", slept.append)
    return slept


def labels(outcomes: list[Outcome]) -> list[str | None]:
    return [outcome.answer["label"] if outcome.answer else None for outcome in outcomes]


def test_a_model_is_what_the_server_says_of_it(script: Script) -> None:
    model = OverHttp(script.url + "/")
    assert (model.name, model.suite, model.sha256) == ("m", "klue/ynat", None)
    assert [(score.metric, score.value) for score in model.scores] == [("macro_f1", 1.0)]


def test_outcomes_of_many_batches_are_in_order(script: Script) -> None:
    items = [{"text": str(i)} for i in range(200)]
    outcomes = [o for chunk in ask_all(OverHttp(script.url), items, threads=3) for o in chunk]
    assert labels(outcomes) == [str(i) for i in range(200)]
    assert len(script.asked) == 7
    assert max(map(len, script.asked)) == 32


def test_long_items_travel_in_smaller_batches(script: Script) -> None:
    items = [{"text": "가" * 40_000}] * 5  # 120 kB each
    list(ask_all(OverHttp(script.url), items, threads=1))
    assert [len(asked) for asked in script.asked] == [2, 2, 1]


def test_a_server_that_is_busy_is_asked_again_when_it_says(script: Script, pauses: list[float]) -> None:
    replies = iter([(429, {"Retry-After": "7"}, refusal("overloaded")), (503, {}, refusal("not_ready"))])
    script.say = lambda texts: next(replies, None) or answered(texts)
    assert labels(OverHttp(script.url).ask(ITEMS)) == list("01234")
    assert pauses == [7, 2 * remote.PAUSE]
    assert len(script.asked) == 3


def test_only_items_that_were_not_answered_are_asked_again(script: Script, pauses: list[float]) -> None:
    busy = iter([("1", "3"), ("3",), ()])
    script.say = lambda texts: (200, {}, {"results": results(texts, *next(busy))})
    assert labels(OverHttp(script.url).ask(ITEMS)) == list("01234")
    assert script.asked == [list("01234"), ["1", "3"], ["3"]]
    assert pauses == [remote.PAUSE, remote.PAUSE]


def test_patience_ends(script: Script, pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, remote.PATIENCE, remote.PATIENCE + 1])
    monkeypatch.setattr(remote, "monotonic", lambda: next(clock))
    script.say = lambda texts: (429, {}, refusal("overloaded"))
    with pytest.raises(PredictorError, match="busy for more than"):
        OverHttp(script.url).ask(ITEMS)
    assert pauses == [remote.PAUSE]


@pytest.mark.parametrize("status", [413, 422])
def test_a_batch_that_is_too_large_is_asked_in_halves(script: Script, status: int) -> None:
    script.say = lambda texts: (status, {}, refusal("too_large")) if len(texts) > 2 else answered(texts)
    assert labels(OverHttp(script.url).ask(ITEMS)) == list("01234")
    assert script.asked == [list("01234"), ["0", "1"], list("234"), ["2"], ["3", "4"]]


def test_an_item_that_is_too_large_is_refused_alone(script: Script) -> None:
    script.say = lambda texts: (413, {}, refusal("body_too_large")) if "2" in texts else answered(texts)
    outcomes = OverHttp(script.url).ask(ITEMS)
    assert labels(outcomes) == ["0", "1", None, "3", "4"]
    assert outcomes[2].error == {"code": "body_too_large", "message": "no"}


def test_an_items_error_has_the_path_within_the_item(script: Script) -> None:
    errors = [
        {"code": "empty_text", "message": "a", "field": "items.0.text"},
        {"code": "x", "message": "b", "field": "items.1"},
    ]
    script.say = lambda texts: (200, {}, {"results": [{"error": error} for error in errors]})
    outcomes = OverHttp(script.url).ask(ITEMS[:2])
    assert outcomes[0].error == {"code": "empty_text", "message": "a", "field": "text"}
    assert outcomes[1].error == {"code": "x", "message": "b"}


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        ((500, {}, refusal("internal")), "answered 500: .*internal"),
        ((404, {}, refusal("not_found")), "answered 404"),
        ((200, {}, b"<html>"), "answered 200, and not in JSON"),
    ],
)
def test_other_answers_are_errors(script: Script, reply: Reply, complaint: str) -> None:
    script.say = lambda _: reply
    with pytest.raises(PredictorError, match=complaint):
        OverHttp(script.url).ask(ITEMS)


def test_what_is_no_model_is_an_error(script: Script) -> None:
    with pytest.raises(PredictorError, match="the server has no model 'other'"):
        OverHttp(script.url.replace("/m", "/other"))
    for url in ("127.0.0.1:3000/m", "http://127.0.0.1:3000", "ftp://host/m"):
        with pytest.raises(PredictorError, match="is no model's URL"):
            OverHttp(url)
    with pytest.raises(PredictorError, match=r"127\.0\.0\.1:1/v1/models: no answer: "):
        OverHttp("http://127.0.0.1:1/m")
