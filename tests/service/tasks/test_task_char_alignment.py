"""Models that read lists of characters: one row position a character, whatever the character is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import Loaded, copy, load, tagging, vocabulary

from service.errors import BundleError, InvalidItem
from service.graphemes import MAX_GRAPHEME
from service.tasks.base import Encoded
from service.tasks.windowed import Context

LABELS = ["X", "B-name", "B-scene", "I-name", "I-scene", "S-name", "S-scene", "O", "[START]", "[END]"]
TAGS = {"张": "B-name", "伟": "I-name", "北": "B-scene", "京": "I-scene", "湖": "S-scene", "在": "O", "x": "X",
        "👍": "S-scene", "🏽": "S-scene",
    "\ufe0f": "B-name"}  # fmt: skip
texts = st.text(
    st.one_of(st.sampled_from("张伟北京湖在x 　\t\n😀é"), st.characters(exclude_categories=["Cs"])), min_size=1
)


@pytest.fixture(scope="module")
def model(bundle_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = copy(
        bundle_of("klue/ner"),
        tmp_path_factory.mktemp("chars") / "bundle",
        decoder={"scheme": "BIOS", "alignment": "char", "ignore_labels": ["X", "[START]", "[END]"]},
        normalization={"lowercase": True},
    )
    tagging(folder, TAGS, LABELS)
    return load(folder)


def found(model: Loaded, text: str) -> list[tuple[str, int, int]]:
    return [(e["type"], e["start"], e["end"]) for e in model.ask(text=text)["entities"]]


@pytest.mark.parametrize("text", ["张伟 在 北京", "\t张伟\n", "张\u3000伟", "😀𠮷龘张", "a\x00b", "ＡB"])
def test_every_character_has_one_position(model: Loaded, text: str) -> None:
    (ids,) = model.ids(text=text)
    assert len(ids) == len(text) + 2
    known = [model.task.encoder.find(c.lower()) for c in text]
    assert ids[1:-1] == [model.id("[UNK]") if i is None else i for i in known]


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("张伟在北京", [("name", 0, 2), ("scene", 3, 5)]),
        ("龘 😀张伟在湖", [("name", 3, 5), ("scene", 6, 7)]),
        ("张 伟", [("name", 0, 1)]),
        ("湖湖", [("scene", 0, 1), ("scene", 1, 2)]),
        ("张x伟", [("name", 0, 1)]),
        ("X张伟X", [("name", 1, 3)]),
        ("张京", [("name", 0, 1)]),
        ("伟京在", []),
        ("张\u200b伟", [("name", 0, 3)]),
    ],
)
def test_an_unknown_character_moves_no_other(model: Loaded, text: str, entities: list[tuple]) -> None:
    """One unsupported symbol shifted the labels of its neighbours (KLUE-benchmark/KLUE#40)."""
    assert found(model, text) == entities


@given(texts, st.sampled_from(["张伟", "在北京", "湖"]))
def test_text_before_shifts_and_changes_nothing_else(model: Loaded, before: str, text: str) -> None:
    before += "在"
    moved = [(kind, start - len(before), end - len(before)) for kind, start, end in found(model, before + text)]
    assert [e for e in moved if e[1] >= 0] == found(model, text)


def test_two_entities_within_one_grapheme_do_not_overlap(model: Loaded) -> None:
    assert found(model, "👍🏽在") == [("scene", 0, 2)]
    assert found(model, "👍\ufe0f伟") == [("scene", 0, 2), ("name", 2, 3)]


@given(st.lists(st.sampled_from("张伟北京湖在👍🏽\u200d\ufe0f\u0301\u200b "), min_size=1, max_size=90).map("".join))
def test_entities_are_slices_in_order_whatever_graphemes_they_share(model: Loaded, text: str) -> None:
    answer = model.ask(text=text + "在")
    assert all(e["text"] == text[e["start"] : e["end"]] != "" for e in answer["entities"])
    assert all(a["end"] <= b["start"] for a, b in pairwise(answer["entities"]))


@pytest.mark.parametrize("length", [62, 63, 200])
def test_long_text_is_read_in_windows_of_characters(model: Loaded, length: int) -> None:
    text = "在" * (length - 2) + "北京"
    answer = model.ask(text=text)
    assert [(e["start"], e["end"]) for e in answer["entities"]] == [(length - 2, length)]
    assert answer["truncated"] is False


@pytest.mark.parametrize("suite", ["klue/ynat", "klue/nli"])
def test_a_class_of_a_text_that_is_read_by_characters(suite: str, copy_of: Callable[..., Path]) -> None:
    """CHIP-CTC's models read lists of lower-cased characters; a space or an unknown one has its own place."""
    folder = copy_of(suite, decoder={"alignment": "char"}, normalization={"lowercase": True})
    vocabulary(folder, ["1", "8", "岁", "a", "a1", "18"])
    model = load(folder)
    known = [model.id(token) for token in ("1", "8", "岁")]
    unknown = model.id("[UNK]")
    expected = [*known, unknown, unknown, model.id("a"), model.id("1")]
    text = {"text": "18岁 龘A1"}
    (ids,) = model.ids(**text, **({"text_pair": "岁"} if suite == "klue/nli" else {}))
    assert ids[1 : 1 + len(expected)] == expected
    assert len(ids) == len(expected) + (2 if suite == "klue/ynat" else 4)
    assert model.ask(**text, **({"text_pair": "岁"} if suite == "klue/nli" else {}))["truncated"] is False


def test_a_long_text_is_cut_at_a_character(copy_of: Callable[..., Path]) -> None:
    folder = copy_of("klue/ynat", decoder={"alignment": "char"})
    vocabulary(folder, ["岁"])
    model = load(folder)
    room = model.task.encoder.max_length - 2
    assert model.ask(text="岁" * room)["truncated"] is False
    answer = model.ask(text="岁" * (room + 1))
    assert (answer["truncated"], answer["tokens"]) == (True, room + 2)
    with pytest.raises(InvalidItem, match=f"the text has {room + 1} tokens, the model reads {room}"):
        model.ask(text="岁" * (room + 1), on_overflow="error")


def test_marked_spans_are_never_read_by_characters(copy_of: Callable[..., Path]) -> None:
    with pytest.raises(BundleError, match=r"decoder\.alignment: Extra"):
        load(copy_of("klue/re", decoder={"alignment": "char"}))


@pytest.mark.parametrize("unit", ["\ufe0f", "😀\u200d"])
def test_a_text_that_is_one_grapheme_is_read_in_time_with_its_length(model: Loaded, unit: str) -> None:
    """Each token's span was widened through all of the text: minutes, and pieces as long as its square."""
    count = 8000
    text = unit * (count // len(unit))
    normal = model.task.encoder.normalize(text)
    tokens = model.task.encoder.characters(normal.text)
    logits = np.zeros((count, len(LABELS)), np.float32)
    context = Context(normal, tokens, [(0, count)], 0)
    item = model.task.Input(text=text, tags=True).with_pieces()
    start = perf_counter()
    answer = model.task.decode(item, Encoded([], context=context), [{"logits": logits}])
    assert perf_counter() - start < 1.5
    assert sum(len(piece["piece"]) for piece in answer["pieces"]) <= MAX_GRAPHEME * count
