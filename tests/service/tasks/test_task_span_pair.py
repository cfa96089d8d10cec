"""Two marked spans of a text: markers are inserted by code, wherever the spans lie, and never cut off."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kit import Loaded, load
from pydantic import ValidationError

from service.errors import BundleError, InvalidItem

Copy = Callable[..., Path]
TEXT = "김구는 대한민국의 독립운동가이다."
MARKERS = ["<subj>", "</subj>", "<obj>", "</obj>"]


@pytest.fixture
def relation(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded("klue/re")


@pytest.fixture
def pronoun(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded("clue/wsc2020")


def spans(subject: tuple[int, int], obj: tuple[int, int]) -> dict[str, Any]:
    return {role: {"start": s[0], "end": s[1]} for role, s in (("subject", subject), ("object", obj))}


def row(model: Loaded, text: str, subject: tuple[int, int], obj: tuple[int, int], **options: Any) -> list[str]:
    """The pieces that the model reads, without the two at the edges."""
    (ids,) = model.ids(text=text, **spans(subject, obj), **options)
    pieces = [model.task.encoder.token(i) for i in ids]
    assert (pieces[0], pieces[-1]) == ("[CLS]", "[SEP]")
    return pieces[1:-1]


def pieces(model: Loaded, text: str) -> list[str]:
    return [model.task.encoder.token(i) for i in model.task.encoder.fragment(text)]


@pytest.mark.parametrize(
    ("subject", "obj", "order"),
    [
        ((0, 2), (4, 8), "<subj> 김구 </subj> 는 <obj> 대한민국 </obj> 의"),
        ((4, 8), (0, 2), "<obj> 김구 </obj> 는 <subj> 대한민국 </subj> 의"),
        ((0, 8), (4, 8), "<subj> 김구는 <obj> 대한민국 </obj> </subj> 의"),
        ((4, 6), (4, 8), "<obj> <subj> 대한 </subj> 민국 </obj> 의"),
        ((4, 8), (5, 7), "<subj> 대 <obj> 한민 </obj> 국 </subj> 의"),
        ((4, 7), (6, 8), "<subj> 대한 <obj> 민 </subj> 국 </obj> 의"),
        ((4, 6), (6, 8), "<subj> 대한 </subj> <obj> 민국 </obj> 의"),
        ((6, 8), (4, 6), "<obj> 대한 </obj> <subj> 민국 </subj> 의"),
    ],
)
def test_markers_stand_around_their_spans(
    relation: Loaded, subject: tuple[int, int], obj: tuple[int, int], order: str
) -> None:
    """Side by side, nested or overlapping, in either order."""
    got = row(relation, TEXT, subject, obj)
    bare = [piece.removeprefix("##") for piece in got]
    assert [p for p in bare if p in MARKERS] == [w for w in order.split() if w in MARKERS]
    assert "".join(order.split()) in "".join(bare)


def test_markers_of_equal_spans_nest(relation: Loaded) -> None:
    got = [piece for piece in row(relation, TEXT, (4, 8), (4, 8)) if piece in MARKERS]
    assert got in (["<subj>", "<obj>", "</obj>", "</subj>"], ["<obj>", "<subj>", "</subj>", "</obj>"])


def test_a_marker_that_is_typed_is_text(relation: Loaded) -> None:
    text = "<subj>김구</subj>는 <obj> [SEP] 대한민국의"
    at = text.index("대한민국")
    (ids,) = relation.ids(text=text, **spans((6, 8), (at, at + 4)))
    for token in (*MARKERS, "[SEP]", "[CLS]"):
        assert ids.count(relation.id(token)) == 1
    honest = relation.ask(text="김구는 대한민국의", **spans((0, 2), (4, 8)))
    assert relation.ask(text=text, **spans((6, 8), (at, at + 4)))["scores"] != honest["scores"]


def test_a_span_at_either_end_of_the_text_is_marked(relation: Loaded) -> None:
    text = "김구는 대한민국"
    got = row(relation, text, (0, 2), (4, 8))
    assert (got[0], got[-1]) == ("<subj>", "</obj>")
    assert row(relation, text, (4, 8), (0, 8))[-2:] == ["</subj>", "</obj>"]


@pytest.mark.parametrize(
    ("text", "subject", "after"),
    [
        ("김구는 대한", (0, 2), "##는"),
        ("김구 는 대한", (0, 2), "는"),
        ("김구, 대한", (0, 2), ","),
        ("김구2 대한", (0, 2), "2"),
    ],
)
def test_a_particle_continues_the_word_before_the_marker(
    relation: Loaded, text: str, subject: tuple[int, int], after: str
) -> None:
    """As in training: a Hangul piece right after a closing marker is a continuation, nothing else is."""
    got = row(relation, text, subject, (text.index("대한"), len(text)))
    assert got[got.index("</subj>") + 1] == after
    assert got[got.index("<obj>") + 1] == pieces(relation, "대한")[0]


def test_a_bundle_without_the_particle_rule_leaves_the_particle(copy_of: Copy) -> None:
    model = load(copy_of("klue/re", decoder={"attach_particle": False}))
    got = row(model, "김구는 대한", (0, 2), (4, 6))
    assert got[got.index("</subj>") + 1] == "는"


syllables = st.text("김구는대한 😀,", min_size=2, max_size=30)


@given(syllables, st.data())
def test_what_stands_between_markers_is_the_span(loaded: Callable, text: str, data: st.DataObject) -> None:
    model = loaded("klue/re")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=4, max_size=4)))
    first, second = (cuts[0], cuts[1]), (cuts[2], cuts[3])
    assume(text[slice(*first)].strip() and text[slice(*second)].strip())
    subject, obj = (first, second) if data.draw(st.booleans()) else (second, first)
    got = row(model, text, subject, obj)
    assert [got.count(marker) for marker in MARKERS] == [1, 1, 1, 1]
    for name, (a, b) in (("subj", subject), ("obj", obj)):
        assert got[got.index(f"<{name}>") + 1 : got.index(f"</{name}>")] == pieces(model, text[a:b])


@pytest.mark.parametrize(("unit", "codec", "size"), [("utf16", "utf-16-le", 2), ("byte", "utf-8", 1)])
def test_spans_in_other_units_mark_the_same_characters(relation: Loaded, unit: str, codec: str, size: int) -> None:
    text = "😀é " + TEXT
    outward = [len(text[:i].encode(codec)) // size for i in range(len(text) + 1)]
    want = row(relation, text, (3, 5), (7, 11))
    assert row(relation, text, (outward[3], outward[5]), (outward[7], outward[11]), offset_unit=unit) == want


def test_decomposed_text_marks_the_same_characters(relation: Loaded) -> None:
    apart = unicodedata.normalize("NFD", TEXT)
    at = [len(unicodedata.normalize("NFD", TEXT[:i])) for i in range(len(TEXT) + 1)]
    assert row(relation, apart, (at[0], at[2]), (at[4], at[8])) == row(relation, TEXT, (0, 2), (4, 8))


@pytest.mark.parametrize(
    ("subject", "obj", "unit", "path"),
    [
        ((0, 99), (4, 8), "codepoint", "subject.end"),
        ((0, 2), (50, 51), "codepoint", "object.start"),
        ((2, 2), (4, 8), "codepoint", "subject"),
        ((0, 2), (8, 4), "codepoint", "object"),
        ((3, 4), (4, 8), "codepoint", "subject"),
        ((0, 2), (18, 20), "codepoint", "object.end"),
        ((1, 3), (4, 8), "byte", "subject.start"),
        ((0, 3), (4, 8), "byte", "object.start"),
        ((0, 1000), (4, 8), "utf16", "subject.end"),
    ],
)
def test_a_span_that_marks_nothing_is_refused_with_its_path(
    relation: Loaded, subject: tuple[int, int], obj: tuple[int, int], unit: str, path: str
) -> None:
    with pytest.raises(InvalidItem) as refused:
        relation.item(text=TEXT, offset_unit=unit, **spans(subject, obj))
    assert (refused.value.status, refused.value.reason, refused.value.field) == (422, "invalid_span", path)


def test_a_span_that_splits_a_surrogate_pair_is_refused(relation: Loaded) -> None:
    with pytest.raises(InvalidItem, match="inside a character") as refused:
        relation.item(text="😀김구 대한", offset_unit="utf16", **spans((1, 4), (5, 7)))
    assert refused.value.field == "subject.start"


def test_a_span_of_invisible_characters_is_refused(relation: Loaded) -> None:
    with pytest.raises(InvalidItem, match="no characters that the model knows") as refused:
        relation.ask(text="김구는 \u200b대한", **spans((0, 2), (4, 5)))
    assert (refused.value.field, refused.value.reason) == ("object", "invalid_span")


@pytest.mark.parametrize("span", [{"start": -1, "end": 2}, {"start": 0}, {"start": 0, "end": "2"},
                                  {"start": 0, "end": 2, "word": "김구"}, [0, 2], None])  # fmt: skip
def test_a_span_of_another_shape_is_invalid(relation: Loaded, span: Any) -> None:
    with pytest.raises(ValidationError):
        relation.item(text=TEXT, subject=span, object={"start": 4, "end": 8})


def test_a_relation_has_a_direction(relation: Loaded) -> None:
    one = relation.ask(text=TEXT, top_k=30, **spans((0, 2), (4, 8)))
    two = relation.ask(text=TEXT, top_k=30, **spans((4, 8), (0, 2)))
    assert one["label"] in relation.task.manifest.labels
    assert one["scores"] != two["scores"]


def test_markers_that_are_no_tokens_are_refused_at_load(copy_of: Copy) -> None:
    """The tokenizer would take them apart and the model silently read noise."""
    markers = {"subject": ["<e1>", "</e1>"], "object": ["<obj>", "</obj>"]}
    with pytest.raises(BundleError, match=r"markers \['<e1>', '</e1>'\] are not in the tokenizer's vocabulary"):
        load(copy_of("klue/re", decoder={"markers": markers}))
