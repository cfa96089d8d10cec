"""Dependency parsing: which pieces a word is, whose offsets, which parts of speech, and that answers are trees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import Loaded, load, vocabulary

from service.errors import BundleError, InvalidItem
from service.tasks import trees
from service.tasks.base import Encoded

WORDS = ["나는", "어제", "도서관에서", "책을", "빌렸다."]
POS = ["NP+JX", "MAG", "NNG+JKB", "NNG+JKO", "VV+EP+EF+SF"]
PLAIN, TAGGED = "klue/dp-no-pos", "klue/dp"


@pytest.fixture
def parser(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded(PLAIN)


@pytest.fixture
def tagged(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded(TAGGED)


@pytest.fixture
def lettered(copy_of: Callable[..., Path]) -> Loaded:
    """A parser whose pieces are the letters a to e."""
    folder = copy_of(PLAIN)
    vocabulary(folder, [*"abcde", *(f"##{c}" for c in "abcde")])
    return load(folder)


def row(model: Loaded, **fields: Any) -> dict[str, list[int]]:
    (found,) = model.task.encode(model.item(**fields)).rows
    return {name: array.tolist() for name, array in found.items()}


def arcs(answer: dict[str, Any]) -> list[tuple[int, str]]:
    return [(word["head"], word["relation"]) for word in answer["words"]]


def test_a_word_is_its_first_and_its_last_piece(lettered: Loaded) -> None:
    got = row(lettered, words=["abc", "d", "eb"])
    assert [lettered.task.encoder.token(i) for i in got["input_ids"]] == [
        *("[CLS]", "a", "##b", "##c", "d", "e", "##b", "[SEP]")
    ]
    assert (got["head_idx"], got["tail_idx"], got["word_mask"]) == ([1, 4, 5], [3, 4, 6], [1, 1, 1])
    assert "pos_ids" not in got


def test_the_mere_mark_of_a_word_is_none_of_its_pieces(bundle_of: Callable[..., Path]) -> None:
    """A piece of its own where the vocabulary has no piece that begins with both the mark and the character."""
    model = load(bundle_of(PLAIN, "xlm-roberta"))
    mark = model.task.encoder.word_mark_id
    got = row(model, words=["서울에서", "龘", "qwz", "왔다."])
    ids, spans = got["input_ids"], list(zip(got["head_idx"], got["tail_idx"], strict=True))
    assert mark in ids
    assert all(mark not in ids[first : last + 1] for first, last in spans)
    # Marks and the two ends of the sequence aside, every piece belongs to a word.
    assert sum(last - first + 1 for first, last in spans) == len(ids) - 2 - ids.count(mark)


def test_only_the_tag_of_the_last_morpheme_is_read(tagged: Loaded) -> None:
    tags = tagged.task.params.pos_tags
    assert row(tagged, words=WORDS, pos=POS)["pos_ids"] == [tags.index(t) for t in ("JX", "MAG", "JKB", "JKO", "SF")]
    changed = ["VV+JX", *POS[1:]]
    assert tagged.ask(words=WORDS, pos=changed) == tagged.ask(words=WORDS, pos=POS)
    other = tagged.ask(words=WORDS, pos=["NNG", *POS[1:]])
    assert other != tagged.ask(words=WORDS, pos=POS), "the tags change nothing"


def test_white_space_of_any_kind_and_length_parts_the_words_of_a_text(parser: Loaded) -> None:
    text = "\ufeff \u200b 나는  어제\t도서관에서\u00a0책을\u3000\n빌렸다. "
    got, want = parser.ask(text=text), parser.ask(words=WORDS)
    assert arcs(got) == arcs(want)
    assert [text[w["start"] : w["end"]] for w in got["words"]] == [w["form"] for w in got["words"]] == WORDS
    joined = " ".join(WORDS)
    assert [joined[w["start"] : w["end"]] for w in want["words"]] == WORDS
    assert parser.ask(text=joined) == want


def test_words_keep_what_the_caller_wrote_in_the_callers_unit(parser: Loaded) -> None:
    """Decomposed Hangul and an emoji: the model reads composed syllables, offsets count the caller's string."""
    words = ["\u1100\u1161\u11ab", "😀", "서울에서"]
    got = parser.ask(words=words, offset_unit="utf16")
    assert [w["form"] for w in got["words"]] == words
    assert [(w["start"], w["end"]) for w in got["words"]] == [(0, 3), (4, 6), (7, 11)]
    assert arcs(got) == arcs(parser.ask(words=["간", *words[1:]]))
    assert [w["index"] for w in got["words"]] == [1, 2, 3]


