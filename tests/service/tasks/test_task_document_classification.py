"""Long documents and series of notes: what is read, in which order, and which part said what."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import SPECIALS, Loaded, edit, load, vocabulary, write
from onnx import TensorProto, helper, numpy_helper
from pydantic import ValidationError

from service.errors import BundleError, InvalidItem
from service.tasks.chunks import ROWS
from service.types import Timing

Copy = Callable[..., Path]
LOAD = Callable[..., Loaded]
WORDS = {"well": (2.0, 0.0), "ill": (0.0, 2.0), "very": (0.0, 1.0), "and": (0.0, 0.0), ".": (0.0, 0.0)}
NOTES = "Cough and fever since Monday. " * 4


@pytest.fixture
def ward(copy_of: Copy) -> LOAD:
    """A bundle with two classes whose logits are the sums of its words' weights."""

    def make(**decoder: Any) -> Loaded:
        plain = {"output": "softmax", "aggregation": "mean_logit", "c": None}
        folder = copy_of("clinical-clue/mortality", decoder=plain | decoder)
        vocabulary(folder, list(WORDS))
        table = np.array([(0.0, 0.0)] * len(SPECIALS) + [*WORDS.values()], np.float32)
        axes = ["batch_size", "sequence_length"]
        inputs = [
            helper.make_tensor_value_info(n, TensorProto.INT64, axes)
            for n in ("input_ids", "attention_mask", "token_type_ids")
        ]
        nodes = [
            helper.make_node("Gather", ["table", "input_ids"], ["weights"], axis=0),
            helper.make_node("ReduceSum", ["weights", "one"], ["logits"], keepdims=0),
        ]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", 2])]
        constants = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([1]), "one")]
        write(folder / "model.onnx", nodes, inputs, outputs, constants)
        edit(folder, labels=["well", "ill"])
        return load(folder)

    return make


def places(answer: dict[str, Any]) -> list[tuple[int, int, int]]:
    return [(w["note"], w["start"], w["end"]) for w in answer["windows"]]


def softmax(a: float, b: float) -> float:
    return math.exp(b) / (math.exp(a) + math.exp(b))


def test_every_note_is_a_window_of_its_own_and_counts_once(ward: LOAD) -> None:
    answer = ward().ask(notes=[{"text": "ill."}, {"text": "well and very ill"}, {"text": "well"}])
    assert places(answer) == [(0, 0, 4), (1, 0, 17), (2, 0, 4)]
    assert [w["scores"][0]["label"] for w in answer["windows"]] == ["ill", "ill", "well"]
    assert [w["scores"][0]["score"] for w in answer["windows"]] == pytest.approx(
        [softmax(0, 2), softmax(2, 3), softmax(0, 2)], abs=1e-6
    )
    assert answer["label"] == "ill"
    assert answer["score"] == pytest.approx(softmax(4 / 3, 5 / 3), abs=1e-6)
    assert (answer["truncated"], answer["tokens"]) == (False, 4 + 6 + 3)


def test_a_text_is_a_single_note(ward: LOAD) -> None:
    one, two = ward().ask(text="very ill"), ward().ask(notes=[{"text": "very ill"}])
    assert one == two


