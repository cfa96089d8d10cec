"""Questions and contexts as they come: too long, empty, with separators typed into them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kit import Loaded, load
from pydantic import ValidationError

from service.errors import InvalidItem

CONTEXT = "회의는 서울에서 열렸다."


@pytest.fixture
def mrc(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded("klue/mrc")


def test_a_question_past_its_limit_is_cut_and_said_so_or_refused(mrc: Loaded) -> None:
    fields = {"question": "," * 17, "context": CONTEXT}
    (ids,) = mrc.ids(**fields)
    assert ids.count(mrc.id(",")) == 16
    assert mrc.ask(**fields)["truncated"] is True
    with pytest.raises(InvalidItem, match="the text has 17 tokens, the model reads 16") as refused:
        mrc.ask(**fields, on_overflow="error")
    assert (refused.value.field, refused.value.reason) == ("question", "text_too_long")
    assert mrc.ask(question="," * 16, context=CONTEXT, on_overflow="error")["truncated"] is False


def test_a_question_longer_than_the_model_is_no_fault_of_ours(mrc: Loaded) -> None:
    """A bare exception of the tokenizer became a 500 (huggingface/tokenizers#944)."""
    answer = mrc.ask(question="왜 " * 600, context=CONTEXT * 30)
    assert answer["truncated"] is True
    assert answer["answers"]


def test_a_long_context_is_read_in_windows_all_of_it(mrc: Loaded) -> None:
    """Every token of the context is in some row, every row fits, and nothing is said to be lost."""
    context = "".join(f"{i % 10}" if i % 3 else "," for i in range(300))
    item = mrc.item(question="어디?", context=context)
    rows = mrc.task.encode(item).rows
    assert len(rows) > 5
    assert all(len(row["input_ids"]) <= 64 for row in rows)
    pieces = [row["input_ids"].tolist()[row["token_type_ids"].tolist().index(1) : -1] for row in rows]
    whole = mrc.task.encoder.tokenize(context, "context").ids
    for i, piece in enumerate(pieces):
        assert piece == whole[i * 8 : i * 8 + len(piece)]
    assert pieces[-1][-1] == whole[-1]
    assert mrc.ask(question="어디?", context=context)["truncated"] is False


@pytest.mark.parametrize(("overlap", "starts"), [(8, [0, 52]), (0, [0, 60]), (50, [0, 10, 20, 30, 40])])
def test_windows_may_be_given_by_their_overlap(copy_of: Callable[..., Path], overlap: int, starts: list[int]) -> None:
    model = load(copy_of("klue/mrc", decoder={"doc_stride": None, "stride": overlap, "max_question_tokens": 5}))
    spans = model.task.encode(model.item(question="?", context="," * 100)).context.spans  # room for 60
    assert [start for start, _ in spans] == starts
    assert spans[-1][1] == 100


def test_a_long_context_may_be_cut_or_refused(mrc: Loaded) -> None:
    fields = {"question": "?", "context": "," * 61}
    answer = mrc.ask(**fields, on_overflow="truncate")
    assert (answer["truncated"], answer["tokens"]) == (True, 64)
    with pytest.raises(InvalidItem, match="the text has 61 tokens, the model reads 60") as refused:
        mrc.ask(**fields, on_overflow="error")
    assert refused.value.field == "context"
    assert mrc.ask(question="?", context="," * 60, on_overflow="error")["truncated"] is False


@pytest.mark.parametrize(
    ("question", "context", "path"),
    [("누가?", "", "context"), ("누가?", " \n\u3000", "context"), ("", "a", "question"), ("\u200b", "a", "question")],
)
@pytest.mark.parametrize("suite", ["klue/mrc", "clue/cmrc2018"])
def test_an_empty_question_or_context_is_refused(
    loaded: Callable[[str], Loaded], suite: str, question: str, context: str, path: str
) -> None:
    with pytest.raises(InvalidItem, match="the text is empty") as refused:
        loaded(suite).item(question=question, context=context)
    assert (refused.value.status, refused.value.field) == (422, path)


@pytest.mark.parametrize(("question", "context", "path"), [("\x07", "a", "question"), ("a", "\ue313", "context")])
def test_a_question_or_context_that_the_tokenizer_deletes_is_refused(
    mrc: Loaded, question: str, context: str, path: str
) -> None:
    with pytest.raises(InvalidItem, match="no characters that the model knows") as refused:
        mrc.ask(question=question, context=context)
    assert refused.value.field == path


def test_separators_that_are_typed_are_text(mrc: Loaded) -> None:
    (ids,) = mrc.ids(question="누가 왔나? [SEP]", context="[SEP] 그는 집에 있다 [PAD][CLS]</s>")
    assert ids.count(mrc.id("[SEP]")) == 2
    assert ids.count(mrc.id("[CLS]")) == 1
    assert ids.count(mrc.id("[PAD]")) == 0


def test_space_around_a_question_does_not_matter(mrc: Loaded) -> None:
    assert mrc.ids(question=" \n누가?\t", context=CONTEXT) == mrc.ids(question="누가?", context=CONTEXT)


@pytest.mark.parametrize(
    "extra", [{"doc_stride": 99999}, {"max_seq_len": 100000}, {"top_k": 0}, {"top_k": 101}, {"on_overflow": "cut"}]
)
def test_what_the_bundle_decides_cannot_be_asked_for(mrc: Loaded, extra: dict) -> None:
    with pytest.raises(ValidationError):
        mrc.item(question="누가?", context=CONTEXT, **extra)
