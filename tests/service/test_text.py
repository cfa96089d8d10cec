"""Normalisation that remembers where each character came from, and graphemes that no span may open."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from time import perf_counter

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from service.graphemes import INVISIBLE, MAX_GRAPHEME, is_boundary
from service.text import (
    Form,
    Normalized,
    is_blank,
    is_overmarked,
    normalize,
)

# What goes wrong in practice: jamo, marks, compatibility forms, invisible characters, emoji sequences, line ends.
TRICKY = "가각한ㅋㅎㅏ\u1100\u1161\u11a8\u1112\u1175\u110b\u116déeñ\u0301\u0323\u0327\u0345ﬁ㈜㎏①ａＡ½…İß"
TRICKY += "\u200b\u2060\ufeff\u200d\u3000\xa0 \t\r\n😀👩👧👍\U0001f3fd\ufe0f漢字がか\u3099.,-_xyz"
# Not `st.text(one_of(...))`: that draws evenly from the union, in which the tricky ones drown.
mixed = st.one_of(st.sampled_from(TRICKY), st.characters(exclude_categories=["Cs"]))
texts = st.lists(mixed, max_size=24).map("".join)
forms = st.sampled_from(["nfc", "nfkc", "none"])


def plain(text: str) -> str:
    return "".join(c for c in text if c not in INVISIBLE)


def form_of(form: Form, text: str) -> str:
    return text if form == "none" else unicodedata.normalize(form.upper(), text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "form", "expected", "origins"),
    [
        ("한국", "nfc", "한국", [(0, 1), (1, 2)]),
        (unicodedata.normalize("NFD", "한국"), "nfc", "한국", [(0, 3), (3, 6)]),
        ("마\u110b\u116d.", "nfc", "마요.", [(0, 1), (1, 3), (3, 4)]),
        ("마\u110b\u116d.", "nfkc", "마요.", [(0, 1), (1, 3), (3, 4)]),
        ("㈜나", "nfkc", "(주)나", [(0, 1), (0, 1), (0, 1), (1, 2)]),
        ("㈜나", "nfc", "㈜나", [(0, 1), (1, 2)]),
        ("oﬃce", "nfkc", "office", [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3), (3, 4)]),
        ("서\u200b울", "nfc", "서울", [(0, 1), (2, 3)]),
        ("\ufeffA\u2060", "none", "A", [(1, 2)]),
        ("e\u200b\u0301!", "nfc", "é!", [(0, 3), (3, 4)]),
        ("Ａ１", "nfc", "Ａ１", [(0, 1), (1, 2)]),
        ("Ａ１", "nfkc", "A1", [(0, 1), (1, 2)]),
        ("a\u0323\u0302", "nfc", "ậ", [(0, 3)]),
        ("x\u0301\u0323", "nfc", "x\u0323\u0301", [(0, 3), (0, 3), (0, 3)]),
        ("ㅋㅋ", "nfc", "ㅋㅋ", [(0, 1), (1, 2)]),
        ("ㅋㅋ", "nfkc", "\u110f\u110f", [(0, 1), (1, 2)]),
        ("", "nfc", "", []),
    ],
)
def test_each_character_knows_its_place_in_the_callers_text(
    text: str, form: Form, expected: str, origins: list[tuple[int, int]]
) -> None:
    got = normalize(text, form)
    assert (got.text, list(zip(got.starts, got.ends, strict=True))) == (expected, origins)


@given(texts, forms)
@example("a\u0323\u0302b", "nfc")
def test_the_text_is_the_unicode_form_of_what_is_visible(text: str, form: Form) -> None:
    assert normalize(text, form).text == form_of(form, plain(text))


@pytest.mark.parametrize("text", ["a\u0327\u0301", "o\u0345\u0302", "no i\u0327\u0301 "])
def test_marks_that_compose_across_another_mark_are_composed(text: str) -> None:
    assert normalize(text, "nfc").text == unicodedata.normalize("NFC", text)


def test_a_long_run_of_marks_costs_no_more_than_its_length() -> None:
    start = perf_counter()
    assert len(normalize("a" + "\u0301\u0323" * 800).text) == 1600
    assert perf_counter() - start < 0.3


@pytest.mark.parametrize(("marks", "refused"), [(32, False), (33, True), (50_000, True)])
def test_a_run_of_marks_too_long_to_be_put_in_order_is_noticed_quickly(marks: int, refused: bool) -> None:
    start = perf_counter()
    for mark in ("\u0301", "\U0001d165"):
        assert is_overmarked("가" * 50_000 + "a" + mark * marks) is refused
    assert perf_counter() - start < 0.3


@pytest.mark.parametrize(
    "text",
    [
        ("\u0301" * 32 + "\u200b") * 1500 + ("\u0327" * 32 + "\u200b") * 1500,
        "가" + "\u0301\u2060\ufeff" * 33,
        "\u0f73" * 100_000,
        "\u0f75\u0f81" * 17,
        "か" + "\uff9e" * 33,
        "か" + ("\u0301" * 32 + "\uff9f") * 3000,
    ],
)
def test_nothing_hides_a_run_of_marks(text: str) -> None:
    """Dropped characters between them, and such as only their decomposition shows to be marks."""
    start = perf_counter()
    assert is_overmarked(text)
    assert perf_counter() - start < 0.3


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
@pytest.mark.parametrize(
    "unit", ["a" + "\u0327\u0301" * 16, "\u0301" * 32 + "a", "\u0f73" * 32 + "\u200b가", "ｶ\uff9e"]
)
def test_what_is_not_refused_is_normalised_in_time_with_its_length(unit: str, form: Form) -> None:
    text = unit * (20_000 // len(unit))
    assert not is_overmarked(text)
    start = perf_counter()
    normalize(text, form)
    assert perf_counter() - start < 1


@given(texts, forms)
def test_origins_are_in_order_and_lose_only_invisible_characters(text: str, form: Form) -> None:
    got = normalize(text, form)
    pairs = list(zip(got.starts, got.ends, strict=True))
    assert len(pairs) == len(got.text)
    assert all(0 <= start < end <= len(text) for start, end in pairs)
    assert pairs == sorted(pairs)
    assert all(b == a or b[0] >= a[1] for a, b in pairwise(pairs))
    covered = {i for start, end in pairs for i in range(start, end)}
    assert all(text[i] in INVISIBLE for i in set(range(len(text))) - covered)


@given(texts, forms, st.data())
def test_a_span_reaches_from_grapheme_to_grapheme(text: str, form: Form, data: st.DataObject) -> None:
    got = normalize(text, form)
    assume(got.text)
    start = data.draw(st.integers(0, len(got.text) - 1))
    end = data.draw(st.integers(start + 1, len(got.text)))
    first, last = got.span(start, end)
    assert first <= got.starts[start] < got.ends[end - 1] <= last
    for i in (first, last):
        if 0 < i < len(text) and text[i - 1] != "\u200d":  # see the case of its own below
            assert unicodedata.category(text[i]) not in ("Mn", "Me", "Mc"), "a mark was left behind"
            pair = unicodedata.normalize("NFC", text[i - 1 : i + 1])
            assert len(pair) == 2 or unicodedata.normalize("NFD", pair) != text[i - 1 : i + 1], "a syllable was split"


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("👩\u200d👧\u200d👧", {1, 2, 3, 4}),
        ("👍\U0001f3fd!", {1}),
        ("❤\ufe0f\u200d🔥", {1, 2, 3}),
        ("\u1112\u1161\u11ab\u1100", {1, 2}),
        ("하\u11ab", {1}),
        ("한\u11ab", set()),
        ("\u1100\u1112\u1161", {2}),
        ("\u110f\u110f", set()),
        ("ㅋㅋㅋ", set()),
        ("1\ufe0f\u20e3", {1, 2}),
        ("क\u093f", {1}),
        ("ab\u200dc", {2}),
        (" \u200d가", set()),
        ("a b", set()),
    ],
)
def test_graphemes_are_not_opened(text: str, inside: set[int]) -> None:
    assert {i for i in range(len(text) + 1) if not is_boundary(text, i)} == inside


@pytest.mark.parametrize("text", ["a\u200d\u0301", "क\u094d\u200d\u093f"])
def test_a_mark_after_a_joiner_stays_with_its_letter(text: str) -> None:
    assert not is_boundary(text, len(text) - 1)


@pytest.mark.parametrize(("text", "inside"), [("🇰🇷", 1), ("🇺🇸🇰🇷", 3), ("🏴\U000e0067\U000e0062\U000e007f", 2)])
def test_a_flag_is_one_grapheme(text: str, inside: int) -> None:
    assert not is_boundary(text, inside)


@pytest.mark.parametrize("unit", ["\ufe0f", "😀\u200d", "a" + "\u093f" * 999, "🇰", "\u1100\u1161", "가"])
def test_the_spans_of_a_text_take_time_with_its_length(unit: str) -> None:
    """A model that reads characters asks for one each, and a grapheme may be as long as the text."""
    text = normalize(unit * (20_000 // len(unit)))
    start = perf_counter()
    spans = [text.span(i, i + 1) for i in range(len(text.text))]
    assert perf_counter() - start < 2
    assert sum(end - first for first, end in spans) <= MAX_GRAPHEME * len(text.original), "nor is what they hold longer"
    assert spans == sorted(spans)


def test_a_grapheme_is_whole_up_to_its_greatest_length_and_then_parts() -> None:
    for marks in (9, MAX_GRAPHEME - 1):
        text = normalize("a" + "\u093f" * marks + "b")
        assert {text.span(i, i + 1) for i in range(marks + 1)} == {(0, marks + 1)}
    text = normalize("a" + "\u093f" * 99 + "b")
    assert {text.span(i, i + 1) for i in range(100)} == {(0, 64), (64, 100)}
    assert text.span(3, 70) == (0, 100)
    assert text.span(3, 64) == (0, 64)


@given(texts, texts, forms, st.data())
def test_a_prefix_shifts_every_span_by_its_length(prefix: str, text: str, form: Form, data: st.DataObject) -> None:
    """Counting bytes or UTF-16 units anywhere would drift after the first emoji (huggingface/transformers#3058)."""
    prefix += "x "
    assume(text and is_boundary(" " + text, 1) and text[0] not in INVISIBLE)
    alone, moved = normalize(text, form), normalize(prefix + text, form)
    assert moved.text.endswith(alone.text)
    before, n = len(moved.text) - len(alone.text), len(prefix)
    assume(alone.text)
    start = data.draw(st.integers(0, len(alone.text) - 1))
    end = data.draw(st.integers(start + 1, len(alone.text)))
    first, last = alone.span(start, end)
    assert moved.span(before + start, before + end) == (first + n, last + n)


@given(texts, forms)
def test_composed_and_decomposed_text_read_the_same(text: str, form: Form) -> None:
    assume(form != "none")
    apart = unicodedata.normalize("NFD", text)
    assert normalize(apart, form).text == normalize(unicodedata.normalize("NFC", text), form).text


@given(st.one_of(texts, st.text("\u200b\u2060\ufeff \t\n\r\x1c\x85\xa0\u3000\u2028", max_size=6)))
def test_a_text_is_blank_if_nothing_visible_is_left_of_it(text: str) -> None:
    assert is_blank(text) is (plain(text).strip() == "")


def test_a_span_holds_what_is_invisible_within_it() -> None:
    assert normalize("e\u200b\u0301!").span(0, 1) == (0, 3)
    assert normalize("가\u200b나").span(0, 1) == (0, 1)
    assert normalize("x\u030c나").span(1, 3) == (0, 3)


def test_position_finds_the_first_character_at_or_after_an_offset() -> None:
    got = normalize("서\u200b울 " + unicodedata.normalize("NFD", "각"), "nfc")
    assert [got.position(i) for i in range(8)] == [0, 1, 1, 2, 3, 4, 4, 4]


def test_lowering_and_replacing_keep_one_character_for_one() -> None:
    got = normalize("İß A“b”", "nfc", lowercase=True, replace={ord("“"): '"', ord("”"): '"'})
    assert got == Normalized("İß A“b”", 'İß a"b"', range(7), range(1, 8))
