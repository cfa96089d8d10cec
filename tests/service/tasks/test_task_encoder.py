"""Text to ids for one bundle: what a caller types is never a separator, what a thread does changes no other's ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import load
from tokenizers import Tokenizer

from service.bundle import Bundle
from service.errors import BundleError, InvalidItem
from service.tasks.encoder import Encoder

BundleOf = Callable[..., Path]
Copy = Callable[..., Path]
ARCHITECTURES = ["bert", "klue-roberta", "roberta", "xlm-roberta", "albert"]
TYPED = ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "<s>", "</s>", "<pad>", "<mask>"]
ROOM = 61
"""Tokens of both texts of a pair in a tiny bundle of 64."""


@pytest.fixture(scope="module")
def pair(bundle_of: BundleOf) -> Encoder:
    return Encoder(Bundle(bundle_of("klue/nli")))


@pytest.fixture(scope="module")
def reference(bundle_of: BundleOf) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(bundle_of("klue/nli") / "tokenizer.json"))
    tokenizer.enable_truncation(64, strategy="longest_first")
    return tokenizer


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("typed", TYPED)
def test_a_special_token_that_is_typed_is_text(bundle_of: BundleOf, architecture: str, typed: str) -> None:
    """A separator in a caller's text would forge the end of a pair (bojone/bert4keras#223)."""
    bundle = Bundle(bundle_of("klue/nli", architecture))
    encoder, special = Encoder(bundle), set(bundle.manifest.tokenizer.special_ids)
    assert special
    for text in (typed, f"오늘 {typed} 내일", f"오늘{typed}{typed}", f"{typed} a"):
        ids = encoder.tokenize(text, "text").ids
        assert not special & set(ids), f"{text} became {[encoder.token(i) for i in ids]}"
    assert not special & set(encoder.fragment(f"a{typed}"))
    assert not special & set(encoder.characters(typed).ids)


def test_a_special_token_that_is_typed_is_read_letter_by_letter(pair: Encoder) -> None:
    pieces = [pair.token(i) for i in pair.tokenize("a[SEP]b", "text").ids]
    assert (pieces[:2], pieces[-2:]) == (["a", "["], ["]", "b"])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_pieces_stand_for_the_characters_that_they_cover(bundle_of: BundleOf, architecture: str) -> None:
    encoder = Encoder(Bundle(bundle_of("klue/ner", architecture)))
    text = "서울에서, 그는 2024 rained 😀뷁! 在北京"
    tokens = encoder.tokenize(text, "text")
    assert len(tokens) == len(tokens.spans) == len(tokens.ids)
    assert all(0 <= a <= b <= len(text) for a, b in tokens.spans)
    assert tokens.spans == sorted(tokens.spans)
    covered = {i for a, b in tokens.spans for i in range(a, b)}
    assert {i for i, c in enumerate(text) if not c.isspace()} <= covered


@pytest.mark.parametrize("text", ["\x00", "\x07\x1a", "\ue313\ue5d2", "\u200e"])
def test_text_that_the_tokenizer_deletes_is_an_invalid_item(loaded: Callable, text: str) -> None:
    """Not empty as a string, and nothing to read all the same (huggingface/tokenizers#1077)."""
    encoder = loaded("klue/ynat").task.encoder
    with pytest.raises(InvalidItem, match="no characters that the model knows") as refused:
        encoder.tokenize(text, "text_pair")
    assert (refused.value.field, refused.value.reason) == ("text_pair", "no_tokens")
    assert len(encoder.tokenize(f"{text}a", "text")) == 1


@pytest.mark.parametrize("text", ["\u200b", "\ufeff\u2060 \u200b", "", " \u3000"])
@pytest.mark.parametrize("suite", ["klue/ynat", "klue/ner"])
def test_text_of_invisible_characters_is_empty(loaded: Callable, suite: str, text: str) -> None:
    with pytest.raises(InvalidItem, match="the text is empty") as refused:
        loaded(suite).item(text=text)
    assert (refused.value.field, refused.value.reason) == ("text", "empty_text")


def test_many_threads_encode_as_one_does(pair: Encoder) -> None:
    """A shared tokenizer that is re-configured cuts other threads' texts (huggingface/tokenizers#537)."""
    texts = ["오늘은 집에 있다. " * n for n in (1, 40, 3, 200, 7)] * 40
    want = [pair.tokenize(text, "text") for text in texts]
    assert max(map(len, want)) == 1000

    def work(i: int) -> object:
        pair.truncated_row({"text": want[i].ids, "text_pair": want[-i].ids})
        return pair.tokenize(texts[i], "text")

    with ThreadPoolExecutor(16) as executor:
        assert list(executor.map(work, range(len(texts)))) == want


