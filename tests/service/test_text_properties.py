"""What holds of every text: properties of the text functions, each against the plainest way to say it."""

from __future__ import annotations

import unicodedata
from itertools import groupby

from hypothesis import assume, given
from hypothesis import strategies as st

from service.graphemes import INVISIBLE, is_boundary
from service.text import MAX_MARKS, Form, is_blank, is_overmarked, normalize

TRICKY = "가각ㅋ\u1100\u1161\u11a8\u110b\u116déñ\u0301\u0323\u0327ﬁ㈜㎏①ａＡ½İß臺灣台湾"
TRICKY += "\u200b\u2060\ufeff\u200d\u3000\xa0 \t\n"
TRICKY += "👩👧👍\U0001f3fd\ufe0fか\u3099🇰🇷\U0001d165.x"
texts = st.lists(st.sampled_from(TRICKY) | st.characters(exclude_categories=["Cs"]), max_size=24).map("".join)
forms = st.sampled_from(["nfc", "nfkc", "none"])
MARKS = "\u0301\u0323\u20dd\U0001d165\U0001e944\u0f73\u0f75\u0f81\uff9e\uff9f\u0344"


def is_mark(c: str) -> bool:
    return all(map(unicodedata.combining, unicodedata.normalize("NFKD", c)))


def test_a_character_is_of_marks_alone_or_begins_with_none() -> None:
    """What the first character of a decomposition says of all of it."""
    apart = (unicodedata.normalize("NFKD", chr(i)) for i in range(0x110000) if not 0xD800 <= i < 0xE000)
    marked = [whole for whole in apart if unicodedata.combining(whole[0])]
    assert all(all(map(unicodedata.combining, whole)) for whole in marked)
    assert all(is_overmarked(whole * 33) for whole in marked)


@given(st.text(st.sampled_from(INVISIBLE + " \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u3000") | st.characters(), max_size=5))
def test_blank_is_what_holds_nothing_but_space_and_the_invisible(text: str) -> None:
    assert is_blank(text) == all(c.isspace() or c in INVISIBLE for c in text)


@given(st.lists(st.tuples(st.sampled_from(MARKS + INVISIBLE + "가a"), st.integers(1, 40)), max_size=6))
def test_overmarked_is_a_run_of_too_many_combining_marks(runs: list[tuple[str, int]]) -> None:
    text = "".join(c * n for c, n in runs)
    visible = "".join(c for c in text if c not in INVISIBLE)
    marks = [len(list(run)) for mark, run in groupby(visible, is_mark) if mark]
    assert is_overmarked(text) == (max(marks, default=0) > MAX_MARKS)


@given(st.lists(st.tuples(st.sampled_from(MARKS + INVISIBLE + "가a"), st.integers(1, 40)), max_size=6), forms)
def test_of_a_text_that_is_not_overmarked_no_form_has_a_long_run_to_sort(
    runs: list[tuple[str, int]], form: Form
) -> None:
    text = "".join(c * n for c, n in runs)
    assume(not is_overmarked(text))
    marks = [len(list(run)) for mark, run in groupby(normalize(text, form).text, is_mark) if mark]
    assert max(marks, default=0) <= 2 * MAX_MARKS, "the longest decomposition is two marks"


@given(texts, forms)
def test_what_was_brought_to_a_form_stays_as_it_is(text: str, form: Form) -> None:
    once = normalize(text, form)
    again = normalize(once.text, form)
    assert again.text == once.text
    assert [*again.starts] == [*range(len(once.text))]


@given(texts, forms, st.dictionaries(st.sampled_from(TRICKY), st.sampled_from("台x가"), max_size=4))
def test_lower_case_and_replacement_move_nothing(text: str, form: Form, table: dict[str, str]) -> None:
    plain = normalize(text, form)
    changed = normalize(text, form, lowercase=True, replace={ord(old): new for old, new in table.items()})
    assert ([*changed.starts], [*changed.ends]) == ([*plain.starts], [*plain.ends])
    assert len(changed.text) == len(plain.text)
    assert not set(changed.text) & (table.keys() - set(table.values()))


@given(texts, forms, st.integers(0, 30))
def test_a_position_is_the_first_character_at_or_behind_it(text: str, form: Form, offset: int) -> None:
    got = normalize(text, form)
    behind = (i for i, start in enumerate(got.starts) if start >= offset)
    assert got.position(offset) == next(behind, len(got.text))


@given(texts, forms, st.data())
def test_a_span_within_a_span_stays_within(text: str, form: Form, data: st.DataObject) -> None:
    got = normalize(text, form)
    assume(got.text)
    cuts = st.lists(st.integers(0, len(got.text)), min_size=4, max_size=4).map(sorted)
    a, b, c, d = data.draw(cuts.filter(lambda four: four[1] < four[2]))
    (outer_start, outer_end), (start, end) = got.span(a, d), got.span(b, c)
    assert outer_start <= start < end <= outer_end
    assert all(is_boundary(text, offset) for offset in (outer_start, start, end, outer_end))
