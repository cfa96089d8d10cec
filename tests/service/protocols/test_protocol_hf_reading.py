"""Hugging Face's question answering: spans, no answer, and the numbers by which a caller has a context read."""

from __future__ import annotations

from typing import Any

import pytest
from booth import Booth, ask_hf, refused_hf

ASKED = {"question": "오늘은 어디에 있다?", "context": "그는 어제 부산에 갔고 오늘은 집에 있다."}
LONG = {"question": "오늘은 어디에 있다?", "context": "그는 어제 부산에 갔고 오늘은 집에 있다. " * 12}


def test_an_answer_is_a_span_or_a_list_of_them(booth: Booth) -> None:
    want = booth.native("reading", **ASKED, top_k=3)["answers"]
    spans = [{"answer": s["text"], "score": s["score"], "start": s["start"], "end": s["end"]} for s in want]
    assert ask_hf(booth, "reading", ASKED) == spans[0]
    assert ask_hf(booth, "reading", ASKED, top_k=3) == spans
    assert ask_hf(booth, "reading", [ASKED, ASKED]) == [spans[0], spans[0]]


def test_no_answer_has_its_place_where_it_is_accepted(booth: Booth) -> None:
    native = booth.native("reading", **ASKED, top_k=5)
    none = {"answer": "", "score": native["null_score"], "start": 0, "end": 0}
    got = ask_hf(booth, "reading", ASKED, top_k=5, handle_impossible_answer=True)
    assert [s["answer"] for s in got if s != none] == [s["text"] for s in native["answers"][:4]]
    assert [s["score"] for s in got] == sorted((s["score"] for s in got), reverse=True)
    assert "always answers" in refused_hf(booth, "sure", ASKED, handle_impossible_answer=True)


def test_no_answer_comes_first_if_the_model_says_so(booth: Booth) -> None:
    native = booth.native("unsure", **ASKED)
    none = {"answer": "", "score": native["null_score"], "start": 0, "end": 0}
    assert native["answer"] is None
    assert ask_hf(booth, "unsure", ASKED, handle_impossible_answer=True) == none
    assert ask_hf(booth, "unsure", ASKED, handle_impossible_answer=True, top_k=2)[0] == none
    assert ask_hf(booth, "unsure", ASKED)["answer"] == native["answers"][0]["text"]


def test_numbers_of_reading_are_those_of_the_bundle(booth: Booth) -> None:
    manifest = booth.server.bundles["reading"].manifest
    same = {"max_seq_len": manifest.max_length, "max_question_len": 16, "max_answer_len": 12}
    assert ask_hf(booth, "reading", ASKED, **same, align_to_words=False) == ask_hf(booth, "reading", ASKED)


def test_the_numbers_that_clients_spell_out_are_honoured(booth: Booth) -> None:
    """Rows are no longer than the model reads, however long the client would have them."""
    spelled = {"top_k": 1, "doc_stride": 16, "max_answer_len": 15, "max_seq_len": 384, "max_question_len": 16}
    rest = {"handle_impossible_answer": False, "align_to_words": True}
    got = ask_hf(booth, "reading", LONG, **spelled, **rest)
    assert got["answer"] == LONG["context"][got["start"] : got["end"]] != ""


@pytest.mark.parametrize("numbers", [{"doc_stride": 4}, {"max_seq_len": 40}, {"max_question_len": 2}])
def test_windows_are_as_the_caller_sizes_them(booth: Booth, numbers: dict[str, int]) -> None:
    own, got = ask_hf(booth, "reading", LONG, top_k=9), ask_hf(booth, "reading", LONG, top_k=9, **numbers)
    assert [s["score"] for s in got] != [s["score"] for s in own]


@pytest.mark.parametrize("most", [1, 3, 40])
def test_an_answer_has_no_more_tokens_than_the_caller_allows(booth: Booth, most: int) -> None:
    digits = LONG | {"context": "0 1 2 3 4 5 6 7 8 9 " * 8}
    lengths = [len(s["answer"].split()) for s in ask_hf(booth, "sure", digits, max_answer_len=most, top_k=100)]
    assert max(lengths) <= most
    assert most < 40 or max(lengths) > 12  # the bundle's own


def test_answers_are_widened_to_whole_words(booth: Booth) -> None:
    parts, whole = (ask_hf(booth, "reading", ASKED, top_k=9, align_to_words=align) for align in (False, True))
    text = ASKED["context"]
    assert any(s["start"] > 0 and text[s["start"] - 1].isalpha() for s in parts)
    for s in whole:
        assert not text[s["start"] - 1 : s["start"]].isalpha()
        assert not text[s["end"] : s["end"] + 1].isalpha()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"doc_stride": 40}, "parameters.doc_stride: windows of 64 tokens with these numbers advance by 5"),
        ({"max_seq_len": 20}, "parameters.max_seq_len: windows of 20 tokens with these numbers advance by 1"),
        ({"max_question_len": 61}, "parameters.max_question_len: windows of 64 tokens with these numbers advance by 0"),
        ({"max_seq_len": 0}, "parameters.max_seq_len: "),
        ({"max_answer_len": 0}, "parameters.max_answer_len: "),
        ({"doc_stride": -1}, "parameters.doc_stride: "),
        ({"align_to_words": 1}, "parameters.align_to_words: "),
    ],
)
def test_windows_that_would_not_advance_are_refused(booth: Booth, parameters: dict[str, Any], message: str) -> None:
    """Else a text would be read as often as it has tokens."""
    assert message in refused_hf(booth, "reading", LONG, **parameters)
    path = {"inputs": LONG | {"max_length": 64}}
    assert booth.post("/models/reading", path).json["error"].startswith("inputs.max_length: ")
