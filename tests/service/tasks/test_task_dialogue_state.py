"""Dialogue states: what the model reads of a dialogue, and how gates and generated pieces become values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import SPECIALS, Loaded, load, vocabulary
from pydantic import ValidationError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from service.errors import BundleError, InvalidItem
from service.tasks.base import Encoded

Turns = list[dict[str, str]]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "text": text}


def system(text: str) -> dict[str, str]:
    return {"role": "sys", "text": text}


DIALOGUE = [
    user("강남에 있는 한식당을 찾아 주세요."),
    system("몇 시에 갈까요?"),
    user("저녁 7시에 가고 싶어요."),
    system("예약할까요?"),
    user("네, 두 명이요."),
]


@pytest.fixture
def tracker(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded("klue/wos")


@pytest.fixture
def lettered(copy_of: Callable[..., Path]) -> Loaded:
    """A tracker whose pieces are the letters a to f."""
    folder = copy_of("klue/wos")
    vocabulary(folder, [*"abcdef"])
    return load(folder)


def read(model: Loaded, turns: Turns, **options: Any) -> str:
    """What the model reads, in pieces."""
    (ids,) = model.ids(turns=turns, **options)
    return " ".join(model.task.encoder.token(i) for i in ids)


@pytest.mark.parametrize(
    ("turns", "pieces"),
    [
        # Neither history nor a system that has spoken: both separators stay, as in the baseline.
        ([user("a b")], "[CLS] [SEP] [SEP] a b [SEP]"),
        ([user("a"), system("b"), user("c")], "[CLS] [SEP] a [SEP] b [SEP] c [SEP]"),
        (
            [user("a"), system("b"), user("c"), system("d"), user("e f")],
            "[CLS] [SEP] a [SEP] b [SEP] c [SEP] d [SEP] e f [SEP]",
        ),
        ([system("a"), user("b")], "[CLS] [SEP] a [SEP] b [SEP]"),
        ([system("a"), user("b"), system("c"), user("d")], "[CLS] a [SEP] b [SEP] c [SEP] d [SEP]"),
        # One side twice is one turn.
        ([user("a"), user("b"), system("c"), system("d"), user("e")], "[CLS] [SEP] a b [SEP] c d [SEP] e [SEP]"),
    ],
)
def test_a_dialogue_is_read_in_the_order_of_the_baseline(lettered: Loaded, turns: Turns, pieces: str) -> None:
    assert read(lettered, turns) == pieces
    (row,) = lettered.task.encode(lettered.item(turns=turns)).rows
    assert not row["token_type_ids"].any()


def test_a_separator_that_a_caller_types_is_text(lettered: Loaded) -> None:
    assert read(lettered, [user("a [SEP] b")]).count("[SEP]") == 3


def test_the_oldest_words_are_cut_and_the_answer_says_so(lettered: Loaded) -> None:
    turns = [user("a " * 50), system("b b"), user("c " * 20)]
    assert read(lettered, turns) == " ".join(["[CLS]", *["a"] * 38, "[SEP] b b [SEP]", *["c"] * 20, "[SEP]"])
    answer = lettered.ask(turns=turns)
    assert (answer["truncated"], answer["tokens"]) == (True, 64)
    with pytest.raises(InvalidItem, match="the model reads 60") as refused:
        lettered.ask(turns=turns, on_overflow="error")
    assert (refused.value.field, refused.value.reason) == ("turns", "text_too_long")
    # The last turn alone does not fit: its end is read.
    assert read(lettered, [user("a " * 30 + "b " * 50)]) == " ".join(
        ["[CLS] [SEP] [SEP]", *["a"] * 10, *["b"] * 50, "[SEP]"]
    )
    assert lettered.ask(turns=DIALOGUE[:1], on_overflow="error")["truncated"] is False


NONE, DONTCARE, POINTER, YES, NO = range(5)


def state(model: Loaded, values: dict[int, tuple[int, list[str]]]) -> dict[str, Any]:
    """The answer to hand-made outputs: slot number -> its gate and the pieces of its generated value."""
    gates = np.zeros((45, 5), np.float32)
    gates[:, NONE] = 2
    ids = np.full((45, 10), model.id("[SEP]"), np.int64)
    for slot, (gate, pieces) in values.items():
        gates[slot, gate] = 4
        ids[slot, : len(pieces)] = [model.id(piece) for piece in pieces]
    found: dict[str, Any] = model.task.decode(
        model.item(turns=[user("a")]), Encoded([], False), [{"gate_logits": gates, "gen_ids": ids}]
    )
    return found


@pytest.fixture
def wordpieces(copy_of: Callable[..., Path]) -> Loaded:
    folder = copy_of("klue/wos")
    vocabulary(folder, ["a", "강남", "##역", "18", ":", "30", ",", "none", "한", "##식", "##당", "서울", "-", "1"])
    path = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.save(path)
    return load(folder)


@pytest.mark.parametrize(
    ("pieces", "value"),
    [
        (["강남", "##역", "[SEP]", "서울"], "강남역"),
        (["강남", "[UNK]", "서울"], "강남"),
        (["강남", "[PAD]", "서울"], "강남"),
        (["18", ":", "30"], "18:30"),
        (["강남", ",", "서울"], "강남, 서울"),
        (["##식", "##당"], "식당"),
        (["서울", "-", "1"], "서울 - 1"),
        (["한"] * 10, "한 한 한 한 한 한 한 한 한 한"),
        (["none"], None),
        (["[SEP]", "서울"], None),
    ],
)
def test_pieces_become_a_value_as_in_the_baseline(wordpieces: Loaded, pieces: list[str], value: str | None) -> None:
    slot = wordpieces.task.manifest.labels[7]
    got = state(wordpieces, {7: (POINTER, pieces)})
    assert got["state"] == ({} if value is None else {slot: value})


def test_every_gate_says_its_kind_of_value(wordpieces: Loaded) -> None:
    labels = wordpieces.task.manifest.labels
    got = state(wordpieces, {9: (DONTCARE, ["서울"]), 1: (YES, []), 30: (NO, ["서울"]), 2: (POINTER, ["강남"])})
    assert got["state"] == {labels[1]: "yes", labels[2]: "강남", labels[9]: "dontcare", labels[30]: "no"}
    assert [s["slot"] for s in got["slots"]] == [labels[i] for i in (1, 2, 9, 30)], "not in the order of the slots"
    assert {s["slot"]: s["value"] for s in got["slots"]} == got["state"]
    want = np.exp(4) / (np.exp(4) + np.exp(2) + 3)
    assert [s["score"] for s in got["slots"]] == pytest.approx([want] * 4, abs=1e-6)


def test_a_dialogue_without_values_has_an_empty_state(wordpieces: Loaded) -> None:
    got = state(wordpieces, {})
    assert (got["state"], got["slots"]) == ({}, [])


def test_word_marks_of_sentencepiece_are_spaces(copy_of: Callable[..., Path]) -> None:
    folder = copy_of("klue/wos")
    pieces = [*SPECIALS, "▁", "▁a", "▁서울", "역", "▁18", ":", "30"]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=1))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.save(str(folder / "tokenizer.json"))
    model = load(folder)
    got = state(model, {3: (POINTER, ["▁18", ":", "30", "[SEP]"]), 4: (POINTER, ["▁", "▁서울", "역", "▁서울"])})
    assert list(got["state"].values()) == ["18:30", "서울역 서울"]


def test_dialogues_do_not_mix_and_nothing_is_remembered(copy_of: Callable[..., Path]) -> None:
    """One domain's state was lost between turns, another's leaked in (vojtsek/to-llm-bot#3)."""
    # The tiny model's favourite gate is its last one: here values are generated, and differ.
    tracker = load(copy_of("klue/wos", decoder={"gates": ["none", "dontcare", "yes", "no", "ptr"]}))
    requests: list[dict[str, Any]] = [
        {"turns": DIALOGUE[:1]},
        {"turns": [user("부산행 기차 두 장이요. " * 5)]},
        {"turns": DIALOGUE},
        {"turns": [user("네.")]},
    ]
    alone = [tracker.ask(**request) for request in requests]
    together = tracker.ask_all([*requests, *requests])
    assert len({str(answer["state"]) for answer in alone}) == len(requests)
    for got, want in zip(together, [*alone, *alone], strict=True):
        assert got["state"] == want["state"]
        assert [s["score"] for s in got["slots"]] == pytest.approx([s["score"] for s in want["slots"]], abs=1e-5)


@pytest.mark.parametrize(
    ("turns", "path"),
    [
        ([], "turns"),
        (DIALOGUE[:2], "turns.1.role"),
        ([user("가"), system(" \u200b"), user("나")], "turns.1.text"),
        ([user("")], "turns.0.text"),
        ([user("가" + "\u0301" * 40)], "turns.0.text"),
    ],
)
def test_a_dialogue_that_cannot_be_read_is_refused_by_name(tracker: Loaded, turns: Turns, path: str) -> None:
    with pytest.raises(InvalidItem) as refused:
        tracker.item(turns=turns)
    assert (refused.value.status, refused.value.field) == (422, path)


def test_a_turn_that_the_tokenizer_deletes_is_named(tracker: Loaded) -> None:
    with pytest.raises(InvalidItem, match="no characters that the model knows") as refused:
        tracker.ask(turns=[user("가"), system("\x07"), user("나")])
    assert (refused.value.field, refused.value.reason) == ("turns.1.text", "no_tokens")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"turns": None},
        {"turns": ["강남"]},
        {"turns": [{"user": "강남"}]},
        {"turns": [{"role": "assistant", "text": "강남"}]},
        {"turns": [{"role": "user"}]},
        {"turns": DIALOGUE, "state": {}},
    ],
)
def test_a_request_of_another_shape_is_invalid(tracker: Loaded, body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        tracker.task.Input.model_validate(body)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"labels": ["a-b"]}, r"slots and gates are \[45, 5\], the bundle names \[1, 5\]"),
        ({"decoder": {"gates": ["none", "ptr"]}}, r"the bundle names \[45, 2\]"),
        ({"decoder": {"empty": "ptr"}}, "empty and generated must be two of the gates"),
        ({"decoder": {"generated": "copy"}}, "empty and generated must be two of the gates"),
        ({"template": [{"id": 2}, {"field": "text"}, {"id": 3}]}, "the template must be {history} <sep> {system}"),
        (
            {"template": [{"id": 2}, {"field": "history"}, {"field": "system"}, {"id": 3}, {"field": "user"}]},
            "the template must be",
        ),
    ],
)
def test_a_bundle_that_contradicts_itself_is_not_served(
    copy_of: Callable[..., Path], changes: dict[str, Any], what: str
) -> None:
    with pytest.raises(BundleError, match=what):
        load(copy_of("klue/wos", **changes))
