"""One tag a word: models that learned from the first piece of each word alone, and clients that ask for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import Loaded, copy, load, tagging

from service.errors import BundleError
from service.tasks.encoder import Encoder, Tokens
from service.tasks.token_classification import words
from service.types import Timing

Copy = Callable[..., Path]
LABELS = ["B-D", "I-D", "B-C", "I-C", "O"]
# Later pieces are tagged as a model tags what it never learned: at random.
TAGS = {
    "hyper": "B-D", "##ten": "O", "##sion": "B-C", "renal": "B-D", "fail": "I-D", "##ure": "O", "asp": "B-C",
    "##irin": "B-D", "caused": "O", "and": "O", "##s": "I-C", ".": "O", "-": "I-D", "drop": "B-C",
}  # fmt: skip
ODD = ["Seoul.", "(Seoul)", "Castrop-Rauxel,", "12,480원", "ᄒᆞᆫ글", "…", "“도시”", "don't", "  ", "😀", "서울에서"]


@pytest.fixture(scope="module")
def tagged(bundle_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Loaded]:
    def make(word_tag: str | None) -> Loaded:
        folder = tmp_path_factory.mktemp("words") / "bundle"
        tagging(copy(bundle_of("klue/ner"), folder, decoder={"word_tag": word_tag}), TAGS, LABELS)
        return load(folder)

    return make


@pytest.fixture(scope="module")
def by_word(tagged: Callable[..., Loaded]) -> Loaded:
    return tagged("first")


@pytest.fixture(scope="module", params=["bert", "xlm-roberta", "roberta"])
def any_encoder(request: pytest.FixtureRequest, bundle_of: Callable[..., Path]) -> Encoder:
    encoder: Encoder = load(bundle_of("klue/ner", request.param)).task.encoder
    return encoder


def found(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(e["type"], e["text"]) for e in answer["entities"]]


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("aspirin caused hypertension.", [("C", "aspirin"), ("D", "hypertension")]),
        ("renal failure", [("D", "renal failure")]),
        ("renal failures and aspirin", [("D", "renal failures"), ("C", "aspirin")]),
        ("renal-failure", [("D", "renal-failure")]),
        ("hypertension aspirin", [("D", "hypertension"), ("C", "aspirin")]),
        ("caused and", []),
    ],
)
def test_a_word_has_the_tag_of_its_first_piece(by_word: Loaded, text: str, entities: list[tuple[str, str]]) -> None:
    assert found(by_word.ask(text=text)) == entities


def test_a_word_is_never_cut_whatever_its_pieces_say(tagged: Callable[..., Loaded], by_word: Loaded) -> None:
    """Half words and holes came out of long words (huggingface/transformers#11887)."""
    assert found(tagged(None).ask(text="hypertension")) == [("D", "hyper"), ("C", "sion")]
    assert found(by_word.ask(text="hypertension")) == [("D", "hypertension")]


def test_the_tags_of_characters_are_those_of_their_word(by_word: Loaded) -> None:
    assert by_word.ask(text="hypertension", tags=True)["tags"] == ["B-D", *["I-D"] * 11]


def test_words_are_whole_where_windows_join_and_where_a_text_is_cut(by_word: Loaded) -> None:
    text = "and hypertension " * 70
    assert found(by_word.ask(text=text)) == [("D", "hypertension")] * 70
    cut = by_word.ask(text=text, on_overflow="truncate")
    assert cut["truncated"] is True
    assert {e[1] for e in found(cut)[:-1]} == {"hypertension"}


def test_a_word_inside_opens_an_entity_where_a_client_chose_the_strategy(by_word: Loaded) -> None:
    """The surest piece of a word is often a later one."""
    item = by_word.item(text="aspirins").with_word_tag("max")
    (answer,) = by_word.task.predict([item], by_word.session.run, [Timing()])
    assert found(answer) == [("C", "aspirins")]
    inside = by_word.item(text="fail")
    assert found(by_word.task.predict([inside], by_word.session.run, [Timing()])[0]) == []
    (answer,) = by_word.task.predict([inside.with_word_tag("max")], by_word.session.run, [Timing()])
    assert found(answer) == [("D", "fail")]


ROWS = np.log(np.array([[0.6, 0.3, 0.1], [0.05, 0.9, 0.05], [0.2, 0.35, 0.45]]))


@pytest.mark.parametrize(
    ("word_tag", "probabilities"),
    [("first", [0.6, 0.3, 0.1]), ("max", [0.05, 0.9, 0.05]), ("average", [0.85 / 3, 1.55 / 3, 0.6 / 3])],
)
def test_the_tag_of_a_word_by_each_strategy(by_word: Loaded, word_tag: Any, probabilities: list[float]) -> None:
    text = "hypertension"
    tokens = by_word.task.encoder.tokenize(text, "text")
    rows, one = words(ROWS, tokens, text, word_tag)
    assert np.exp(rows) == pytest.approx(np.array([probabilities]))
    assert one.spans == [(0, 12)]


@pytest.mark.parametrize("decoder", [{"alignment": "char"}, {"crf": "chain"}])
def test_what_has_no_words_of_pieces_cannot_tag_by_word(copy_of: Copy, decoder: dict[str, Any]) -> None:
    if "crf" in decoder:
        zeros = [0.0] * 13
        decoder = {"crf": {"transitions": [zeros] * 13, "start": zeros, "end": zeros, "span": "text"}}
    with pytest.raises(BundleError, match="word_tag is for pieces of words"):
        load(copy_of("klue/ner", decoder=decoder | {"word_tag": "first"}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Seoul.", ["Seoul", "."]),
        ("(Seoul)", ["(", "Seoul", ")"]),
        ("서울에서 갔다", ["서울에서", "갔다"]),
        ("2024-30, 2024", ["2024-30", ",", "2024"]),
    ],
)
def test_punctuation_around_a_word_is_none_of_it(
    bundle_of: Callable[..., Path], text: str, expected: list[str]
) -> None:
    """The full stop became part of the entity (openfoodfacts/robotoff#1413): SentencePiece knows only spaces."""
    encoder = load(bundle_of("klue/ner", "xlm-roberta")).task.encoder
    tokens = encoder.tokenize(text, "text")
    parts = [(a, b) for a, b in tokens.words(text) if tokens.ids[b - 1] != encoder.word_mark_id]
    assert [text[tokens.spans[a][0] : tokens.spans[b - 1][1]] for a, b in parts] == expected


@given(text=st.lists(st.sampled_from(ODD), min_size=1, max_size=8).map(" ".join).filter(str.strip))
def test_every_piece_belongs_to_one_word(any_encoder: Encoder, text: str) -> None:
    tokens = any_encoder.tokenize(text, "text")
    parts = tokens.words(text)
    assert [i for first, last in parts for i in range(first, last)] == list(range(len(tokens)))


def test_characters_are_words_where_there_is_no_tokenizer() -> None:
    assert Tokens([7, 8], [(0, 1), (1, 2)]).words("北京") == [(0, 1), (1, 2)]
