"""Entities in the caller's own text: offsets in three units, odd characters, windows. The graph tags by a table."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import Loaded, copy, load, tagging
from pydantic import ValidationError

from service.errors import BundleError, InvalidItem
from service.graphemes import is_boundary

Copy = Callable[..., Path]
LABELS = ["B-PS", "I-PS", "B-LC", "I-LC", "O"]
TAGS = {
    "서울": "B-LC", "##시": "I-LC", "김": "B-PS", "##철수": "I-PS", "영희": "B-PS", "마": "B-LC", "##요": "I-LC",
    "그는": "O", "에": "O", "##에": "O", "산다": "O", ".": "O", ")": "O", "。": "O", "?": "O", ",": "O", "ㅋ": "O",
}  # fmt: skip
SENTENCE = "그는 서울시에 산다. "
tails = st.sampled_from(["서울시", "김철수는 서울", "영희, 서울시?", "그는 마요.", "김철수 서울시. 영희"])
odd = st.sampled_from("서울시김철수 가각\u1112\u1161\u11abé😀👩\u200d👧\ufe0f\u200bㅋ\r\n　")
prefixes = st.lists(st.one_of(odd, st.characters(exclude_categories=["Cs"])), max_size=30).map("".join)


@pytest.fixture(scope="module")
def ner(bundle_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = copy(bundle_of("klue/ner"), tmp_path_factory.mktemp("ner") / "bundle")
    tagging(folder, TAGS, LABELS)
    return load(folder)


@pytest.fixture(scope="module")
def wild(bundle_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """A random model that finds something nearly everywhere, as its context has it."""
    folder = tmp_path_factory.mktemp("wild") / "bundle"
    return load(copy(bundle_of("klue/ner"), folder, decoder={"orphan_inside": "open"}))


def found(answer: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(e["type"], e["start"], e["end"]) for e in answer["entities"]]


def verbatim(answer: dict[str, Any], text: str) -> None:
    assert all(e["text"] == text[e["start"] : e["end"]] != "" for e in answer["entities"])
    assert all(is_boundary(text, e[side]) for e in answer["entities"] for side in ("start", "end"))
    assert all(a["end"] <= b["start"] for a, b in pairwise(answer["entities"]))


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("그는 서울시에 산다.", [("LC", 3, 6)]),
        ("김철수,영희", [("PS", 0, 3), ("PS", 4, 6)]),
        ("서울시.", [("LC", 0, 3)]),
        ("서울시)", [("LC", 0, 3)]),
        ("서울시。", [("LC", 0, 3)]),
        ("서울 , 서울시 ?", [("LC", 0, 2), ("LC", 5, 8)]),
        ("  서울시\n", [("LC", 2, 5)]),
        ("서\u200b울시 산다", [("LC", 0, 4)]),
        ("영희 서\u200b울시", [("PS", 0, 2), ("LC", 3, 7)]),
        ("\ufeff서울시", [("LC", 1, 4)]),
        ("산다 \x00서울시\x07", [("LC", 4, 7)]),
        ("서울\u3000서울", [("LC", 0, 2), ("LC", 3, 5)]),
        ("😀 서울시", [("LC", 2, 5)]),
        ("뷁뷁𠮷 김철수", [("PS", 4, 7)]),
        ("마\u110b\u116d 그는", [("LC", 0, 3)]),
        ("김철수 ㅋㅋㅋ", [("PS", 0, 3)]),
        ("김철수 \u110f\u110f", [("PS", 0, 3)]),
        ("ᄒᄋ 서울", [("LC", 3, 5)]),
        ("산다.", []),
    ],
)
def test_entities_lie_where_they_stand_in_the_callers_text(ner: Loaded, text: str, entities: list[tuple]) -> None:
    answer = ner.ask(text=text)
    assert found(answer) == entities
    verbatim(answer, text)


@given(tails)
def test_composed_and_decomposed_text_have_the_same_entities(ner: Loaded, text: str) -> None:
    apart = unicodedata.normalize("NFD", text)
    one, two = ner.ask(text=text), ner.ask(text=apart)
    assert [e["type"] for e in two["entities"]] == [e["type"] for e in one["entities"]]
    assert [unicodedata.normalize("NFC", e["text"]) for e in two["entities"]] == [e["text"] for e in one["entities"]]
    assert [e["score"] for e in two["entities"]] == [e["score"] for e in one["entities"]]
    verbatim(two, apart)


@given(prefixes, tails)
def test_a_prefix_shifts_entities_by_its_code_points(ner: Loaded, prefix: str, tail: str) -> None:
    """After an emoji or an accent every later offset drifted (huggingface/transformers#3058)."""
    prefix += ". "
    answer = ner.ask(text=prefix + tail)
    verbatim(answer, prefix + tail)
    moved = [(kind, start - len(prefix), end - len(prefix)) for kind, start, end in found(answer)]
    assert [e for e in moved if e[1] >= 0] == found(ner.ask(text=tail))


@pytest.mark.parametrize(("unit", "codec", "size"), [("codepoint", "utf-32-le", 4), ("utf16", "utf-16-le", 2),
                                                     ("byte", "utf-8", 1)])  # fmt: skip
def test_offsets_count_what_the_caller_counts(ner: Loaded, unit: str, codec: str, size: int) -> None:
    text = "👩\u200d👩\u200d👧é 서울시에 😀 김철수"
    encoded = text.encode(codec)
    answer = ner.ask(text=text, offset_unit=unit)
    assert [e["text"] for e in answer["entities"]] == ["서울시", "김철수"]
    for e in answer["entities"]:
        assert encoded[e["start"] * size : e["end"] * size].decode(codec) == e["text"]


def test_scores_are_numbers_and_offsets_are_integers(wild: Loaded) -> None:
    answer = json.loads(json.dumps(wild.ask(text="삼성전자는 3일 서울에서 회의를 열었다. " * 3)))
    assert answer["entities"]
    for e in answer["entities"]:
        assert [type(e[k]) for k in ("type", "text", "start", "end", "score")] == [str, str, int, int, float]
        assert 0 <= e["score"] <= 1


@pytest.mark.parametrize("stride", [0, 1, 16, 61])
def test_a_long_text_has_each_of_its_entities_once(copy_of: Copy, stride: int) -> None:
    """Windows neither lose nor repeat what lies at their joins (huggingface/transformers#15177)."""
    folder = copy_of("klue/ner", decoder={"stride": stride})
    tagging(folder, TAGS, LABELS)
    times = 20 if stride == 61 else 70
    text = SENTENCE * times + "김철수"
    answer = load(folder).ask(text=text)
    n = len(SENTENCE)
    assert found(answer) == [("LC", i * n + 3, i * n + 6) for i in range(times)] + [("PS", times * n, times * n + 3)]
    assert answer["truncated"] is False
    verbatim(answer, text)


@pytest.mark.parametrize("seed", range(3))
def test_windows_are_decoded_as_if_they_were_one_text(loaded: Callable[[str], Loaded], seed: int) -> None:
    """Each token's logits come from the window in which it has the most context, and are decoded in one piece."""
    task = loaded("klue/ner").task
    item = task.Input(text="오늘은 서울에서 회의가 열렸다. 그는 부산에 갔고 2024 in the city? " * 8)
    encoded = task.encode(item)
    rng = np.random.default_rng(seed)
    outputs = [{"logits": rng.normal(size=(len(row["input_ids"]), 13))} for row in encoded.rows]  # they disagree
    tokens, step, last = encoded.context.tokens, 62 - 16, len(outputs) - 1
    assert last > 2
    stitched = []
    for t in range(len(tokens)):
        context = {
            w: min(t - w * step if w else math.inf, w * step + 61 - t if w < last else math.inf)
            for w, out in enumerate(outputs)
            if w * step <= t < w * step + len(out["logits"]) - 2
        }
        best = max(context, key=lambda w: (context[w], w))
        stitched.append(outputs[best]["logits"][1 + t - best * step])
    runs = task.runs(np.array(stitched), tokens)
    assert len(runs) > 20
    expected = [(r.type, tokens.spans[r.first][0], tokens.spans[r.last - 1][1]) for r in runs]
    assert found(task.decode(item, encoded, outputs)) == expected


def test_a_long_text_may_be_cut_and_says_so(ner: Loaded) -> None:
    text = SENTENCE * 30
    cut = ner.ask(text=text, on_overflow="truncate")
    assert cut["truncated"] is True
    assert cut["tokens"] == 64
    assert 0 < len(cut["entities"]) < 30
    *whole, last = found(cut)  # the last one may be cut too
    every = found(ner.ask(text=text))
    assert whole == every[: len(whole)]
    assert last[:2] == every[len(whole)][:2]
    assert ner.ask(text=SENTENCE, on_overflow="truncate")["truncated"] is False


def test_a_long_text_may_be_refused(ner: Loaded) -> None:
    assert ner.ask(text="." * 62, on_overflow="error")["tokens"] == 64
    with pytest.raises(InvalidItem, match="the text has 63 tokens, the model reads 62") as refused:
        ner.ask(text="." * 63, on_overflow="error")
    assert (refused.value.field, refused.value.reason) == ("text", "text_too_long")


def test_entities_below_the_threshold_are_left_out(wild: Loaded) -> None:
    model, text = wild, "서울에서 열린 회의에는 사람들이 많이 왔다. 그는 어제 부산에 갔다"
    every = model.ask(text=text)["entities"]
    scores = sorted({e["score"] for e in every})
    assert len(scores) > 1
    limit = (scores[0] + scores[-1]) / 2
    kept = model.ask(text=text, threshold=limit)["entities"]
    assert kept == [e for e in every if e["score"] >= limit]
    assert 0 < len(kept) < len(every)
    assert model.ask(text=text, threshold=0.0)["entities"] == every
    for wrong in (1.5, -0.1, math.nan, "0.5"):
        with pytest.raises(ValidationError):
            model.item(text=text, threshold=wrong)


def test_windows_that_could_not_advance_are_refused(copy_of: Copy) -> None:
    with pytest.raises(BundleError, match="stride 62 leaves no way forward in windows of 62"):
        load(copy_of("klue/ner", decoder={"stride": 62}))
    with pytest.raises(BundleError, match="the graph has 13 tags, the bundle names 2"):
        load(copy_of("klue/ner", labels=["B-PS", "O"]))
