"""Answers by family, the raw ones beside them; the list of models; connections and imports."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from flaky_server import Caller, Flaky, Say, entry

from clueserve import (
    Answer,
    AsyncClient,
    Choice,
    Classification,
    Client,
    Cloze,
    DialogueState,
    DocumentClasses,
    Entities,
    QuestionAnswer,
    ServerFault,
    Terms,
    Tree,
    Triples,
)
from clueserve.answers import FAMILIES, answer
from service.tasks import FAMILIES as SERVED

PLAIN = {"string": "가", "integer": 1, "number": 0.5, "boolean": False}


def sample(schema: dict[str, Any], defs: dict[str, Any]) -> Any:
    """A value of a JSON schema."""
    if "$ref" in schema:
        return sample(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "anyOf" in schema:
        return sample(schema["anyOf"][0], defs)
    if schema["type"] == "array":
        return [sample(schema["items"], defs)]
    if schema["type"] == "object":
        fields = schema.get("properties") or {"식당-지역": schema["additionalProperties"]}
        return {name: sample(field, defs) for name, field in fields.items()}
    return PLAIN[schema["type"]]


def test_every_family_of_the_service_has_its_type_here() -> None:
    assert FAMILIES.keys() == SERVED.keys()


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_an_answer_has_an_attribute_for_every_field_that_the_service_answers(family: str) -> None:
    schema = SERVED[family].Output.model_json_schema(mode="serialization")
    raw = sample(schema, schema.get("$defs", {}))
    got = answer(family, raw)
    assert type(got) is FAMILIES[family]
    assert got.raw == raw
    _same(got, raw)


def _same(got: Any, raw: Any) -> None:
    if isinstance(raw, dict) and not isinstance(got, dict):
        for key, value in raw.items():
            _same(getattr(got, key), value)
    elif isinstance(raw, list):
        assert len(got) == len(raw)
        for one, other in zip(got, raw, strict=True):
            _same(one, other)
    else:
        assert got == raw


READING = {"truncated": False, "tokens": 9}
SPAN = {"text": "서울", "start": 0, "end": 2}


@pytest.mark.parametrize(
    ("family", "raw", "kind", "read", "value"),
    [
        (
            "token-classification",
            {"entities": [{**SPAN, "type": "LC", "score": 0.5}], "tags": []},
            Entities,
            lambda a: (a.entities[0].type, a.entities[0].text, a.entities[0].start, a.tags),
            ("LC", "서울", 0, []),
        ),
        ("span-classification", {"entities": []}, Entities, lambda a: (a.entities, a.tags), ([], [])),
        (
            "question-answering",
            {"answer": None, "null_score": 0.9, "answers": [{**SPAN, "score": 0.1}]},
            QuestionAnswer,
            lambda a: (a.answer, a.answers[0].end),
            (None, 2),
        ),
        (
            "multiple-choice",
            {"choice": 0, "text": "a", "score": 1.0, "scores": [{"choice": 0, "text": "a", "score": 1.0}]},
            Choice,
            lambda a: a.scores[a.choice].text,
            "a",
        ),
        ("cloze", {"blanks": []}, Cloze, lambda a: a.blanks, []),
        (
            "dependency-parsing",
            {"words": [{"index": 1, "form": "간다", "start": 0, "end": 2, "head": 0, "relation": "VP", "score": 1.0}]},
            Tree,
            lambda a: (a.words[0].form, a.words[0].head),
            ("간다", 0),
        ),
        (
            "dialogue-state",
            {"state": {"식당-지역": "서울"}, "slots": [{"slot": "식당-지역", "value": "서울", "score": 0.5}]},
            DialogueState,
            lambda a: (a.state["식당-지역"], a.slots[0].score),
            ("서울", 0.5),
        ),
        (
            "triple-extraction",
            {
                "triples": [
                    {
                        "subject": {**SPAN, "type": "ORG"},
                        "predicate": "p",
                        "object": {**SPAN, "type": "LOC"},
                        "score": 0.5,
                    }
                ]
            },
            Triples,
            lambda a: (a.triples[0].subject.text, a.triples[0].object.type),
            ("서울", "LOC"),
        ),
        (
            "term-normalization",
            {"terms": [{"name": "a", "code": None, "score": None}], "candidates": []},
            Terms,
            lambda a: a.terms[0].name,
            "a",
        ),
        (
            "document-classification",
            {
                "label": "a",
                "score": 0.5,
                "scores": [],
                "labels": [],
                "value": None,
                "windows": [{"note": 0, "start": 0, "end": 3, "scores": [], "value": None}],
            },
            DocumentClasses,
            lambda a: (a.label, a.windows[0].end),
            ("a", 3),
        ),
    ],
)
def test_an_answer_is_read_by_its_attributes(family: str, raw: Any, kind: Any, read: Any, value: Any) -> None:
    got = answer(family, raw | READING)
    assert isinstance(got, kind)
    assert read(got) == value
    assert (got.tokens, got.truncated) == (9, False)


def test_fields_of_a_newer_server_are_in_raw_and_families_of_one_are_answered_raw(flaky: Flaky, call: Caller) -> None:
    raw = {"poem": "x", "truncated": False, "tokens": 1}
    assert type(answer("poetry", raw)) is Answer
    flaky.models.append(entry("poet", "poetry"))
    flaky.script.append(Say(200, raw))
    assert call("ask", "poet", text="a").raw["poem"] == "x"


def test_a_single_answer_knows_its_time(call: Caller) -> None:
    got = call("ask", "news", text="a")
    assert isinstance(got, Classification)
    assert (got.timing.queue_ms, got.timing.inference_ms, got.timing.batch_rows) == (1.5, 20.0, 3)
    assert call("batch", "news", [{"text": "a"}])[0].timing is None


def test_an_answer_of_another_shape_is_told(flaky: Flaky, call: Caller) -> None:
    flaky.script.append(Say(200, {"entities": [], "truncated": False, "tokens": 1}))
    with pytest.raises(ServerFault, match="no text-classification model"):
        call("ask", "news", text="a")


def test_models_are_listed_with_their_facts(call: Caller) -> None:
    models = {model.name: model for model in call("models")}
    assert models.keys() == {"news", "topic", "pair"}
    news = models["news"]
    assert (news.family, news.ready, news.labels, news.example) == (
        "text-classification",
        True,
        ["a", "b"],
        {"text": "오늘"},
    )
    assert news.raw["max_length"] == news.max_length == 128


def test_one_connection_carries_all_calls_and_the_list_is_asked_once(flaky: Flaky) -> None:
    with Client(flaky.url) as client:
        for text in "abc":
            client.ask("news", text=text)
    assert flaky.connections == 1
    assert [one.path for one in flaky.seen] == ["/v1/models", "/news", "/news", "/news"]

    async def ask() -> None:
        async with AsyncClient(flaky.url) as client:
            for text in "abc":
                await client.ask("news", text=text)

    asyncio.run(ask())
    assert flaky.connections == 2


def test_a_model_that_came_later_is_found(flaky: Flaky) -> None:
    with Client(flaky.url) as client:
        client.models()
        flaky.models.append(entry("late"))
        assert client.ask("late", text="a").raw["label"] == "a"


def test_threads_may_share_a_client(flaky: Flaky) -> None:
    found: dict[int, Any] = {}
    with Client(flaky.url) as client:
        threads = [
            threading.Thread(target=lambda i=i: found.update({i: client.ask("news", text=f"글 {i}")}))  # type: ignore[misc]
            for i in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {i: one.label for i, one in found.items()} == {i: f"글 {i}" for i in range(12)}


def test_the_key_and_headers_of_the_caller_are_sent_with_every_request(flaky: Flaky, call: Caller) -> None:
    call("ask", "news", text="a", settings={"key": "clue_k", "headers": {"X-Request-Id": "7"}})
    sent = [{name.lower(): value for name, value in one.headers.items()} for one in flaky.seen]
    assert [(one["authorization"], one["x-request-id"]) for one in sent] == [("Bearer clue_k", "7")] * 2


def test_an_address_may_lack_its_scheme_but_must_be_one(flaky: Flaky) -> None:
    with Client(flaky.url.removeprefix("http://") + "/") as client:
        assert client.ask("news", text="a").raw["label"] == "a"
    for url in ("ftp://host", "http://", "http://[::1", "host:port"):
        with pytest.raises(ValueError, match=r"is no (server's )?URL"):
            Client(url)
    with pytest.raises(ValueError, match="concurrency"):
        Client(concurrency=0)


def test_the_client_is_light() -> None:
    """It imports nothing of the server's, and httpx only when a client is made."""
    heavy = {
        "service",
        "bentoml",
        "torch",
        "onnxruntime",
        "numpy",
        "pydantic",
        "exporters",
        "benchmarks",
        "transformers",
    }
    code = f"""
import sys, clueserve
assert "httpx" not in sys.modules
with clueserve.Client() as client: pass
clueserve.AsyncClient
loaded = {{name.partition(".")[0] for name in sys.modules}}
assert not loaded & {heavy!r}, loaded & {heavy!r}
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    import clueserve

    with pytest.raises(AttributeError, match="Kunde"):
        _ = clueserve.Kunde
    assert all(getattr(clueserve, name) is not None for name in clueserve.__all__)