@given(st.integers(0, 130), st.integers(0, 130))
def test_two_fields_are_shortened_as_the_reference_tokenizers_do(
    pair: Encoder, reference: Tokenizer, first: int, second: int
) -> None:
    native = reference.encode("," * first, "," * second)
    kept = [native.sequence_ids.count(0), native.sequence_ids.count(1)]
    assert list(pair.fit({"text": first, "text_pair": second}).values()) == kept


@given(st.text("오늘은집에있다 ab,", max_size=90), st.text("어제는 cd.", max_size=90))
def test_the_row_is_the_reference_tokenizers_row(pair: Encoder, reference: Tokenizer, first: str, second: str) -> None:
    native = reference.encode(first, second)
    row, cut = pair.truncated_row({"text": pair.fragment(first), "text_pair": pair.fragment(second)})
    assert row["input_ids"].tolist() == native.ids
    assert row["token_type_ids"].tolist() == native.type_ids
    assert row["attention_mask"].tolist() == [1] * len(native.ids)
    assert cut == bool(native.overflowing)


@given(st.lists(st.integers(0, 120), min_size=3, max_size=3))
def test_three_fields_share_the_room_evenly(loaded: Callable, lengths: list[int]) -> None:
    encoder: Encoder = loaded("clue/c3").task.encoder
    room = 64 - encoder.fixed
    wanted = dict(zip(encoder.fields, lengths, strict=True))
    kept = encoder.fit(wanted)
    assert sum(kept.values()) == min(room, sum(lengths))
    assert all(kept[name] <= n for name, n in wanted.items())
    cut = [name for name in wanted if kept[name] < wanted[name]]
    assert all(kept[name] >= max(kept.values()) - 1 for name in cut), "a long field lost more than it had to"


@given(st.integers(0, 200))
def test_one_field_is_cut_to_its_room(loaded: Callable, length: int) -> None:
    assert loaded("klue/ynat").task.encoder.fit({"text": length}) == {"text": min(length, 62)}


@pytest.mark.parametrize(("side", "kept"), [("right", range(62)), ("left", range(38, 100))])
def test_a_text_is_cut_on_the_side_that_the_bundle_names(copy_of: Copy, side: str, kept: range) -> None:
    encoder = load(copy_of("klue/ynat", truncation=side)).task.encoder
    row, cut = encoder.truncated_row({"text": [1000 + i for i in range(100)]})
    assert row["input_ids"].tolist() == [2, *(1000 + i for i in kept), 3]
    assert cut


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_pair_that_is_cut_on_one_side_still_fits(copy_of: Copy, side: str) -> None:
    encoder = load(copy_of("klue/nli", truncation=side)).task.encoder
    for lengths in ((100, 3), (3, 100), (100, 100)):
        row, _ = encoder.truncated_row(dict(zip(encoder.fields, ([7] * n for n in lengths), strict=True)))
        assert len(row["input_ids"]) <= 64


def test_a_model_without_segments_is_fed_none(bundle_of: BundleOf) -> None:
    encoder = Encoder(Bundle(bundle_of("klue/nli", "roberta")))
    row, at = encoder.row({"text": [9, 8], "text_pair": [7]})
    assert row.keys() == {"input_ids", "attention_mask"}
    assert row["input_ids"].tolist() == [0, 9, 8, 2, 2, 7, 2]
    assert at == {"text": 1, "text_pair": 5}


def test_a_tokenizer_file_that_cuts_or_pads_does_neither_here(copy_of: Copy) -> None:
    folder = copy_of("klue/ynat")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=16)
    tokenizer.save(str(folder / "tokenizer.json"))
    assert json.loads((folder / "tokenizer.json").read_text())["truncation"]
    encoder = load(folder).task.encoder
    assert (len(encoder.tokenize(",", "text")), len(encoder.tokenize("," * 30, "text"))) == (1, 30)


def test_a_tokenizer_without_offsets_is_refused(copy_of: Copy) -> None:
    folder = copy_of("klue/ner")
    (folder / "tokenizer.json").write_text("[PAD]\n[UNK]\n", encoding="utf-8")
    with pytest.raises(BundleError, match=r"tokenizer\.json is not a fast tokenizer with offsets"):
        load(folder)


def test_characters_are_looked_up_one_for_one(loaded: Callable) -> None:
    encoder = loaded("klue/ner").task.encoder
    text = "서 뷁😀\x00울"
    tokens = encoder.characters(text)
    assert tokens.spans == [(i, i + 1) for i in range(len(text))]
    assert [encoder.token(i) for i in tokens.ids] == ["서", "[UNK]", "[UNK]", "[UNK]", "[UNK]", "울"]
