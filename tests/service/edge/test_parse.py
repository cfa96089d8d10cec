"""`POST /parse`: several models over the same texts, answered as one document keyed by task."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bench import TEXTS, Bench
from desk import ask

from service.config import Settings
from service.edge.openapi import document
from service.edge.parse import ParseItem, description, routes, takes_text
from service.server import Server
from service.tasks import FAMILIES
from service.types import Timing


class Counts:
    """What the metrics would say."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.refusals: list[str] = []

    def outcome(self, bundle: str, outcome: str) -> None:
        self.outcomes[bundle, outcome] += 1

    def answered(self, bundle: str, timing: Timing) -> None:
        self.outcome(bundle, "ok")

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)


class Desk:
    """A server with two models that take a text, `news` and `topic`, and a `pair` that takes more."""

    def __init__(self, benches: Callable[..., Bench], **settings: Any) -> None:
        self.news = benches(take=0.05)
        self.topic = benches(pool=self.news.pool)
        served = {"news": "text-classification", "topic": "text-classification", "pair": "pair-classification"}
        bundles = {name: SimpleNamespace(manifest=SimpleNamespace(family=family)) for name, family in served.items()}
        self.server = Server(Settings(**settings), cast(Any, bundles))
        self.counts = Counts()
        self.server.telemetry = cast(Any, self.counts)
        self.server.runners |= {"news": self.news.runner, "topic": self.topic.runner}
        self.handle = routes(self.server)["/parse"]["POST"].answer

    def post(self, body: Any) -> tuple[int, Any]:
        status, answer, _ = asyncio.run(ask(self.handle, body))
        return status, answer


@pytest.fixture
def desk(benches: Callable[..., Bench]) -> Desk:
    return Desk(benches, max_text_chars=200, max_batch_items=12)


def test_several_texts_are_answered_with_a_list_a_task(desk: Desk) -> None:
    status, answer = desk.post({"text": TEXTS, "tasks": ["topic", "news"]})
    assert status == 200
    assert list(answer) == ["topic", "news"]  # in the order that was asked for
    for column in answer.values():
        for text, got in zip(TEXTS, column, strict=True):
            desk.news.equals(got, text)
    assert desk.counts.outcomes == {("news", "ok"): 6, ("topic", "ok"): 6}


def test_one_text_is_answered_with_an_answer_a_task(desk: Desk) -> None:
    status, answer = desk.post({"text": TEXTS[0], "tasks": ["news", "topic"]})
    assert status == 200
    desk.news.equals(answer["news"], TEXTS[0])
    assert answer["topic"] == answer["news"]
    assert desk.post({"text": TEXTS[:1], "tasks": ["news"]})[1] == {"news": [answer["news"]]}


def test_a_text_that_fails_has_its_error_in_its_place_and_harms_no_other(desk: Desk) -> None:
    status, answer = desk.post({"text": [TEXTS[0], " ", TEXTS[1], "가" * 201], "tasks": ["news", "topic"]})
    assert status == 200
    for column in answer.values():
        desk.news.equals(column[0], TEXTS[0])
        desk.news.equals(column[2], TEXTS[1])
        errors = [(column[i]["error"]["code"], column[i]["error"]["field"]) for i in (1, 3)]
        assert errors == [("empty_text", "text.1"), ("text_too_long", "text.3")]
    assert desk.post({"text": "", "tasks": ["news"]})[1]["news"]["error"]["field"] == "text"


def test_a_model_that_is_not_loaded_fails_alone(desk: Desk) -> None:
    del desk.server.runners["topic"]
    _, answer = desk.post({"text": TEXTS[0], "tasks": ["news", "topic"]})
    desk.news.equals(answer["news"], TEXTS[0])
    assert answer["topic"]["error"]["code"] == "not_ready"


def test_the_options_of_the_request_are_those_of_every_item(desk: Desk) -> None:
    async def scenario() -> Any:
        first = await desk.news.blocked()
        late = await ask(desk.handle, {"text": TEXTS[:2], "tasks": ["news", "topic"], "timeout_ms": 200})
        desk.news.task.gate.set()
        await first
        return late

    status, answer, _ = asyncio.run(scenario())
    assert status == 200
    codes = [cell["error"]["code"] for column in answer.values() for cell in column]
    assert codes == ["deadline_exceeded"] * 4


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"text": "a", "tasks": ["news", "pair"]}, "unfit_task", "tasks.1"),
        ({"text": "a", "tasks": ["news", "weather"]}, "unknown_task", "tasks.1"),
        ({"text": "a", "tasks": ["news", "news"]}, "invalid_item", "tasks.1"),
        ({"text": "a", "tasks": []}, "invalid_value", "tasks"),
        ({"text": "a", "tasks": "news"}, "invalid_value", "tasks"),
        ({"text": "a"}, "missing_field", "tasks"),
        ({"text": [], "tasks": ["news"]}, "invalid_value", "text"),
        ({"text": 3, "tasks": ["news"]}, "invalid_value", "text"),
        ({"text": ["a", None], "tasks": ["news"]}, "invalid_value", "text.1"),
        ({"text": "a", "tasks": ["news"], "top_k": 1}, "unknown_field", "top_k"),
        ({"text": "a", "tasks": ["news"], "offset_unit": "rune"}, "invalid_value", "offset_unit"),
        ({"text": ["a"] * 7, "tasks": ["news", "topic"]}, "batch_too_large", "text"),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused_as_a_whole(desk: Desk, body: Any, code: str, field: str) -> None:
    status, answer = desk.post(body)
    assert (status, answer["error"]["code"], answer["error"]["field"]) == (422, code, field)
    assert desk.counts.refusals == [code]
    assert desk.news.task.ran == []


def test_only_what_needs_nothing_but_a_text_is_a_task() -> None:
    assert {family for family in FAMILIES if takes_text(family)} == {
        "text-classification",
        "token-classification",
        "span-classification",
        "dependency-parsing",
        "document-classification",
        "triple-extraction",
        "term-normalization",
    }


def test_the_openapi_document_shows_a_request_that_runs(bundle_of: Callable[[str], Any]) -> None:
    from service.bundle import Bundle

    manifests = {name: Bundle(bundle_of(suite)).manifest for name, suite in (("nli", "klue/nli"), ("ner", "klue/ner"))}
    doc = document(FAMILIES, manifests, "1")
    operation = doc["paths"]["/parse"]["post"]
    content = operation["requestBody"]["content"]["application/json"]
    assert ParseItem.model_validate(content["example"]).tasks == ["ner"]
    assert content["schema"]["properties"]["text"]["anyOf"][0]["type"] == "string"
    assert content["schema"]["properties"]["text"]["anyOf"][1]["items"]["type"] == "string"
    answer = operation["responses"]["200"]["content"]["application/json"]["example"]
    assert answer == {"ner": manifests["ner"].golden[0].answer}
    assert "/parse" not in document(FAMILIES, {"nli": manifests["nli"]}, "1")["paths"]
    assert description({"nli": manifests["nli"]}) is None
