"""Tags to entities: the policies for orphans, repeated openings and each scheme, against regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import load

from service.tasks.encoder import Tokens
from service.tasks.schemes import Run, Scheme, Tag, group, parse

Policy = Literal["open", "drop"]


def scheme(**changes: Any) -> Scheme:
    return Scheme(**{"scheme": "IOB2", "orphan_inside": "drop", "piece_begin": "open"} | changes)


def decoded(labels: Sequence[str], spans: Sequence[tuple[int, int]] | None = None, **changes: Any) -> list[tuple]:
    """`(type, first, last)` of the entities that a row of labels means."""
    policy = scheme(**changes)
    steps = [(parse(label, policy), i, 1.0) for i, label in enumerate(labels)]
    runs = group(steps, spans or [(2 * i, 2 * i + 1) for i in range(len(labels))], policy)
    return [(run.type, run.first, run.last) for run in runs]


PIECES = [(0, 2), (2, 4), (4, 6), (6, 7)]  # of "12,480원"


def test_a_word_whose_every_piece_begins_is_one_entity_where_the_bundle_says_so() -> None:
    """The amount came out in four parts (huggingface/transformers#23322)."""
    labels = ["B-AMT"] * 4
    assert decoded(labels, PIECES, piece_begin="continue") == [("AMT", 0, 4)]
    assert decoded(labels, PIECES, piece_begin="open") == [("AMT", i, i + 1) for i in range(4)]


def test_a_beginning_in_the_next_word_opens_under_both_policies() -> None:
    spans = [(0, 2), (2, 4), (5, 7), (7, 9)]
    assert decoded(["B-AMT", "B-AMT", "B-AMT", "I-AMT"], spans, piece_begin="continue") == [
        ("AMT", 0, 2),
        ("AMT", 2, 4),
    ]
    assert decoded(["B-PS", "B-LC"], [(0, 2), (2, 4)], piece_begin="continue") == [("PS", 0, 1), ("LC", 1, 2)]
    assert decoded(["B-PS", "O", "B-PS"], [(0, 1), (1, 2), (2, 3)], piece_begin="continue") == [
        ("PS", 0, 1),
        ("PS", 2, 3),
    ]


@pytest.mark.parametrize(("policy", "entities"), [("open", [("PS", 0, 2), ("LC", 2, 3)]), ("drop", [("LC", 2, 3)])])
def test_an_inside_that_continues_nothing_opens_or_is_dropped(policy: Policy, entities: list[tuple]) -> None:
    assert decoded(["I-PS", "I-PS", "B-LC"], orphan_inside=policy) == entities


@pytest.mark.parametrize(
    ("policy", "entities"), [("open", [("PS", 0, 1), ("LC", 1, 2), ("PS", 2, 3)]), ("drop", [("PS", 0, 1)])]
)
def test_a_switch_of_type_closes_the_entity(policy: Policy, entities: list[tuple]) -> None:
    assert decoded(["B-PS", "I-LC", "I-PS"], orphan_inside=policy) == entities


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("b i o", [("a", 0, 2)]),
        ("s", [("a", 0, 1)]),
        ("b i I i o", [("a", 0, 4)]),  # the other type's inside neither ends the entity nor belongs to it
        ("b I i", [("a", 0, 3)]),
        ("b i I o", [("a", 0, 2)]),
        ("b o", []),  # one character is an S-, never a lone B-
        ("b I o", []),
        ("b b i", [("a", 1, 3)]),
        ("b i s I", [("a", 0, 2), ("a", 2, 3)]),
        ("b i B", [("a", 0, 2)]),
        ("i i", []),
        ("o I b i I", [("a", 2, 4)]),
    ],
)
def test_the_policy_of_cluener(tags: str, entities: list[tuple]) -> None:
    """What the benchmark's own decoder of BIOS tags makes of them; capitals are a second type."""
    labels = ["O" if c == "o" else f"{c.upper()}-{'a' if c.islower() else 'b'}" for c in tags.split()]
    assert decoded(labels, scheme="BIOS", orphan_inside="ignore", lone_begin="drop") == entities


@given(st.text("bisBIS.", max_size=24))
def test_the_policy_of_cluener_means_what_its_pattern_means(written: str) -> None:
    labels = ["O" if c == "." else f"{c.upper()}-{'one' if c.islower() else 'two'}" for c in written]
    pattern = "b(I*i)+|s"
    expected = [
        ("one" if m[0][0].islower() else "two", m.start(), m.end())
        for m in re.finditer(f"{pattern}|{pattern.swapcase()}", written)
    ]
    assert decoded(labels, scheme="BIOS", orphan_inside="ignore", lone_begin="drop") == expected


def test_a_lone_beginning_is_kept_unless_the_bundle_drops_it() -> None:
    assert decoded(["B-a", "O", "S-a", "I-a"], scheme="BIOS", orphan_inside="ignore") == [("a", 0, 1), ("a", 2, 3)]
    lone = decoded(["B-a", "B-a", "E-a", "E-b"], scheme="BMES", orphan_inside="open", lone_begin="drop")
    assert lone == [("a", 1, 3), ("b", 3, 4)]


