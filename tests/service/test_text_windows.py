"""Offsets in the unit that a caller counts in, and windows over more tokens than a model reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text import Offsets, Unit, owners, windows

mixed = st.one_of(
    st.sampled_from("a서é한\u0301😀👩\u200d\uffff𠮷\U0010ffff\x7f\x80\u07ff\u0800"), st.characters(codec="utf-8")
)
texts = st.lists(mixed, max_size=24).map("".join)


@pytest.mark.parametrize(("unit", "codec", "size"), [("utf16", "utf-16-le", 2), ("byte", "utf-8", 1)])
@given(text=texts)
def test_units_count_as_their_encoding_does_and_come_back(unit: Unit, codec: str, size: int, text: str) -> None:
    offsets = Offsets(text, unit)
    outward = [offsets.outward(i) for i in range(len(text) + 1)]
    assert outward == [len(text[:i].encode(codec)) // size for i in range(len(text) + 1)]
    back = {value: i for i, value in enumerate(outward)}
    assert [offsets.inward(v) for v in range(outward[-1] + 3)] == [back.get(v) for v in range(outward[-1] + 3)]


@given(texts, st.integers(0, 30))
def test_code_points_stay_as_they_are(text: str, offset: int) -> None:
    assert Offsets(text, "codepoint").outward(offset) == Offsets(text, "codepoint").inward(offset) == offset


@given(st.integers(0, 400), st.integers(1, 60), st.data())
def test_windows_cover_everything_in_equal_steps(length: int, room: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, room))
    spans = windows(length, room, step)
    assert {i for start, end in spans for i in range(start, end)} == set(range(length))
    assert [start for start, _ in spans] == [i * step for i in range(len(spans))]
    assert all(end - start == room for start, end in spans[:-1])
    assert all(end < length for _, end in spans[:-1])
    shares = owners(spans)
    assert [i for start, end in shares for i in range(start, end)] == list(range(length))
    assert all(a <= start and end <= b for (a, b), (start, end) in zip(spans, shares, strict=True))


@pytest.mark.parametrize(("room", "step"), [(0, 1), (4, 0), (4, 5), (4, -1)])
def test_windows_that_cannot_advance_are_refused(room: int, step: int) -> None:
    with pytest.raises(ValueError, match="cannot advance"):
        windows(10, room, step)


def test_a_shared_token_is_read_where_it_has_the_most_context() -> None:
    assert owners([(0, 10), (6, 16), (12, 18)]) == [(0, 8), (8, 14), (14, 18)]


BREAKS = st.lists(st.lists(st.integers(1, 400), unique=True).map(sorted), max_size=2)


@given(st.integers(0, 400), st.integers(1, 60), BREAKS, st.data())
def test_windows_that_part_at_breaks_cover_everything_too(
    length: int, room: int, breaks: list[list[int]], data: st.DataObject
) -> None:
    spans = windows(length, room, data.draw(st.integers(1, room)), breaks)
    assert all(0 < end - start <= room for start, end in spans) or length == 0
    shares = owners(spans)
    assert [i for start, end in shares for i in range(start, end)] == list(range(length))
    assert all(a <= start and end <= b for (a, b), (start, end) in zip(spans, shares, strict=True))


def test_a_window_ends_at_the_last_break_of_the_best_kind() -> None:
    assert windows(20, 9, 6, [[5, 8, 16], [7]]) == [(0, 8), (8, 16), (16, 20)]
    assert windows(20, 9, 6, [[2], [7, 12]]) == [(0, 7), (7, 12), (12, 20)]  # behind 2 too little would be read
    assert windows(20, 9, 6, [[], []]) == windows(20, 9, 6)
    assert windows(9, 9, 6, [[4]]) == [(0, 9)]  # what fits is read whole
