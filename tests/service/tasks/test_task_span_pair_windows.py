"""Long texts with two spans, markers that name a type, and markers that are plain characters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kit import Loaded, load

from service.errors import InvalidItem

MARKERS = ["<subj>", "</subj>", "<obj>", "</obj>"]


def spans(subject: tuple[int, int], obj: tuple[int, int]) -> dict[str, Any]:
    return {role: {"start": s[0], "end": s[1]} for role, s in (("subject", subject), ("object", obj))}


@pytest.mark.parametrize("before", [0, 10, 50, 56, 57, 80, 300])
@pytest.mark.parametrize("between", [0, 7, 40])
@pytest.mark.parametrize("suite", ["klue/re", "clue/wsc2020"])
def test_an_entity_is_never_cut_off(loaded: Callable[[str], Loaded], suite: str, before: int, between: int) -> None:
    """A cut on the right would lose one; the window moves just far enough, and the answer says that it was one."""
    model = loaded(suite)
    head, middle, tail = "." * before, "," * between, "!" * 100
    text = f"{head}서울{middle}부산{tail}"
    one = (before, before + 2)
    two = (before + 2 + between, before + 4 + between)
    fields = {"text": text, **spans(one, two)}
    (ids,) = model.ids(**fields)
    assert len(ids) == 64
    if suite == "klue/re":
        assert [ids.count(model.id(marker)) for marker in MARKERS] == [1, 1, 1, 1]
        assert ids.count(model.id("[SEP]")) == 1
    else:
        assert [ids.count(model.id(c)) for c in "_[]"] == [2, 1, 1]
    assert ids.count(model.id(",")) == between
    shown = ids.count(model.id("!"))
    assert shown == 0 or ids.count(model.id(".")) == before, "the window moved although it need not"
    answer = model.ask(**fields)
    assert answer["truncated"] is True
    assert answer["tokens"] == 64
    with pytest.raises(InvalidItem, match="tokens, the model reads 62") as refused:
        model.ask(**fields, on_overflow="error")
    assert (refused.value.field, refused.value.reason) == ("text", "text_too_long")


@pytest.mark.parametrize("suite", ["klue/re", "clue/wsc2020"])
@pytest.mark.parametrize("overflow", ["truncate", "error"])
def test_entities_too_far_apart_to_be_read_at_once_are_refused(
    loaded: Callable[[str], Loaded], suite: str, overflow: str
) -> None:
    with pytest.raises(InvalidItem, match=r"the two spans lie .* tokens apart, the model reads 62") as refused:
        loaded(suite).ask(text="서울" + "," * 70 + "부산", on_overflow=overflow, **spans((0, 2), (72, 74)))
    assert (refused.value.field, refused.value.reason) == ("text", "text_too_long")


@pytest.fixture
def typed(copy_of: Callable[..., Path]) -> Loaded:
    markers = {"subject": ["<{type}>", "</{type}>"], "object": ["<{type}>", "</{type}>"]}
    return load(copy_of("klue/re", decoder={"markers": markers}))


def test_markers_may_name_the_entitys_type(typed: Loaded, loaded: Callable[[str], Loaded]) -> None:
    plain = {"text": "김구는 대한민국의", **spans((0, 2), (4, 8))}
    fields = plain | {"subject": plain["subject"] | {"type": "subj"}, "object": plain["object"] | {"type": "obj"}}
    assert typed.ids(**fields) == loaded("klue/re").ids(**plain)


@pytest.mark.parametrize(("kind", "why"), [(None, "needs the entity's type"), ("PER", "has no marker <PER>")])
def test_a_type_that_is_missing_or_unknown_is_refused(typed: Loaded, kind: str | None, why: str) -> None:
    with pytest.raises(InvalidItem, match=why) as refused:
        typed.ask(
            text="김구는 대한",
            subject={"start": 0, "end": 2, "type": "subj"},
            object={"start": 4, "end": 6, "type": kind},
        )
    assert refused.value.field == "object.type"


@given(st.text("小明把伞借给了她因为 😀，", min_size=2, max_size=24), st.data())
def test_markers_that_are_characters_are_read_as_part_of_the_text(
    loaded: Callable[[str], Loaded], text: str, data: st.DataObject
) -> None:
    """`_noun_` and `[pronoun]`, off by none, in either order."""
    model = loaded("clue/wsc2020")
    a, b, c, d = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=4, max_size=4)))
    assume(text[a:b].strip() and text[c:d].strip())
    if data.draw(st.booleans()):
        subject, obj, marked = (a, b), (c, d), f"{text[:a]}_{text[a:b]}_{text[b:c]}[{text[c:d]}]{text[d:]}"
    else:
        subject, obj, marked = (c, d), (a, b), f"{text[:a]}[{text[a:b]}]{text[b:c]}_{text[c:d]}_{text[d:]}"
    (ids,) = model.ids(text=text, **spans(subject, obj))
    assert ids[1:-1] == model.task.encoder.tokenize(marked, "text").ids
