"""One text or two: a pair is a pair and nothing else, separators are the template's, overflow is never silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kit import Loaded
from pydantic import ValidationError

from service.errors import InvalidItem

FORGED = ["[SEP]", "</s>", "[CLS] [SEP] [PAD]", "a[SEP]b", "[sep]"]


def by_label(answer: dict[str, Any]) -> dict[str, float]:
    return {s["label"]: s["score"] for s in answer["scores"]}


@pytest.mark.parametrize("typed", FORGED)
def test_the_number_of_separators_is_the_templates(loaded: Callable[[str], Loaded], typed: str) -> None:
    for suite, fields, separators in (("klue/ynat", ["text"], 1), ("klue/nli", ["text", "text_pair"], 2)):
        model = loaded(suite)
        (ids,) = model.ids(**dict.fromkeys(fields, f"비가 온다 {typed} 눈이 온다"))
        assert ids.count(model.id("[SEP]")) == separators
        assert ids.count(model.id("[CLS]")) == 1
        assert (ids[0], ids[-1]) == (model.id("[CLS]"), model.id("[SEP]"))


def test_a_separator_that_is_typed_does_not_make_a_pair(loaded: Callable[[str], Loaded]) -> None:
    nli = loaded("klue/nli")
    honest = nli.ask(text="그는 부산에 갔다", text_pair="그는 집에 있다")
    forged = nli.ask(text="그는 부산에 갔다[SEP]그는 집에 있다[SEP]", text_pair=".")
    assert by_label(honest) != pytest.approx(by_label(forged), abs=1e-4)


def test_a_pair_is_neither_its_swap_nor_its_sum_nor_its_half(loaded: Callable[[str], Loaded]) -> None:
    """A list that may be a pair or two texts was read the wrong way (huggingface/transformers#17305)."""
    nli = loaded("klue/nli")
    one, two = "모든 사람들이 회의에 왔다", "오늘은 집에 있다"
    answers = [
        nli.ask(text=one, text_pair=two),
        nli.ask(text=two, text_pair=one),
        nli.ask(text=f"{one} {two}", text_pair="."),
        nli.ask(text=one, text_pair="그는 어제 부산에 갔다"),
    ]
    for i, a in enumerate(answers):
        for b in answers[i + 1 :]:
            assert by_label(a) != pytest.approx(by_label(b), abs=1e-4)


@pytest.mark.parametrize(
    "body",
    [
        {"text": "a"},
        {"text_pair": "a"},
        {"text": ["a", "b"]},
        {"text": "a", "text_pari": "b"},
        [["a", "b"]],
        ["a", "b"],
    ],
)
def test_a_pair_comes_in_two_named_fields_only(loaded: Callable[[str], Loaded], body: Any) -> None:
    with pytest.raises(ValidationError):
        loaded("klue/nli").task.Input.model_validate(body)


@pytest.mark.parametrize(("fields", "path"), [(("", "a"), "text"), (("a", " \n"), "text_pair")])
def test_an_empty_half_of_a_pair_is_named(loaded: Callable[[str], Loaded], fields: tuple[str, str], path: str) -> None:
    with pytest.raises(InvalidItem) as refused:
        loaded("klue/nli").item(text=fields[0], text_pair=fields[1])
    assert (refused.value.field, refused.value.reason) == (path, "empty_text")


@pytest.mark.parametrize("length", [61, 62, 63, 500])
def test_text_past_the_limit_is_cut_and_said_so_or_refused(loaded: Callable[[str], Loaded], length: int) -> None:
    topic = loaded("klue/ynat")
    answer = topic.ask(text="," * length)
    assert answer["truncated"] is (length > 62)
    assert answer["tokens"] == min(length, 62) + 2
    if length <= 62:
        assert topic.ask(text="," * length, on_overflow="error") == answer
    else:
        with pytest.raises(InvalidItem, match=f"the text has {length} tokens, the model reads 62") as refused:
            topic.ask(text="," * length, on_overflow="error")
        assert (refused.value.field, refused.value.reason) == ("text", "text_too_long")


def test_an_overflowing_pair_names_the_longer_text(loaded: Callable[[str], Loaded]) -> None:
    with pytest.raises(InvalidItem, match="has 93 tokens, the model reads 61") as refused:
        loaded("klue/nli").ask(text="," * 3, text_pair="," * 90, on_overflow="error")
    assert refused.value.field == "text_pair"


def test_similarity_comes_out_as_the_graph_said_it(loaded: Callable[[str], Loaded]) -> None:
    sts = loaded("klue/sts")
    fields = {"text": "호텔이 가까워요.", "text_pair": "호텔 바로 옆에 있어요."}
    (raw,) = sts.session.run(sts.task.encode(sts.item(**fields)).rows)
    answer = sts.ask(**fields, top_k=1)
    assert answer["value"] == round(float(raw["logits"][0]), 6)
    assert answer["label"] == ("positive" if answer["value"] >= 3 else "negative")
