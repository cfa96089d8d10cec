"""Graphs that read the states of markers: the positions they are told are those of the opening markers, always."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kit import Loaded, load

from service.errors import BundleError

SUITE = "cblue/cmeie-relations"
ROLES = ("subject", "object")
OPENING = {"subject": "<s>", "object": "<o>"}


def spans(subject: tuple[int, int], obj: tuple[int, int]) -> dict[str, Any]:
    return {role: {"start": s[0], "end": s[1]} for role, s in zip(ROLES, (subject, obj), strict=True)}


def pointed(model: Loaded, **fields: Any) -> list[str]:
    """The pieces at the positions that the graph is told."""
    (row,) = model.task.encode(model.item(**fields)).rows
    assert row["marker_pos"].dtype.name == "int64"
    return [model.task.encoder.token(row["input_ids"][i]) for i in row["marker_pos"]]


@given(st.text("糖尿病患者多饮 a,😀", min_size=2, max_size=100), st.data())
def test_positions_are_those_of_the_opening_markers(
    loaded: Callable[[str], Loaded], text: str, data: st.DataObject
) -> None:
    """Subject before object or behind it, nested or overlapping, at either end, in a moved window."""
    model = loaded(SUITE)
    cuts = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(sorted).map(tuple)
    subject, obj = data.draw(cuts), data.draw(cuts)
    assume(text[slice(*subject)].strip() and text[slice(*obj)].strip())
    assume(max(*subject, *obj) - min(*subject, *obj) < 50)
    assert pointed(model, text=text, **spans(subject, obj)) == [OPENING[role] for role in ROLES]


@pytest.mark.parametrize("before", [0, 50, 56, 57, 80, 300])
@pytest.mark.parametrize("order", [1, -1])
def test_a_long_text_keeps_both_markers(loaded: Callable[[str], Loaded], before: int, order: int) -> None:
    model = loaded(SUITE)
    text = "." * before + "糖尿病,多饮" + "!" * 100
    found = [(before, before + 3), (before + 4, before + 6)][::order]
    assert pointed(model, text=text, **spans(*found)) == ["<s>", "<o>"]
    assert model.ask(text=text, **spans(*found))["truncated"] is True


def test_a_marker_that_is_typed_is_not_pointed_at(loaded: Callable[[str], Loaded]) -> None:
    model = loaded(SUITE)
    text = "<o><s>糖尿病患者多饮"
    (row,) = model.task.encode(model.item(text=text, **spans((6, 9), (11, 13)))).rows
    ids = row["input_ids"].tolist()
    assert row["marker_pos"].tolist() == [ids.index(model.id("<s>")), ids.index(model.id("<o>"))]
    assert [ids.count(model.id(marker)) for marker in ("<s>", "</s>", "<o>", "</o>")] == [1, 1, 1, 1]


def test_the_answer_depends_on_which_marker_is_whose(loaded: Callable[[str], Loaded]) -> None:
    model = loaded(SUITE)
    text = "糖尿病患者多饮"
    one, two = (model.ask(text=text, **spans(*s)) for s in (((0, 3), (5, 7)), ((5, 7), (0, 3))))
    assert one["scores"] != two["scores"]


def test_answers_do_not_depend_on_who_else_is_asked(loaded: Callable[[str], Loaded]) -> None:
    model = loaded(SUITE)
    items = [{"text": "字" * n + "糖尿病患者多饮", **spans((n, n + 3), (n + 5, n + 7))} for n in (0, 3, 20, 40)]
    for got, item in zip(model.ask_all(items), items, strict=True):
        want = model.ask(**item)
        assert got["label"] == want["label"]
        assert [s["score"] for s in got["scores"]] == pytest.approx([s["score"] for s in want["scores"]], abs=2e-6)


def test_graphs_without_the_input_are_not_given_it(loaded: Callable[[str], Loaded]) -> None:
    model = loaded("klue/re")
    (row,) = model.task.encode(model.item(text="김구는 대한민국", **spans((0, 2), (4, 8)))).rows
    assert "marker_pos" not in row


def test_markers_that_are_no_tokens_have_no_states(copy_of: Callable[..., Path]) -> None:
    with pytest.raises(BundleError, match="the graph reads the states of markers, which are no tokens here"):
        load(copy_of(SUITE, decoder={"marker_tokens": False}))