def test_windows_cover_a_long_text_and_say_where(ward: LOAD) -> None:
    text = "well and " * 100 + "ill."
    answer = ward(stride=12).ask(text=text)
    got = places(answer)
    assert got[0][1:] == (0, 62 // 2 * 9 - 1)
    assert got[1][1] == 50 // 2 * 9, "windows share twelve tokens"
    assert got[-1][2] == len(text)
    assert all(a[2] > b[1] for a, b in pairwise(got))
    assert len(got) == 1 + math.ceil((202 - 62) / 50)
    assert ward(stride=0).ask(text=text)["tokens"] == 202 + 2 * math.ceil(202 / 62)


def test_offsets_are_the_callers_in_each_note(ward: LOAD) -> None:
    text = "\ufeff 😀 ill"
    for unit, codec, size in (("codepoint", "utf-32-le", 4), ("utf16", "utf-16-le", 2), ("byte", "utf-8", 1)):
        answer = ward().ask(notes=[{"text": "well"}, {"text": text}], offset_unit=unit)
        window = answer["windows"][1]
        assert text.encode(codec)[window["start"] * size : window["end"] * size].decode(codec) == "😀 ill"


def test_notes_are_read_by_their_times(ward: LOAD) -> None:
    notes = [
        {"text": "well", "time": "2031-05-02T07:00:00+09:00"},
        {"text": "ill", "time": "2031-05-01T21:00:00Z"},
        {"text": "very ill", "time": "2031-05-01T23:30:00+02:00"},
    ]
    answer = ward(aggregation="last").ask(notes=notes)
    assert [w["note"] for w in answer["windows"]] == [1, 2, 0]
    assert answer["label"] == "well"
    assert [w["note"] for w in ward().ask(notes=notes[::-1])["windows"]] == [1, 0, 2]
    same = [{"text": "well", "time": "2031-05-01"}, {"text": "ill", "time": "2031-05-01T00:00"}]
    assert [w["note"] for w in ward().ask(notes=same)["windows"]] == [0, 1]


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({}, "text", "give text or notes, and not both"),
        ({"text": "ill", "notes": [{"text": "ill"}]}, "notes", "give text or notes, and not both"),
        ({"text": " "}, "text", "the text is empty"),
        ({"notes": [{"text": "ill"}, {"text": "\u200b"}]}, "notes.1.text", "the text is empty"),
        ({"notes": [{"text": "a", "time": "2031-05-01"}, {"text": "b"}]}, "notes.1.time", "this one has none"),
        ({"notes": [{"text": "a"}, {"text": "b", "time": "2031-05-01"}]}, "notes.0.time", "this one has none"),
        ({"notes": [{"text": "a", "time": "May 1st"}]}, "notes.0.time", "not one of ISO 8601"),
        (
            {"notes": [{"text": "a", "time": "2031-05-01T10:00Z"}, {"text": "b", "time": "2031-05-01T10:00"}]},
            "notes.1.time",
            "an offset from UTC",
        ),
    ],
)
def test_what_cannot_be_read_is_named(ward: LOAD, fields: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(InvalidItem, match=problem) as refused:
        ward().item(**fields)
    assert (refused.value.status, refused.value.field) == (422, field)


def test_a_note_without_any_token_is_named(ward: LOAD) -> None:
    with pytest.raises(InvalidItem, match="no characters that the model knows") as refused:
        ward().ask(notes=[{"text": "ill"}, {"text": "\x07"}])
    assert refused.value.field == "notes.1.text"


@pytest.mark.parametrize(
    "body",
    [{"notes": []}, {"notes": ["ill"]}, {"notes": [{"text": None}]}, {"notes": [{"text": "a", "time": 5}]}, {"text": 3},
     {"notes": [{"text": "a", "author": "b"}]}, {"text": "a", "question": "b"}],
)  # fmt: skip
def test_a_request_of_another_shape_is_invalid(ward: LOAD, body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ward().task.Input.model_validate(body)


@pytest.mark.parametrize(
    ("keep", "most", "read"),
    [("first", 2, [0, 1]), ("last", 2, [3, 4]), ("head_tail", 3, [0, 1, 4]), ("head_tail", 4, [0, 1, 3, 4]),
     ("head_tail", 1, [0]), ("first", 9, [0, 1, 2, 3, 4])],
)  # fmt: skip
def test_of_many_windows_the_policy_says_which_are_read(ward: LOAD, keep: str, most: int, read: list[int]) -> None:
    model = ward(max_windows=most, keep=keep)
    notes = [{"text": "ill"}] * 5
    answer = model.ask(notes=notes)
    assert [w["note"] for w in answer["windows"]] == read
    assert answer["truncated"] is (len(read) < 5)
    assert answer["tokens"] == 3 * len(read)
    if len(read) < 5:
        with pytest.raises(InvalidItem, match=f"the document has 5 windows, the model reads {most}") as refused:
            model.ask(notes=notes, on_overflow="error")
        assert refused.value.reason == "text_too_long"
    assert model.ask(text="ill", on_overflow="error")["truncated"] is False


def test_twenty_thousand_characters_are_run_a_few_rows_at_a_time(ward: LOAD) -> None:
    model = ward(stride=0)
    sizes: list[int] = []

    def run(rows: Any) -> Any:
        sizes.append(len(rows))
        return model.session.run(rows)

    text = ("well and ill. " * 1500)[:20_000].strip()
    (answer,) = model.task.predict([model.item(text=text)], run, [Timing()])
    assert len(answer["windows"]) == sum(sizes) > 90
    assert max(sizes) <= ROWS
    assert all(0 <= b["start"] - a["end"] <= 1 for a, b in pairwise(answer["windows"])), "every character but spaces"
    assert (answer["windows"][0]["start"], answer["windows"][-1]["end"]) == (0, len(text))


def test_top_k_limits_the_classes_of_the_document_and_of_every_window(loaded: Callable[[str], Loaded]) -> None:
    model = loaded("clinical-clue/phenotyping")
    every = model.ask(text=NOTES)
    few = model.ask(text=NOTES, top_k=3)
    assert len(every["scores"]) == len(every["windows"][0]["scores"]) == 25
    assert few["scores"] == every["scores"][:3]
    assert [w["scores"] for w in few["windows"]] == [w["scores"][:3] for w in every["windows"]]
    assert few["labels"] == every["labels"]


@pytest.mark.parametrize(
    "suite",
    [
        "biomed/pubmedqa",
        *(f"clinical-clue/{t}" for t in ("disease-staging", "mortality", "phenotyping", "remaining-los")),
    ],
)
def test_answers_do_not_depend_on_company(loaded: Callable[[str], Loaded], suite: str) -> None:
    model = loaded(suite)
    alone = model.ask(text=NOTES)
    together = model.ask_all([{"text": NOTES * 30}, {"text": NOTES}, {"notes": [{"text": "fox"}] * 5}])[1]
    assert places(together) == places(alone)
    numbers = [[s["score"] for part in (a, *a["windows"]) for s in part["scores"]] for a in (together, alone)]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-5)
    assert together["label"] == alone["label"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"labels": ["one"]}, "the graph has 2 classes, the bundle names 1"),
        ({"decoder": {"stride": 62}}, "stride 62 leaves no way forward in windows of 62"),
        ({"decoder": {"keep": "middle"}}, "decoder.keep"),
        ({"decoder": {"max_windows": 0}}, "decoder.max_windows"),
    ],
)
def test_a_bundle_that_does_not_fit_is_refused(copy_of: Copy, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(BundleError, match=problem):
        load(copy_of("clinical-clue/mortality", **changes))
