"""`tags`: the tag of every character, projected from tokens as KLUE's scorer does. The graph tags by a table."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import Loaded, copy, load, tagging
from pydantic import ValidationError

LABELS = ["B-PS", "I-PS", "B-LC", "I-LC", "O"]
TAGS = {
    "서울": "B-LC",
    "##시": "I-LC",
    "김": "B-PS",
    "##철수": "I-PS",
    "##교": "I-PS",
    "에": "O",
    "산다": "O",
    ".": "O",
}
PS, LC = ["B-PS", "I-PS", "I-PS"], ["B-LC", "I-LC", "I-LC"]


@pytest.fixture(scope="module")
def ner(bundle_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = copy(bundle_of("klue/ner"), tmp_path_factory.mktemp("tags") / "bundle")
    tagging(folder, TAGS, LABELS)
    return load(folder)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("서울시", LC),
        ("김철수 서울시", [*PS, "O", *LC]),
        ("서울 산다.", ["B-LC", "I-LC", "O", "O", "O", "O"]),
        # The tag of a token as it is, even where an entity of another type ends before it.
        ("서울교", ["B-LC", "I-LC", "I-PS"]),
        (" \u3000서울시\n", ["O", "O", *LC, "O"]),
        ("\ufeff서울시\x07", ["O", *LC, "O"]),
        ("😀 서울시", ["O", "O", *LC]),
    ],
)
def test_a_tokens_first_character_has_its_tag_and_the_others_are_inside(
    ner: Loaded, text: str, tags: list[str]
) -> None:
    assert ner.ask(text=text, tags=True)["tags"] == tags


def test_every_code_point_of_a_decomposed_character_has_a_tag(ner: Loaded) -> None:
    text = unicodedata.normalize("NFD", "김철수 서울")
    tags = ner.ask(text=text, tags=True)["tags"]
    assert len(tags) == len(text) == 14
    assert tags == ["B-PS", *["I-PS"] * 7, "O", "B-LC", *["I-LC"] * 4]


def test_tags_count_code_points_whatever_offsets_count(ner: Loaded) -> None:
    answer = ner.ask(text="😀 서울", tags=True, offset_unit="byte")
    assert answer["tags"] == ["O", "O", "B-LC", "I-LC"]
    assert answer["entities"][0]["start"] == 5


def test_tags_are_null_unless_asked_for(ner: Loaded) -> None:
    plain, asked = ner.ask(text="서울시"), ner.ask(text="서울시", tags=True)
    assert plain["tags"] == []
    assert plain | {"tags": LC} == asked
    with pytest.raises(ValidationError):
        ner.item(text="서울시", tags="yes")


def test_a_threshold_leaves_tags_alone(ner: Loaded) -> None:
    answer = ner.ask(text="서울시", tags=True, threshold=1.0)
    assert (answer["entities"], answer["tags"]) == ([], LC)


def test_text_that_was_not_read_is_outside(ner: Loaded) -> None:
    text = "서울 " * 80
    whole, cut = ner.ask(text=text, tags=True), ner.ask(text=text, tags=True, on_overflow="truncate")
    assert whole["tags"] == ["B-LC", "I-LC", "O"] * 80
    assert cut["tags"] == ["B-LC", "I-LC", "O"] * 62 + ["O"] * 54


def test_tags_of_a_model_that_looks_up_characters(bundle_of: Callable[[str], Path], tmp_path: Path) -> None:
    labels = ["X", "S-name", "B-name", "I-name", "O"]
    folder = copy(bundle_of("clue/cluener"), tmp_path / "bundle", decoder={"ignore_labels": ["X"]})
    tagging(folder, {"李": "B-name", "明": "I-name", "王": "S-name", "在": "O"}, labels)
    assert load(folder).ask(text="李明 在王", tags=True)["tags"] == ["B-name", "I-name", "O", "O", "S-name"]
