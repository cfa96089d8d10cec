"""When a client asks again: where the server was busy or away, never against its `Retry-After`, never for ever."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from flaky_server import CUT, DROP, Caller, Deed, Flaky, Say, Wait, nowhere, refusal

from clueserve import (
    BadRequest,
    ConnectionFailed,
    DeadlineExceeded,
    NotAllowed,
    NotReady,
    Overloaded,
    ServerFault,
    UnknownModel,
)
from clueserve.steps import Retries, seconds


@pytest.mark.parametrize(
    "trouble",
    [[refusal(429, "overloaded")], [refusal(503, "not_ready")], [DROP], [DROP, refusal(503, "not_ready"), DROP]],
    ids=["429", "503", "dropped", "all"],
)
def test_a_server_that_is_busy_or_gone_is_asked_again(flaky: Flaky, call: Caller, trouble: list[Deed]) -> None:
    flaky.script.extend(trouble)
    assert call("ask", "news", text="서울").label == "서울"
    assert [one.body for one in flaky.posts] == [{"text": "서울"}] * (len(trouble) + 1)


def test_a_server_is_not_asked_before_its_retry_after(flaky: Flaky, call: Caller) -> None:
    flaky.script.append(refusal(429, "overloaded", Retry_After="1"))
    call("ask", "news", text="a")
    first, second = flaky.posts
    assert 1.0 <= second.at - first.at < 3


def test_who_would_have_to_wait_past_the_timeout_is_told_at_once(flaky: Flaky, call: Caller) -> None:
    flaky.script.append(refusal(429, "overloaded", Retry_After="30"))
    start = time.monotonic()
    with pytest.raises(Overloaded) as told:
        call("ask", "news", text="a", settings={"timeout": 5})
    assert time.monotonic() - start < 2
    assert (told.value.code, told.value.status, len(flaky.posts)) == ("overloaded", 429, 1)


@pytest.mark.parametrize(
    ("trouble", "error", "code"),
    [
        (refusal(400, "invalid_json"), BadRequest, "invalid_json"),
        (refusal(401, "unauthorized"), NotAllowed, "unauthorized"),
        (refusal(403, "forbidden"), NotAllowed, "forbidden"),
        (refusal(404, "not_found"), BadRequest, "not_found"),
        (refusal(413, "body_too_large"), BadRequest, "body_too_large"),
        (refusal(422, "empty_text"), BadRequest, "empty_text"),
        (refusal(500, "internal"), ServerFault, "internal"),
        (refusal(504, "deadline_exceeded"), DeadlineExceeded, "deadline_exceeded"),
        (Say(502, b"<h1>Bad gateway</h1>"), ServerFault, "not_clueserve"),
        (Say(200, b"<h1>Welcome</h1>"), ServerFault, "not_clueserve"),
        (Say(301, b"", {"Location": "/elsewhere"}), ServerFault, "not_clueserve"),
        (CUT, ConnectionFailed, "connection_failed"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Say) else None,
)
def test_other_failures_are_told_at_once(flaky: Flaky, call: Caller, trouble: Deed, error: Any, code: str) -> None:
    flaky.script.append(trouble)
    with pytest.raises(error) as told:
        call("ask", "news", text="a")
    assert told.value.code == code
    assert len(flaky.posts) == 1


def test_an_error_says_where_and_why(flaky: Flaky, call: Caller) -> None:
    body = {"error": {"code": "unknown_field", "message": "Extra inputs are not permitted", "field": "txt"}}
    flaky.script.append(Say(422, body))
    with pytest.raises(BadRequest) as told:
        call("ask", "news", txt="a")
    error = told.value
    assert (error.code, error.field, error.status) == ("unknown_field", "txt", 422)
    assert str(error) == "txt: Extra inputs are not permitted (unknown_field)"
    assert error.body() == body["error"]


def test_patience_ends_after_so_many_retries(flaky: Flaky, call: Caller) -> None:
    flaky.script.extend([refusal(503, "not_ready")] * 9)
    with pytest.raises(NotReady):
        call("ask", "news", text="a", settings={"retries": 2})
    assert len(flaky.posts) == 3


def test_a_slow_answer_is_given_up_at_the_timeout(flaky: Flaky, call: Caller) -> None:
    flaky.script.append(Wait(3))
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded) as told:
        call("ask", "news", text="a", timeout=0.4)
    assert 0.3 < time.monotonic() - start < 2
    assert (told.value.code, told.value.status) == ("client_timeout", None)


def test_retries_share_the_timeout_of_the_call(flaky: Flaky, call: Caller) -> None:
    flaky.script.extend([DROP, refusal(503, "not_ready")] * 50)
    start = time.monotonic()
    with pytest.raises((NotReady, DeadlineExceeded, ConnectionFailed)):
        call("ask", "news", text="a", timeout=0.8, settings={"retries": 100})
    assert time.monotonic() - start < 2


def test_nobody_at_the_address_is_told_with_the_address(call: Caller) -> None:
    with pytest.raises(ConnectionFailed, match=r"no answer from http://127\.0\.0\.1:\d+: ") as told:
        call("models", settings={"url": nowhere(), "retries": 1})
    assert (told.value.status, told.value.field) == (None, None)


def test_an_unknown_model_is_told_with_close_names_and_asks_no_model(flaky: Flaky, call: Caller) -> None:
    with pytest.raises(UnknownModel, match="did you mean news") as told:
        call("ask", "newss", text="a")
    assert (told.value.status, flaky.posts) == (404, [])


def test_another_server_at_the_address_is_recognised(flaky: Flaky, call: Caller) -> None:
    flaky.lists.append(Say(200, {"object": "list", "data": []}))
    with pytest.raises(ServerFault, match="no clueserve server"):
        call("models")


def test_pauses_double_up_to_the_longest_and_never_undercut_the_server() -> None:
    late = Retries(9, first=0.1, longest=1.0, draw=lambda: 1.0)
    assert [round(late.pause(n), 3) for n in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    early = Retries(9, first=0.1, longest=1.0, draw=lambda: 0.0)
    assert [round(early.pause(n), 3) for n in range(3)] == [0.05, 0.1, 0.2]
    assert early.pause(0, 2.0) == 2.0
    assert late.pause(0, 2.0) == pytest.approx(2.1)


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=100)
    assert seconds("7") == 7
    assert seconds(format_datetime(soon, usegmt=True)) == pytest.approx(100, abs=3)
    assert seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert seconds("soon") is seconds(None) is None
