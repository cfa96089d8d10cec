"""A bundle in this process as a predictor: answers as the task gives them, refusals with the codes of the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.predictors import InProcess, Outcome
from service.bundle import FILE, Bundle, sha256
from service.types import Answer, Timing

BundleOf = Callable[[str], Path]


@pytest.fixture(scope="module")
def topic(bundle_of: BundleOf) -> InProcess:
    return InProcess(Bundle(bundle_of("klue/ynat")))


def test_a_bundle_is_what_its_manifest_says(topic: InProcess, bundle_of: BundleOf) -> None:
    assert (topic.name, topic.suite, list(topic.scores)) == ("klue-ynat", "klue/ynat", [])
    assert topic.sha256 == sha256(bundle_of("klue/ynat") / FILE)


def test_requests_are_answered_or_refused_each_on_its_own(topic: InProcess) -> None:
    items: list[dict[str, Any]] = [{"text": "코스피 상승"}, {"text": " "}, {"txt": "a"}, {"text": "\x07"}, {"text": 1}]
    first, *others = topic.ask(items)
    assert first.error is None
    assert first.answer is not None
    assert first.answer["label"] in topic.task.manifest.labels
    assert [(o.answer, o.error and (o.error["code"], o.error.get("field"))) for o in others] == [
        (None, ("empty_text", "text")),
        (None, ("missing_field", "text")),
        (None, ("no_tokens", "text")),
        (None, ("invalid_value", "text")),
    ]
    assert topic.ask([]) == []
    assert topic.ask(items[:1]) == [first]


def test_a_request_that_breaks_the_model_fails_alone(
    topic: InProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    predict = topic.task.predict

    def fragile(items: Sequence[Any], run: Any, timings: Sequence[Timing]) -> list[Answer | Exception]:
        if any(item.text == "축구" for item in items):
            raise RuntimeError("the graph failed")
        return predict(items, run, timings)

    whole = topic.ask([{"text": "야구"}, {"text": "농구"}])
    monkeypatch.setattr(topic.task, "predict", fragile)
    outcomes = topic.ask([{"text": "야구"}, {"text": "축구"}, {"text": "농구"}])
    assert [outcomes[0], outcomes[2]] == whole
    assert outcomes[1] == Outcome(error={"code": "internal", "message": "the model failed on this item"})
    assert "klue-ynat failed on a record" in caplog.text