def test_labels_that_the_bundle_ignores_are_outside() -> None:
    labels = ["B-PS", "X", "I-PS", "[START]", "B-ADR", "I-ADR"]
    ignored = ["X", "[START]", "B-ADR"]
    assert decoded(labels, ignore_labels=ignored) == [("PS", 0, 1)]
    assert decoded(labels, ignore_labels=ignored, orphan_inside="open") == [("PS", 0, 1), ("PS", 2, 3), ("ADR", 5, 6)]


def test_the_score_is_the_mean_of_the_tags() -> None:
    policy = scheme()
    steps = [(Tag("B", "PS"), 3, 0.9), (Tag("I", "PS"), 4, 0.5), (Tag("I", "PS"), 6, 0.4)]
    assert group(steps, [(i, i + 1) for i in range(9)], policy) == [Run("PS", 3, 7, pytest.approx(0.6))]


# One letter a tag, capitals for a second type; `.` is outside. What is dropped is what no pattern matches.
PATTERNS: dict[tuple[str, Policy], str] = {
    ("IOB2", "drop"): "bi*",
    ("IOB2", "open"): "bi*|i+",
    ("BIOS", "drop"): "bi*|s",
    ("BIOS", "open"): "bi*|i+|s",
    ("BMES", "drop"): "bm*e?|s",
    ("BMES", "open"): "bm*e?|m+e?|e|s",
}


@pytest.mark.parametrize(("scheme", "policy"), PATTERNS)
@given(data=st.data())
def test_a_scheme_means_what_its_pattern_means(scheme: str, policy: Policy, data: st.DataObject) -> None:
    letters = {"IOB2": "bi", "BIOS": "bis", "BMES": "bmes"}[scheme]
    written = data.draw(st.text(letters + letters.upper() + ".", max_size=24))
    pattern = PATTERNS[scheme, policy]
    labels = ["O" if c == "." else f"{c.upper()}-{'one' if c.islower() else 'two'}" for c in written]
    expected = [
        ("one" if m[0][0].islower() else "two", m.start(), m.end())
        for m in re.finditer(f"{pattern}|{pattern.upper()}", written)
    ]
    assert decoded(labels, scheme=scheme, orphan_inside=policy) == expected


@given(st.lists(st.sampled_from(["B-a", "I-a", "S-a", "E-a", "M-a", "B-b", "I-b", "S-b", "E-b", "O"]), max_size=30))
def test_entities_are_in_order_and_never_overlap(labels: list[str]) -> None:
    for policy in ("open", "drop"):
        for piece in ("open", "continue"):
            spans = [(i, i + 1) for i in range(len(labels))]
            found = decoded(labels, spans, orphan_inside=policy, piece_begin=piece)
            assert all(first < last for _, first, last in found)
            assert all(a[2] <= b[1] for a, b in pairwise(found))


@pytest.mark.parametrize(
    ("label", "tag"),
    [
        ("B-PS", ("B", "PS")),
        ("I-name", ("I", "name")),
        ("M-name", ("I", "name")),
        ("E-name", ("E", "name")),
        ("S-name", ("S", "name")),
        ("B-body-part", ("B", "body-part")),
        ("O", ("O", None)),
        ("X", ("O", None)),
        ("[END]", ("O", None)),
    ],
)
def test_a_label_is_a_prefix_and_a_type(label: str, tag: tuple[str, str | None]) -> None:
    assert parse(label, scheme()) == Tag(*tag)


@pytest.mark.parametrize("label", ["L-PS", "U-PS", "non-entity", "O-PS"])
def test_a_prefix_that_no_scheme_knows_is_outside(label: str) -> None:
    assert decoded([label, label], orphan_inside="open") == []


def test_a_lone_word_mark_neither_opens_nor_interrupts(bundle_of: Callable[..., Path]) -> None:
    """SentencePiece gives the space a piece of its own, tagged as it likes (huggingface/transformers#11887)."""
    model = load(bundle_of("klue/ner", "xlm-roberta"))
    mark = model.task.encoder.word_mark_id
    assert mark == model.id("▁")
    labels = model.task.manifest.labels
    tags = ["B-PS", "O", "I-PS", "B-LC", "O"]
    logits = np.full((5, len(labels)), -9.0)
    logits[range(5), [labels.index(tag) for tag in tags]] = 9
    spans = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    known = model.id("서")
    runs = model.task.runs(logits, Tokens([known, mark, known, mark, known], spans))
    assert [(r.type, r.first, r.last) for r in runs] == [("PS", 0, 3)]
    plain = model.task.runs(logits, Tokens([known] * 5, spans))
    assert [(r.type, r.first, r.last) for r in plain] == [("PS", 0, 1), ("LC", 3, 4)]
