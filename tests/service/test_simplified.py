"""DRCD's models read Simplified Chinese; callers write Traditional and get their own characters back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kit import load

from exporters.checkpoint import simplified
from service.bundle import Bundle
from service.text import normalize


@pytest.fixture(scope="module")
def table() -> dict[str, str]:
    return simplified()


def test_every_character_becomes_one_character(table: dict[str, str]) -> None:
    assert all(len(traditional) == len(simple) == 1 for traditional, simple in table.items())


def test_the_characters_of_a_sentence(table: dict[str, str]) -> None:
    text = "臺灣最高的山是玉山，海拔3952公尺，位於南投縣。"
    assert "".join(table.get(c, c) for c in text) == "台湾最高的山是玉山，海拔3952公尺，位于南投县。"


def test_phrases_do_not_change_the_length(table: dict[str, str]) -> None:
    # A phrase dictionary would write another number of characters for some of these.
    text = "乾隆皇帝後來乾了一杯，頭髮發白，軟體與滑鼠"
    replaced = normalize(text, replace={ord(k): v for k, v in table.items()})
    assert len(replaced.text) == len(text)
    assert replaced.span(0, 2) == (0, 2)


def test_the_bundle_carries_the_table(bundle_of: Callable[[str], Path], table: dict[str, str]) -> None:
    assert Bundle(bundle_of("clue/drcd")).manifest.normalization.replace == table


def test_the_answer_is_the_callers_own_text(bundle_of: Callable[[str], Path]) -> None:
    loaded = load(bundle_of("clue/drcd"))
    context = "臺灣最高的山是玉山，海拔3952公尺，位於南投縣。"
    simple = "台湾最高的山是玉山，海拔3952公尺，位于南投县。"
    got = loaded.ask(question="臺灣最高的山？", context=context)
    assert got["answer"]["text"] == context[got["answer"]["start"] : got["answer"]["end"]]
    same = loaded.ask(question="台湾最高的山？", context=simple)
    assert (got["answer"]["start"], got["answer"]["end"]) == (same["answer"]["start"], same["answer"]["end"])
