"""What a body that is not what was asked for is told: a status, a code, and the path of the culprit."""

from __future__ import annotations

import asyncio
import json
from time import thread_time
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from service.edge.body import OFF_LOOP_BYTES, explain, parse
from service.edge.http import error_response, json_response
from service.edge.parse import ParseItem
from service.errors import InvalidItem, InvalidRequest, MethodNotAllowed, Overloaded, ServiceError
from service.protocols.tei import Rerank
from service.protocols.tensors import InputTensor, Request
from service.tasks import FAMILIES
from service.tasks.dialogue_state import Turn
from service.tasks.document_classification import Note


class Span(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    start: Annotated[int, Field(ge=0)]


class Ask(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    text: str
    top_k: Annotated[int, Field(ge=1)] | None = None
    span: Span | None = None
    choices: list[str] = []


def posted(body: bytes) -> Any:
    return asyncio.run(parse(Ask, body))


def refused(body: bytes) -> tuple[int, str, str | None]:
    with pytest.raises(ServiceError) as error:
        posted(body)
    return error.value.status, error.value.reason, error.value.field


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b'{"text":',
        b'{"text": "a",}',
        b"{'text': 'a'}",
        b'{"text": "\xff"}',
        '{"text": "뉴스"}'.encode("euc-kr"),
        b'\xef\xbb\xbf{"text": "a"}',
        rb'{"text": "\ud800"}',
        rb'{"text": "a\udc00\ud800b"}',
        b'{"text": "a"}{"text": "b"}',
        b'{"text": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_what_is_not_json_is_a_bad_request(body: bytes) -> None:
    """Lone surrogates and foreign encodings end here, before a tokenizer meets them (openai/tiktoken#82)."""
    assert refused(body) == (400, "invalid_json", None)


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "missing_field", "text"),
        ([], "invalid_value", None),
        (None, "invalid_value", None),
        ("text", "invalid_value", None),
        ([["a", "b"]], "invalid_value", None),
        ({"text": None}, "invalid_value", "text"),
        ({"text": 3}, "invalid_value", "text"),
        ({"text": ["a"]}, "invalid_value", "text"),
        ({"text": [["a"]]}, "invalid_value", "text"),
        ({"text": {}}, "invalid_value", "text"),
        ({"text": "a", "top_k": 0}, "invalid_value", "top_k"),
        ({"text": "a", "top_k": "1"}, "invalid_value", "top_k"),
        ({"text": "a", "top_k": 1.5}, "invalid_value", "top_k"),
        ({"text": "a", "top_k": True}, "invalid_value", "top_k"),
        ({"text": "a", "topk": 1}, "unknown_field", "topk"),
        ({"text": "a", "span": {}}, "missing_field", "span.start"),
        ({"text": "a", "span": {"start": -1}}, "invalid_value", "span.start"),
        ({"text": "a", "span": {"start": 1, "stop": 2}}, "unknown_field", "span.stop"),
        ({"text": "a", "choices": ["a", None]}, "invalid_value", "choices.1"),
        ({"text": "a", "choices": "ab"}, "invalid_value", "choices"),
    ],
)
def test_json_that_was_not_asked_for_names_the_field(body: Any, code: str, field: str | None) -> None:
    assert refused(json.dumps(body).encode()) == (422, code, field)


@pytest.mark.parametrize("body", [b"[]", b'[["a", "b"]]', b'"a"', b"1", b"null"])
def test_what_is_no_object_is_told_the_fields_of_one(body: bytes) -> None:
    with pytest.raises(InvalidItem) as error:
        posted(body)
    assert (error.value.message, error.value.field) == ("Input should be an object with text", None)


def test_an_option_that_may_be_left_out_may_be_null() -> None:
    assert posted(b'{"text": "a", "top_k": null}') == posted(b'{"text": "a"}') == Ask(text="a")


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert posted(rb'{"text": "\ud83d\ude00 \uac00"}').text == "😀 가"


def test_text_arrives_as_it_was_written() -> None:
    text = "\r\n\t\u0000\u200b\u3000각e\u0301😀"
    assert posted(json.dumps({"text": text}).encode()).text == text


def test_a_large_body_is_read_off_the_loop_with_the_same_result() -> None:
    text = "가나다 " * OFF_LOOP_BYTES
    assert posted(json.dumps({"text": text}).encode()).text == text
    assert refused(json.dumps({"text": text, "top_k": 0}).encode()) == (422, "invalid_value", "top_k")
    assert refused(json.dumps({"text": text}).encode()[:-1]) == (400, "invalid_json", None)


def test_an_explanation_tells_nothing_of_what_was_sent() -> None:
    with pytest.raises(ValidationError) as error:
        Ask.model_validate({"text": 990011, "top_k": "비밀"})
    told = json.dumps(explain(error.value).body(), ensure_ascii=False)
    assert "990011" not in told
    assert "비밀" not in told


@pytest.mark.parametrize(
    ("error", "status", "headers"),
    [
        (InvalidRequest("x"), 400, {}),
        (InvalidItem("x", field="a.0", code="empty_text"), 422, {}),
        (MethodNotAllowed("x", "POST"), 405, {"allow": "POST"}),
        (Overloaded("x", 7), 429, {"retry-after": "7"}),
    ],
)
def test_an_error_is_json_with_its_own_headers(error: ServiceError, status: int, headers: dict[str, str]) -> None:
    response = error_response(error)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert headers.items() <= dict(response.headers).items()
    assert json.loads(response.body)["error"] == error.body()
    assert error.body()["message"] == "x"


def test_an_answer_is_utf8_json() -> None:
    assert json_response({"text": "서울😀", "score": 0.5, "none": None}).body == (
        '{"text":"서울😀","score":0.5,"none":null}'.encode()
    )


MANY = 50_000


def lists() -> list[Any]:
    """Every list that a request may have, as (model, field)."""
    models = {task.Input for task in FAMILIES.values()} | {ParseItem, Rerank, Request, Note, Turn, InputTensor}
    fields = [(model, name) for model in models for name, info in model.model_fields.items() if "list[" in str(info)]
    return sorted(fields, key=lambda one: (one[0].__name__, one[1]))


@pytest.mark.parametrize(("model", "name"), [one for one in lists() if one != (InputTensor, "data")], ids=str)
def test_a_list_is_not_read_past_its_first_fault(model: type[BaseModel], name: str) -> None:
    with pytest.raises(ValidationError) as error:
        model.model_validate_json(json.dumps({name: [None] * MANY}))
    told = [e for e in error.value.errors() if e["loc"][0] == name]
    assert len(told) == 1, f"{len(told)} errors of {name}"


def test_of_very_many_faults_none_is_explained() -> None:
    body = json.dumps({"text": "a"} | {f"k{i}": 0 for i in range(MANY)}).encode()
    start = thread_time()
    with pytest.raises(ServiceError) as error:
        posted(body)
    assert thread_time() - start < 0.03
    assert (error.value.status, error.value.reason, error.value.field) == (422, "invalid_value", None)
    assert error.value.message == "there are more than 256 problems"
    few = json.dumps({"text": "a"} | {f"k{i}": 0 for i in range(100)}).encode()
    assert refused(few) == (422, "unknown_field", "k0")
