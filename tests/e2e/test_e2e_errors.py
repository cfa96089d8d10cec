"""What a bad request is told: a status, a code, a message and the field; and the next request is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import httpx
import pytest
from e2e_http import Connection, Reply, series
from e2e_servers import DEMO

JSON = {"content-type": "application/json"}


def is_error(response: httpx.Response, status: int, code: str, field: str | None = None) -> None:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert (error["code"], error.get("field")) == (code, field)
    assert len(error["message"]) > 5


@pytest.fixture(autouse=True)
def next_request_is_answered(client: httpx.Client) -> Iterator[None]:
    yield
    answer = client.post("/klue-ynat", json={"text": "코스피 상승 마감"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"text":',
        b"{'text': 'a'}",
        b'{"text": "\xff\xfe"}',
        '{"text": "서울"}'.encode("euc-kr"),
        '{"text": "서울"}'.encode("utf-16"),
        b'{"text": "\\ud800 a"}',
        b'{"text": "a\\udc00\\ud800b"}',
        b'{"text": "a\\ud800"}',
        b'{"text":' + b"[" * 100_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_that_is_not_json_is_400_at_once(client: httpx.Client, body: bytes) -> None:
    # IBM/MAX-Question-Answering#10, openai/tiktoken#82: such bodies were 500 elsewhere.
    start = perf_counter()
    is_error(client.post("/klue-ynat", content=body, headers=JSON), 400, "invalid_json")
    assert perf_counter() - start < 1


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "missing_field", "text"),
        ([], "invalid_value", None),
        (None, "invalid_value", None),
        ("text", "invalid_value", None),
        ({"text": None}, "invalid_value", "text"),
        ({"text": 3}, "invalid_value", "text"),
        ({"text": ["x"]}, "invalid_value", "text"),
        ({"text": {}}, "invalid_value", "text"),
        ({"text": "a", "return_all_scoers": True}, "unknown_field", "return_all_scoers"),
        ({"text": "a", "top_k": 0}, "invalid_value", "top_k"),
        ({"text": "a", "top_k": "1"}, "invalid_value", "top_k"),
        ({"text": "a", "top_k": True}, "invalid_value", "top_k"),
        ({"text": "a", "offset_unit": "chars"}, "invalid_value", "offset_unit"),
        ({"text": "a", "timeout_ms": 0}, "invalid_value", "timeout_ms"),
        ({"text": "a", "top_k": float("nan")}, "invalid_value", "top_k"),
        ({"text": "a", "on_overflow": "window"}, "invalid_value", "on_overflow"),
        ({"text": "가" * 100_001}, "text_too_long", "text"),
        ({"text": "반도체 수출 " * 200, "on_overflow": "error"}, "text_too_long", "text"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_item_that_is_not_one_is_422_with_its_field(
    client: httpx.Client, body: Any, code: str, field: str | None
) -> None:
    is_error(client.post("/klue-ynat", content=json.dumps(body), headers=JSON), 422, code, field)


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"text": "모든 직원은 쉰다. 아무도 일하지 않는다."}, "missing_field", "text_pair"),
        ({"text": "배송이 빨랐어요", "text_pari": "배송"}, "missing_field", "text_pair"),
        ([["a man sleeps", "a person rests"]], "invalid_value", None),
        ({"text": ["a man sleeps", "a person rests"]}, "invalid_value", "text"),
    ],
    ids=["no-pair", "typo", "list", "list-as-text"],
)
def test_a_pair_must_be_given_as_two_named_fields(
    client: httpx.Client, body: Any, code: str, field: str | None
) -> None:
    # huggingface/transformers#17305, deepset-ai/FARM#722: half of a pair was scored without a word.
    response = client.post("/klue-nli", json=body)
    is_error(response, 422, response.json()["error"]["code"], response.json()["error"].get("field"))
    assert (response.json()["error"]["code"], response.json()["error"].get("field")) in {
        (code, field),
        ("unknown_field", "text_pari"),
    }


@pytest.mark.parametrize("empty", ["", " ", "\n\t\u3000", "\u00a0", "\u200b\u200b\ufeff\u2060"], ids=ascii)
def test_empty_text_is_the_same_422_for_every_field_of_every_model(client: httpx.Client, empty: str) -> None:
    # huggingface/transformers#3809, #2623: crashes and hangs, different for every task.
    for model in client.get("/v1/models").json()["models"]:
        for field in {"text", "text_pair", "question", "context"} & model["example"].keys():
            is_error(client.post(model["endpoint"], json=model["example"] | {field: empty}), 422, "empty_text", field)


@pytest.mark.parametrize("text", ["\x00", "good\x00movie\x07", "\u0301", "\u200d", "\U000e0041", "\ufffd"], ids=ascii)
def test_odd_characters_are_answered_or_refused_but_never_a_fault(client: httpx.Client, text: str) -> None:
    for model in client.get("/v1/models").json()["models"]:
        field = "text" if "text" in model["example"] else "context"
        response = client.post(model["endpoint"], json=model["example"] | {field: text})
        assert response.status_code in (200, 422), model["name"]


@pytest.mark.parametrize(
    ("subject", "code", "field"),
    [
        ({"start": 0, "end": 0}, "invalid_value", "subject.end"),
        ({"start": 5, "end": 5}, "invalid_span", "subject"),
        ({"start": 8, "end": 3}, "invalid_span", "subject"),
        ({"start": 0, "end": 99}, "invalid_span", "subject.end"),
        ({"start": 6, "end": 7}, "invalid_span", "subject"),
        ({"start": 0.5, "end": 5}, "invalid_value", "subject.start"),
        ({"start": 0}, "missing_field", "subject.end"),
        ([0, 5], "invalid_value", "subject"),
    ],
    ids=str,
)
def test_a_span_that_marks_nothing_is_422_with_its_path(
    client: httpx.Client, subject: Any, code: str, field: str
) -> None:
    item = {"text": "현대자동차의 정의선 회장", "subject": subject, "object": {"start": 7, "end": 10}}
    is_error(client.post("/klue-re", json=item), 422, code, field)


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_another_content_type_is_415(client: httpx.Client, media: str) -> None:
    response = client.post("/klue-ynat", content=b'{"text": "a"}', headers={"content-type": media})
    is_error(response, 415, "unsupported_media_type")


def test_a_charset_with_the_content_type_and_none_at_all_are_fine(client: httpx.Client) -> None:
    for headers in ({"content-type": "Application/JSON; charset=utf-8"}, {}):
        assert client.post("/klue-ynat", content=b'{"text": "a"}', headers=headers).status_code == 200


def test_a_body_over_the_limit_is_413_with_and_without_a_declared_length(server: str) -> None:
    body = json.dumps({"text": "a" * (2 << 20)}).encode()
    for content in (body, (body[i : i + 65536] for i in range(0, len(body), 65536))):
        with httpx.Client(base_url=server, trust_env=False) as client:
            is_error(client.post("/klue-ynat", content=content, headers=JSON), 413, "body_too_large")


def test_the_last_chunk_of_a_body_counts_too(server: str) -> None:
    limit = 1 << 20
    body = json.dumps({"text": "a" * limit}).encode()

    def chunk(data: bytes) -> bytes:
        return f"{len(data):x}\r\n".encode() + data + b"\r\n"

    async def send() -> Reply:
        connection = await Connection(server).open()
        head = b"POST /klue-ynat HTTP/1.1\r\nhost: e2e\r\ncontent-type: application/json\r\n"
        connection.writer.write(head + b"transfer-encoding: chunked\r\n\r\n" + chunk(body[:-100]))
        await asyncio.sleep(0.5)
        connection.writer.write(chunk(body[-100:]) + b"0\r\n\r\n")
        reply = await connection.receive()
        await connection.close()
        return reply

    assert asyncio.run(send()).status == 413


@pytest.mark.parametrize("path", ["/nope", "/klue-ner/", "/klue-ner/nope", "/KLUE-NER", "/..%2fklue-ner"])
def test_an_unknown_path_is_404(client: httpx.Client, path: str) -> None:
    for method in ("GET", "POST"):
        is_error(client.request(method, path), 404, "not_found")


def test_another_method_is_405_and_names_the_right_one(client: httpx.Client) -> None:
    for path in (f"/{name}{form}" for name in DEMO for form in ("", "/batch")):
        response = client.get(path)
        is_error(response, 405, "method_not_allowed")
        assert response.headers["allow"] == "POST"
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        is_error(client.request(method, "/klue-ner"), 405, "method_not_allowed")
    assert client.post("/v1/models", json={}).headers["allow"] == "GET"


def test_unknown_paths_add_no_series_to_the_metrics(client: httpx.Client) -> None:
    # perdy/starlette-prometheus#7: a label value for every path that a stranger asks for.
    client.get("/nope")
    before = series(client.get("/metrics").text)
    for i in range(50):
        client.get(f"/nope/{i}?x={i}")
        client.post(f"/klue-ner/{i}", json={"text": "a"})
    after = series(client.get("/metrics").text)
    assert after.keys() == before.keys()
    refusals = 'clueserve_refusals_total{reason="not_found"}'
    assert after[refusals] == before[refusals] + 100