def test_a_mark_at_the_start_of_a_word_does_not_join_the_word_before(parser: Loaded) -> None:
    assert len(parser.ask(words=["서울", "\u0301에서"])["words"]) == 2


STRANGERS: list[dict[str, Any]] = [
    {"words": ["네."], "pos": ["IC+SF"]},
    {"words": ["서울에서"] * 20, "pos": ["NNG+JKB"] * 20},
    {"words": ["가"] * 55, "pos": ["NNG"] * 55},
    {"words": ["ㅋㅋㅋ", "…", "!!!", "😀"], "pos": ["IC", "SE", "SF", "SW"]},
]


@pytest.mark.parametrize("suite", [PLAIN, TAGGED])
def test_alone_is_as_among_long_strangers_and_a_tree(loaded: Callable[[str], Loaded], suite: str) -> None:
    """Padding leaked into the backward half of the official LSTM and into its choice of heads."""
    model = loaded(suite)
    requests = [{"words": WORDS, "pos": POS}, *STRANGERS]
    if suite == PLAIN:
        requests = [{"words": request["words"]} for request in requests]
    for request, got in zip(requests, model.ask_all(requests), strict=True):
        alone = model.ask(**request)
        assert [w["form"] for w in got["words"]] == request["words"]
        assert arcs(got) == arcs(alone)
        assert [w["score"] for w in got["words"]] == pytest.approx([w["score"] for w in alone["words"]], abs=1e-5)
        assert trees.is_projective([w["head"] for w in got["words"]])


def decoded(model: Loaded, arc: list[list[float]], tree: trees.Method, padding: int = 0) -> list[dict[str, Any]]:
    """The words of an answer from hand-made scores; relation j is best between a word and head j."""
    words = len(arc)
    padded = np.pad(np.array(arc, np.float32), ((0, 0), (0, padding)), constant_values=99)
    rel = np.zeros((*padded.shape, 38), np.float32)
    for head in range(padded.shape[1]):
        rel[:, head, head] = 1
    item = model.item(words=list("abcde"[:words]))
    context = model.task.encode(item).context
    model.task.params = model.task.params.model_copy(update={"tree": tree})
    found: list[dict[str, Any]] = model.task.decode(item, Encoded([], False, context), [{"arc": padded, "rel": rel}])[
        "words"
    ]
    return found


CIRCLE = [[0, -9, 8, 1], [0, 8, -9, 6], [5, 0, 1, -9]]


@pytest.mark.parametrize(("tree", "heads"), [("argmax", [2, 1, 0]), ("mst", [2, 3, 0]), ("projective", [2, 3, 0])])
def test_heads_are_chosen_as_the_bundle_says(lettered: Loaded, tree: trees.Method, heads: list[int]) -> None:
    """Greedy heads made circles and several roots (yzhangcs/parser#6); relation and score are those of the choice."""
    got = decoded(lettered, CIRCLE, tree)
    labels = lettered.task.manifest.labels
    assert [w["head"] for w in got] == heads
    assert [w["relation"] for w in got] == [labels[head] for head in heads]
    for word, scores in zip(got, np.array(CIRCLE, float), strict=True):
        want = np.exp(scores[word["head"]]) / np.exp(scores).sum()
        assert word["score"] == pytest.approx(want, abs=1e-6)


