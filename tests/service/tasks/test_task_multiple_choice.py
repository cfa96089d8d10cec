"""Which choice fits: probabilities over one item's own choices, whatever their number, order and company."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import Loaded, load
from pydantic import ValidationError

from service.errors import InvalidItem
from service.tasks.base import Encoded

CONTEXT = "女：今天天气很好。男：我们一起去公园散步。"
QUESTION = "他们去哪里？"


@pytest.fixture
def c3(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded("clue/c3")


def fields(*choices: str, **options: Any) -> dict[str, Any]:
    return {"context": CONTEXT, "question": QUESTION, "choices": list(choices)} | options


def scores(answer: dict[str, Any]) -> dict[str, float]:
    return {s["text"]: s["score"] for s in answer["scores"]}


def test_two_and_four_choices_answered_together_are_as_if_alone(c3: Loaded) -> None:
    """A softmax over the wrong axis made them depend on their neighbours (huggingface/transformers#16695)."""
    requests = [fields("公园", "北京"), fields("公园", "北京", "上海", "去散步的路上很好"), fields("我", "他", "女")]
    together = c3.ask_all(requests)
    for request, got in zip(requests, together, strict=True):
        assert [s["text"] for s in got["scores"]] == request["choices"]
        assert sum(s["score"] for s in got["scores"]) == pytest.approx(1, abs=5e-6)
        assert scores(got) == pytest.approx(scores(c3.ask(**request)), abs=1e-5)


def test_scores_follow_their_choices(c3: Loaded) -> None:
    choices = ["公园", "北京散步", "上海"]
    want = scores(c3.ask(**fields(*choices)))
    assert len(set(want.values())) == 3
    for order in permutations(choices):
        got = c3.ask(**fields(*order))
        assert scores(got) == pytest.approx(want, abs=1e-5)
        assert got["text"] == max(want, key=want.__getitem__)
        assert [s["choice"] for s in got["scores"]] == [0, 1, 2]
        assert got["choice"] == order.index(got["text"])


def test_equal_choices_have_equal_scores_and_the_first_wins(c3: Loaded) -> None:
    got = c3.ask(**fields("公园", "公园"))
    assert [s["score"] for s in got["scores"]] == [0.5, 0.5]
    assert got["choice"] == 0


@given(st.lists(st.integers(-900, 900).map(lambda n: n / 32), min_size=2, max_size=4))
def test_the_answer_is_the_choice_with_the_greatest_logit(loaded: Callable[[str], Loaded], logits: list[float]) -> None:
    task = loaded("clue/c3").task
    item = task.Input(**fields(*"abcd"[: len(logits)]))
    outputs = [{"logits": np.array([value], np.float32)} for value in logits]
    got = task.decode(item, Encoded([], False), outputs)
    assert got["choice"] == int(np.argmax(np.array(logits, np.float32)))
    assert got["score"] == got["scores"][got["choice"]]["score"] == max(s["score"] for s in got["scores"])


@pytest.mark.parametrize("choices", [[], ["公园"], ["a", "b", "c", "d", "e"], ["a"] * 40])
def test_too_few_or_too_many_choices_are_refused(c3: Loaded, choices: list[str]) -> None:
    with pytest.raises(InvalidItem, match=f"give 2 to 4 choices, not {len(choices)}") as refused:
        c3.item(**fields(*choices))
    assert (refused.value.status, refused.value.field) == (422, "choices")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"context": ""}, "context"),
        ({"context": "\n\u3000"}, "context"),
        ({"question": ""}, "question"),
        ({"choices": ["公园", ""]}, "choices.1"),
        ({"choices": ["\u200b", "公园"]}, "choices.0"),
    ],
)
def test_an_empty_text_is_named(c3: Loaded, changes: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidItem, match="the text is empty") as refused:
        c3.item(**fields("公园", "北京", **changes))
    assert refused.value.field == path


def test_a_choice_that_the_tokenizer_deletes_is_named(c3: Loaded) -> None:
    with pytest.raises(InvalidItem, match="no characters that the model knows") as refused:
        c3.ask(**fields("公园", "\x07"))
    assert refused.value.field == "choices.1"


@pytest.mark.parametrize(
    "body",
    [
        {"question": QUESTION, "choices": ["a", "b"]},
        {"context": CONTEXT, "question": QUESTION},
        fields("a", "b", context=None),
        fields("a", "b", choices="ab"),
        fields("a", "b", choices=["a", None]),
        fields("a", "b", choices=[["a"], "b"]),
        fields("a", "b", answer=1),
    ],
)
def test_a_request_of_another_shape_is_invalid(c3: Loaded, body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        c3.task.Input.model_validate(body)


def test_each_choice_is_a_row_of_its_own_by_the_template(c3: Loaded) -> None:
    rows = c3.task.encode(c3.item(**fields("公园", "北京[SEP]上海"))).rows
    assert [row["input_ids"].shape[0] for row in rows] == [1, 1]
    for row in rows:
        ids, types = row["input_ids"][0].tolist(), row["token_type_ids"][0].tolist()
        assert ids.count(c3.id("[SEP]")) == 3
        first = ids.index(c3.id("[SEP]"))
        assert types == [0] * (first + 1) + [1] * (len(ids) - first - 1)


def test_texts_are_lowered_where_the_bundle_was_trained_so(c3: Loaded) -> None:
    assert c3.ids(**fields("THE City", "Fox")) == c3.ids(**fields("the city", "fox"))


def test_a_long_context_is_cut_and_said_so_or_refused(c3: Loaded) -> None:
    long = fields("公园", "北京", context="，" * 90)
    answer = c3.ask(**long)
    assert (answer["truncated"], answer["tokens"]) == (True, 128)
    assert all(c3.id(c) in ids for ids, c in zip(c3.ids(**long), "园京", strict=True)), "a choice was cut instead"
    with pytest.raises(InvalidItem, match="the model reads 60") as refused:
        c3.ask(**long, on_overflow="error")
    assert (refused.value.field, refused.value.reason) == ("context", "text_too_long")
    assert c3.ask(**fields("公园", "北京"))["truncated"] is False


def test_a_bundle_without_questions_refuses_one(copy_of: Callable[..., Any]) -> None:
    template = [{"id": 2}, {"field": "context"}, {"id": 3}, {"field": "choice", "type": 1}, {"id": 3, "type": 1}]
    model = load(copy_of("clue/c3", template=template))
    assert model.ask(context=CONTEXT, choices=["公园", "北京"])["choice"] in (0, 1)
    with pytest.raises(InvalidItem, match="takes no question") as refused:
        model.item(**fields("公园", "北京"))
    assert refused.value.field == "question"
