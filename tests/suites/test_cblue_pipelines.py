"""Suites of several steps: what one step names is what the others and the whole know it by."""

from __future__ import annotations

import unicodedata

import pytest

import suites

SOME = {
    0: "无关系",
    4: "同义词|其他",
    13: "辅助检查|检查",
    20: "发病年龄|流行病学",
    27: "同义词|疾病",
    34: "临床表现|症状",
    37: "同义词|症状",
    46: "药物治疗|药物",
    51: "同义词|部位",
}
"""Ids of the official schema file, plus one for no relation."""


def test_relations_are_in_the_order_of_the_schema_file() -> None:
    whole, joint = (suites.load(name) for name in ("cblue/cmeie", "cblue/cmeie-joint"))
    classes = suites.load("cblue/cmeie-relations").labels
    assert {i: classes[i] for i in SOME} == SOME
    assert whole.labels == joint.labels == classes[1:]
    assert whole.decoder["relations"] == joint.decoder["relations"]
    assert [f"{predicate}|{kind}" for _, predicate, kind in whole.decoder["relations"]] == whole.labels
    kinds = {kind for row in whole.decoder["relations"] for kind in (row[0], row[2])}
    assert (len(kinds), len({row[1] for row in whole.decoder["relations"]})) == (11, 44)


def test_synonyms_are_of_one_type() -> None:
    rows = suites.load("cblue/cmeie").decoder["relations"]
    synonyms = [(subject, kind) for subject, predicate, kind in rows if predicate == "同义词"]
    assert len(synonyms) == 10
    assert all(subject == kind for subject, kind in synonyms)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("２型糖尿病", "2型糖尿病"),
        ("Ａ、Ｂ，Ｃ：Ｄ？Ｅ．Ｆ／Ｇ＼Ｈ～Ｉ", "A;B;C;D;E;F;G;H-I"),
        ("A,B:C?D.E/F\\G~H;I", "A;B;C;D;E;F;G-H;I"),
        ("（左）\u3000＂", '(左) "'),
        ("。！“”-", "。!“”-"),
    ],
)
def test_diagnoses_are_read_in_half_width_with_one_separator(text: str, read: str) -> None:
    replace = suites.load("cblue/chip-cdn").normalization.replace
    assert "".join(replace.get(c, c) for c in text) == read


def test_every_full_width_sign_is_replaced() -> None:
    replace = suites.load("cblue/chip-cdn").normalization.replace
    full = [chr(c) for c in range(0xFF01, 0xFF5F)]
    for c in full:
        half = unicodedata.normalize("NFKC", c)
        assert replace[c] == replace.get(half, half)


def test_steps_are_suites_of_their_own() -> None:
    for name in ("cblue/cmeie", "cblue/chip-cdn"):
        for stage in suites.load(name).stages.values():
            assert stage == suites.load(stage.name)