def test_heads_that_are_padding_are_no_heads(lettered: Loaded) -> None:
    assert decoded(lettered, CIRCLE, "argmax", padding=4) == decoded(lettered, CIRCLE, "argmax")


def test_words_that_do_not_fit_as_a_whole_are_not_read(lettered: Loaded) -> None:
    words = ["abcde"] * 20  # 62 tokens are read
    answer = lettered.ask(words=words)
    assert (len(answer["words"]), answer["truncated"], answer["tokens"]) == (12, True, 62)
    assert lettered.ask(words=words[:12])["truncated"] is False
    for fields, path in (({"words": words}, "words.12"), ({"text": " ".join(words)}, "text")):
        with pytest.raises(InvalidItem, match="the text has 100 tokens, the model reads 62") as refused:
            lettered.ask(**fields, on_overflow="error")
        assert (refused.value.field, refused.value.reason) == (path, "text_too_long")


def test_a_first_word_that_does_not_fit_is_refused(lettered: Loaded) -> None:
    with pytest.raises(InvalidItem) as refused:
        lettered.ask(words=["a" * 63, "b"])
    assert (refused.value.field, refused.value.reason) == ("words.0", "text_too_long")


@pytest.mark.parametrize(
    ("suite", "fields", "path"),
    [
        (PLAIN, {}, "words"),
        (PLAIN, {"words": WORDS, "text": "나는"}, "text"),
        (PLAIN, {"words": []}, "words"),
        (PLAIN, {"words": ["나는", "", "책을"]}, "words.1"),
        (PLAIN, {"words": ["나는", "\u00a0"]}, "words.1"),
        (PLAIN, {"text": " \t\u200b"}, "text"),
        (PLAIN, {"words": WORDS, "pos": POS}, "pos"),
        (TAGGED, {"words": WORDS}, "pos"),
        (TAGGED, {"words": WORDS, "pos": POS[:4]}, "pos"),
        (TAGGED, {"text": "나는  어제", "pos": ["NP+JX", "", "MAG"]}, "pos"),
        (TAGGED, {"words": WORDS, "pos": [*POS[:2], "NNG+?", *POS[3:]]}, "pos.2"),
        (TAGGED, {"words": WORDS, "pos": [*POS[:4], ""]}, "pos.4"),
    ],
)
def test_a_request_that_cannot_be_parsed_is_refused_by_name(
    loaded: Callable[[str], Loaded], suite: str, fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidItem) as refused:
        loaded(suite).item(**fields)
    assert (refused.value.status, refused.value.field) == (422, path)


@pytest.mark.parametrize(
    ("fields", "path", "word"),
    [
        ({"words": ["가", "\x07"]}, "words.1", "word 2 holds"),
        ({"text": "가 \x07 나"}, "text", "word 2 holds"),
        ({"words": ["\x07"]}, "words.0", "holds"),
    ],
)
def test_a_word_that_the_tokenizer_deletes_is_named(
    parser: Loaded, fields: dict[str, Any], path: str, word: str
) -> None:
    with pytest.raises(InvalidItem, match=f"{word} no characters that the model knows") as refused:
        parser.ask(**fields)
    assert (refused.value.field, refused.value.reason) == (path, "no_tokens")


@pytest.mark.parametrize(
    ("suite", "changes", "what"),
    [
        (PLAIN, {"labels": ["a", "b"]}, "38 relations, the bundle names 2"),
        (PLAIN, {"decoder": {"pos_tags": ["NNG"]}}, "pos_tags belongs to a graph that reads pos_ids"),
        (TAGGED, {"decoder": {"pos_tags": []}}, "pos_tags belongs to a graph that reads pos_ids"),
        (PLAIN, {"decoder": {"tree": "greedy"}}, r"decoder\.tree"),
    ],
)
def test_a_bundle_that_contradicts_itself_is_not_served(
    copy_of: Callable[..., Path], suite: str, changes: dict[str, Any], what: str
) -> None:
    with pytest.raises(BundleError, match=what):
        load(copy_of(suite, **changes))
