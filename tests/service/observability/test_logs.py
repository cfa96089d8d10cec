"""Log lines: JSON for every logger, one line a request, and nothing of what was sent."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from service.observability import logs
from service.observability.exchange import Exchange
from service.types import Timing


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the root's handler has written; loggers and warnings are as before afterwards."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    named = [logging.root, logs.log, *map(logging.getLogger, ("uvicorn", "uvicorn.error", "x"))]
    before = [(logger.level, logger.handlers[:], logger.propagate, logger.disabled) for logger in named]
    for logger in named:
        # Whatever else ran in this process may have set up uvicorn's loggers its own way.
        logger.handlers, logger.propagate, logger.disabled = [], True, False
        logger.setLevel(logging.INFO)
    logging.root.handlers = [handler]
    logs.log.handlers, logs.log.propagate = [handler], False
    yield out
    logging.captureWarnings(False)
    for logger, (level, handlers, propagate, disabled) in zip(named, before, strict=True):
        logger.setLevel(level)
        logger.handlers, logger.propagate, logger.disabled = handlers, propagate, disabled


def objects(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def exchange(status: int = 200) -> Exchange:
    made = Exchange("POST", "/{model}", b"abc-1")
    made.status = status
    return made


def test_every_logger_writes_json_once_it_is_wanted(lines: io.StringIO) -> None:
    logs.configure("json")
    logging.getLogger("uvicorn.error").warning("%d connections", 3)
    (line,) = objects(lines)
    assert line.keys() == {"timestamp", "level", "logger", "process", "message"}
    assert (line["level"], line["logger"], line["message"]) == ("WARNING", "uvicorn.error", "3 connections")
    assert line["timestamp"].endswith("+00:00")


def test_an_exception_stays_within_its_line(lines: io.StringIO) -> None:
    logs.configure("json")
    try:
        raise OSError("disk\nfull")
    except OSError:
        logging.getLogger("x").exception("failed")
    (line,) = objects(lines)
    assert line["message"] == "failed"
    assert line["exception"].splitlines()[-2:] == ["OSError: disk", "full"]


def test_text_is_left_as_bentoml_writes_it(lines: io.StringIO) -> None:
    logs.configure("text")
    logging.getLogger("x").warning("plain")
    assert lines.getvalue() == "plain\n"


def test_a_request_has_one_line_of_names_and_numbers(lines: io.StringIO) -> None:
    logs.configure("json")
    asked = exchange()
    asked.answered("ner", Timing(queue=0.001, tokenize=0.002, inference=0.03, decode=0.004, rows=3, tokens=12))
    logs.request_line(asked, "ab" * 16, "all")
    (line,) = objects(lines)
    assert line.pop("ms") >= 0
    for name in ("timestamp", "process"):
        line.pop(name)
    assert line == {
        "level": "INFO",
        "logger": "bentoml.clueserve.request",
        "request_id": "abc-1",
        "method": "POST",
        "route": "/{model}",
        "model": "ner",
        "status": 200,
        "code": "",
        "items": 1,
        "failed": 0,
        "queue_ms": 1.0,
        "tokenize_ms": 2.0,
        "inference_ms": 30.0,
        "decode_ms": 4.0,
        "rows": 3,
        "tokens": 12,
        "trace_id": "ab" * 16,
    }


def test_as_text_the_line_is_names_with_values(lines: io.StringIO) -> None:
    logs.request_line(exchange(), None, "all")
    assert lines.getvalue().startswith("request_id=abc-1 method=POST route=/{model} model= status=200 code= ms=")


def test_of_several_items_the_line_has_the_longest_times_and_all_tokens() -> None:
    asked = exchange()
    asked.answered("ner", Timing(0.1, 0.2, 0.3, 0.4, 5, 10))
    asked.answered("dp", Timing(0.4, 0.1, 0.2, 0.3, 9, 20))
    asked.refused("dp")
    assert (asked.items, asked.failed, list(asked.models)) == (3, 1, ["ner", "dp"])
    assert asked.most == Timing(0.4, 0.2, 0.3, 0.4, 9, 30)


@pytest.mark.parametrize(
    ("which", "status", "written"),
    [("off", 500, 0), ("errors", 499, 0), ("errors", 500, 1), ("all", 200, 1), ("all", 503, 1)],
)
def test_which_requests_are_logged_is_a_setting(
    lines: io.StringIO, which: logs.Which, status: int, written: int
) -> None:
    logs.request_line(exchange(status), None, which)
    assert len(lines.getvalue().splitlines()) == written


@pytest.mark.parametrize("wished", [b"a", b"0f3c-77.b_2", b"x" * 64])
def test_a_callers_own_id_is_taken(wished: bytes) -> None:
    assert Exchange("GET", "/", wished).id == wished


@pytest.mark.parametrize("wished", [None, b"", b"x" * 65, "이름".encode(), b"a b", b"a\nb", b'a"b', b"-a", b"<script>"])
def test_an_id_that_could_hold_anything_is_replaced(wished: bytes | None) -> None:
    first, second = (Exchange("GET", "/", wished).id for _ in range(2))
    assert len(first) == 16
    assert first != second


def test_a_method_that_nobody_knows_has_no_name() -> None:
    assert Exchange("BREW", "/", None).method == "_OTHER"
