"""Answers as slices of the context: the rules that choose among spans, driven by logits made up here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import Loaded, load

from service.errors import BundleError
from service.types import Answer

LOW = -20.0
QUESTION = "어디에서?"


class Read:
    """One item, encoded; `answer` decodes it from scores by token of the whole context."""

    def __init__(self, model: Loaded, context: str, **options: Any) -> None:
        self.task = model.task
        self.item = model.item(question=QUESTION, context=context, **options)
        self.encoded = self.task.encode(self.item)
        self.tokens = self.encoded.context.tokens
        self.windows = self.encoded.context.spans
        self.outputs = [
            {name: np.full(len(row["input_ids"]), LOW, np.float32) for name in ("start_logits", "end_logits")}
            for row in self.encoded.rows
        ]

    def at(self, text: str) -> int:
        """The token that begins where `text` does."""
        start = self.encoded.context.text.text.index(text)
        return [span[0] for span in self.tokens.spans].index(start)

    def mark(self, first: int, last: int, score: float, windows: Sequence[int] | None = None) -> None:
        """Give the span from token to token half its score at each end, in the windows that see it."""
        for w, (begin, stop) in enumerate(self.windows):
            if windows is None or w in windows:
                for name, token in (("start_logits", first), ("end_logits", last)):
                    if begin <= token < stop:
                        self.outputs[w][name][self.encoded.context.at + token - begin] = score / 2

    def null(self, *scores: float) -> None:
        """The score of no answer in each window."""
        for out, score in zip(self.outputs, scores, strict=True):
            out["start_logits"][0] = out["end_logits"][0] = score / 2

    def answer(self) -> Answer:
        answer: Answer = self.task.decode(self.item, self.encoded, self.outputs)
        return answer


@pytest.fixture
def mrc(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded("klue/mrc")


@pytest.fixture
def cmrc(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded("clue/cmrc2018")


@pytest.mark.parametrize(("null", "answered"), [(3.9, True), (4.0, True), (4.1, False), (LOW, True)])
def test_no_answer_is_given_if_it_beats_the_best_span(mrc: Loaded, null: float, answered: bool) -> None:
    read = Read(mrc, "회의는 서울에서 열렸다.")
    read.mark(read.at("서울"), read.at("서울"), 4.0)
    read.null(null)
    got = read.answer()
    assert got["answers"][0]["text"] == "서울"
    assert (got["answer"] == got["answers"][0]) is answered
    assert (got["answer"] is None) is not answered
    assert (got["null_score"] > got["answers"][0]["score"]) is not answered
    assert got["null_score"] + got["answers"][0]["score"] == pytest.approx(1, abs=1e-5)


FILLER = "오늘은 집에 있다. "
LONG = FILLER * 24 + "회의는 서울에서 열렸다."


@pytest.mark.parametrize(("lowest", "answered"), [(3.0, True), (5.0, False)])
def test_over_windows_the_least_null_counts(mrc: Loaded, lowest: float, answered: bool) -> None:
    """A window without the answer says so with every right; only if all do is there none."""
    read = Read(mrc, LONG)
    assert len(read.windows) > 3
    read.mark(read.at("서울"), read.at("서울"), 4.0)
    read.null(*[9.0] * (len(read.windows) - 2), lowest, 8.0)
    got = read.answer()
    assert (got["answer"] is not None) is answered
    assert isinstance(got["null_score"], float)
    assert got["answers"][0]["text"] == "서울"


def test_a_bundle_that_always_answers_has_no_null(cmrc: Loaded) -> None:
    read = Read(cmrc, "他在北京工作了三年", top_k=100)
    read.mark(read.at("北"), read.at("京"), -30.0)
    read.null(30.0)
    got = read.answer()
    assert got["null_score"] is None
    assert got["answer"] == got["answers"][0]
    assert got["answer"]["text"] == "北京"
    assert sum(a["score"] for a in got["answers"]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(("width", "fits"), [(11, True), (12, True), (13, False), (30, False)])
def test_an_answer_has_no_more_tokens_than_the_bundle_allows(mrc: Loaded, width: int, fits: bool) -> None:
    read = Read(mrc, "0 1 2 3 4 5 6 7 8 9 " * 4, top_k=20)
    read.mark(3, 3 + width - 1, 10.0)
    got = read.answer()
    best = got["answers"][0]
    assert (len(best["text"].split()) == width) is fits
    assert all(len(a["text"].split()) <= 12 for a in got["answers"])


def test_a_bundle_that_always_answers_does_so_even_if_no_best_start_fits_a_best_end(cmrc: Loaded) -> None:
    read = Read(cmrc, "서울 " * 50)
    at = read.encoded.context.at
    for out, (begin, stop) in zip(read.outputs, read.windows, strict=True):
        out["start_logits"][at : at + stop - begin] = np.arange(begin, stop)
        out["end_logits"][at : at + stop - begin] = -np.arange(begin, stop)
    assert read.answer()["answer"] is not None


def test_an_answer_never_ends_before_it_begins(cmrc: Loaded) -> None:
    read = Read(cmrc, "0 1 2 3 4 5 6 7 8 9", top_k=100)
    read.mark(7, 2, 10.0)
    got = read.answer()
    assert len(got["answers"]) == 20
    assert all(a["start"] < a["end"] for a in got["answers"])


@pytest.mark.parametrize("max_context", [True, False])
def test_a_span_counts_in_the_window_that_sees_most_around_it(copy_of: Callable[..., Path], max_context: bool) -> None:
    model = load(copy_of("clue/cmrc2018", decoder={"max_context": max_context}))
    read = Read(model, f"{FILLER * 24}회의는 서울에서 열렸다. {FILLER * 24}")
    token = read.at("서울")
    context = {w: min(token - a, b - 1 - token) for w, (a, b) in enumerate(read.windows) if a <= token < b}
    assert len(context) > 3
    middle = max(context, key=context.__getitem__)
    read.mark(token, token, 9.0, windows=[w for w in context if w != middle])  # certain where it is at the edge
    read.mark(0, 0, 5.0, windows=[0])
    assert read.answer()["answer"]["text"] == ("오늘" if max_context else "서울")
    read.mark(token, token, 9.0, windows=[middle])
    assert read.answer()["answer"]["text"] == "서울"


def test_a_span_that_several_windows_find_is_listed_once_at_its_best(copy_of: Callable[..., Path]) -> None:
    read = Read(load(copy_of("klue/mrc", decoder={"max_context": False})), LONG, top_k=100)
    token = read.at("서울")
    seeing = [w for w, (begin, stop) in enumerate(read.windows) if begin <= token < stop]
    for i, w in enumerate(seeing):
        read.mark(token, token, 4.0 + (i == 1), windows=[w])
    read.null(*[-3.0] * len(read.windows))
    got = read.answer()
    places = [(a["start"], a["end"]) for a in got["answers"]]
    assert len(places) == len(set(places)) == 20
    scores = [a["score"] for a in got["answers"]]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] / got["null_score"] == pytest.approx(np.exp(5.0 + 3.0), rel=0.05)


def test_one_answer_is_listed_unless_more_are_asked_for(mrc: Loaded) -> None:
    context = "회의는 서울에서 열렸다."
    for top_k, n in (({}, 1), ({"top_k": 1}, 1), ({"top_k": 3}, 3), ({"top_k": 100}, 20)):
        read = Read(mrc, context, **top_k)
        read.mark(read.at("서울"), read.at("서울"), 4.0)
        got = read.answer()
        assert len(got["answers"]) == n
        assert got["answer"] == got["answers"][0]


@pytest.mark.parametrize(
    ("context", "first", "last", "answer"),
    [
        ("회의는 서울에서 열렸다", "서울", "서울", "서울"),
        ("그는 부산에 갔고", "부산", "부산", "부산"),
        ("我们一起去公园散步", "公", "园", "公园"),
        ("방문객 \r\n\r\n\t 😀 서울에\u3000서  오늘 . ", "서울", "서 ", "서울에\u3000서"),
        ("집 (  서울 ) ,  부산", "서울", ",", "서울 ) ,"),
        ("[SEP] 서울 </s>", "서울", "서울", "서울"),
        ("서\u200b울 오늘", "서울", "서울", "서\u200b울"),
    ],
)
def test_an_answer_is_a_slice_of_the_context_as_it_was_sent(
    mrc: Loaded, context: str, first: str, last: str, answer: str
) -> None:
    """No snapping to words, which unspaced scripts lack (huggingface/transformers#17706), and no decoding of ids."""
    for unit, codec, size in (("codepoint", "utf-32-le", 4), ("utf16", "utf-16-le", 2), ("byte", "utf-8", 1)):
        read = Read(mrc, context, offset_unit=unit)
        read.mark(read.at(first), read.at(last), 6.0)
        got = read.answer()["answer"]
        assert got["text"] == answer
        assert context.encode(codec)[got["start"] * size : got["end"] * size].decode(codec) == answer


@given(st.text("오늘은 서울에서😀é\r\n\t　,.()ab\u200b\u1112\u1161\u11ab", min_size=1, max_size=80), st.integers(0, 99))
def test_whatever_the_logits_every_answer_is_a_slice(loaded: Callable[[str], Loaded], text: str, seed: int) -> None:
    read = Read(loaded("klue/mrc"), text + "끝", top_k=100)
    rng = np.random.default_rng(seed)
    read.outputs = [{k: rng.normal(size=len(v)) for k, v in out.items()} for out in read.outputs]
    got = read.answer()
    for a in got["answers"]:
        assert a["text"] == read.item.context[a["start"] : a["end"]] != ""
        assert 0 <= a["score"] <= 1


@pytest.mark.parametrize("decoder", [{"stride": 8}, {"doc_stride": None}, {"max_question_tokens": 61}])
def test_windows_that_contradict_themselves_are_refused(copy_of: Callable[..., Path], decoder: dict) -> None:
    with pytest.raises(BundleError, match=r"doc_stride|leaves 0 tokens of context"):
        load(copy_of("klue/mrc", decoder=decoder))
