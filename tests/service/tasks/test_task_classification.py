"""Reading the logits of one row: softmax, sigmoid, regression, and one shape of answer for all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import load

from service.errors import BundleError
from service.tasks.classification import Classification, Params, read

LABELS = ["sports", "world", "society"]
SOFTMAX = Params(output="softmax")
SIGMOID = Params(output="sigmoid", threshold=0.5)
REGRESSION = Params(output="regression", score_range=(0, 5), binary_threshold=3.0, binary_labels=("no", "yes"))
logits3 = st.lists(st.integers(-1600, 1600).map(lambda n: n / 32), min_size=3, max_size=3)


def array(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


@given(logits3)
def test_classes_are_listed_by_probability_and_sum_to_one(values: list[float]) -> None:
    answer = read(SOFTMAX, LABELS, array(*values), None)
    scores = [s["score"] for s in answer["scores"]]
    assert scores == sorted(scores, reverse=True)
    assert sum(scores) == pytest.approx(1, abs=2e-6)
    assert {s["label"] for s in answer["scores"]} == set(LABELS)
    assert answer["label"] == LABELS[int(np.argmax(array(*values)))]
    assert answer["score"] == scores[0]
    assert (answer["labels"], answer["value"]) == ([], None)


def test_probabilities_are_those_of_the_logits_own_order() -> None:
    answer = read(SOFTMAX, LABELS, array(0.0, math.log(3), math.log(4)), None)
    assert [(s["label"], s["score"]) for s in answer["scores"]] == [
        ("society", 0.5),
        ("world", 0.375),
        ("sports", 0.125),
    ]


def test_of_equal_classes_the_earlier_is_first() -> None:
    assert [s["label"] for s in read(SOFTMAX, LABELS, array(1, 1, 1), None)["scores"]] == LABELS


@pytest.mark.parametrize("values", [(1000.0, -1000.0, 0.0), (3e38, 0.0, 0.0), (-3e38, -3e38, -3e38)])
def test_huge_logits_stay_numbers(values: tuple[float, ...]) -> None:
    for params in (SOFTMAX, SIGMOID):
        text = json.dumps(read(params, LABELS, array(*values), None), allow_nan=False)
        assert "e+" not in text


@pytest.mark.parametrize(("value", "label"), [(4.2, "yes"), (3.0, "yes"), (2.99, "no"), (-0.4, "no"), (5.7, "yes")])
def test_a_regression_is_the_raw_value(value: float, label: str) -> None:
    """Neither squashed to 0.985 nor clipped to its range (huggingface/transformers#33973)."""
    answer = read(REGRESSION, [], array(value), None)
    assert answer["value"] == pytest.approx(value, abs=1e-6)
    assert (answer["label"], answer["score"], answer["scores"], answer["labels"]) == (label, None, [], [])


def test_a_regression_without_a_threshold_has_no_label() -> None:
    answer = read(Params(output="regression", score_range=(0, 1)), [], array(0.25), None)
    assert (answer["value"], answer["label"]) == (0.25, None)


def test_multi_label_classes_stand_on_their_own() -> None:
    answer = read(SIGMOID, LABELS, array(2.0, -1.0, 0.0), 1)
    assert answer["scores"] == [{"label": "sports", "score": 0.880797}]
    assert answer["labels"] == [{"label": "sports", "score": 0.880797}, {"label": "society", "score": 0.5}]
    assert (answer["label"], answer["value"]) == (None, None)
    assert read(SIGMOID, LABELS, array(-9, -9, -9), None)["labels"] == []


@given(logits3, st.floats(0.05, 0.95))
def test_multi_label_threshold_is_each_classes_own(values: list[float], threshold: float) -> None:
    answer = read(Params(output="sigmoid", threshold=threshold), LABELS, array(*values), None)
    over = {s["label"] for s in answer["labels"]}
    assert over == {
        label
        for label, v in zip(LABELS, array(*values), strict=True)
        if 0.5 * (1 + math.tanh(0.5 * float(v))) >= threshold
    }


@pytest.mark.parametrize("params", [SOFTMAX, SIGMOID, REGRESSION], ids=["softmax", "sigmoid", "regression"])
@pytest.mark.parametrize("top_k", [None, 1, 2, 99])
def test_the_shape_of_an_answer_never_changes(params: Params, top_k: int | None) -> None:
    """Nesting that depends on an option breaks clients (huggingface/transformers#25251)."""
    n = 1 if params is REGRESSION else 3
    answer = read(params, LABELS[:n], array(*range(n)), top_k) | {"truncated": False, "tokens": 3}
    assert answer.keys() == Classification.model_fields.keys()
    assert Classification.model_validate(answer, strict=True).model_dump() == answer
    assert len(answer["scores"]) == (0 if params is REGRESSION else min(3, top_k or 3))


@pytest.mark.parametrize(
    ("decoder", "why"),
    [
        ({"output": "regression"}, "score_range belongs to regression"),
        ({"output": "softmax", "score_range": [0, 5]}, "score_range belongs to regression"),
        ({"output": "softmax", "binary_threshold": 1.0}, "go together"),
        ({"output": "argmax"}, r"decoder\.output"),
        ({"output": "softmax", "temperature": 2}, r"decoder\.temperature: Extra"),
        ({"output": "sigmoid", "threshold": 1.0}, r"decoder\.threshold"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused(
    copy_of: Callable[..., Path], decoder: dict[str, Any], why: str
) -> None:
    with pytest.raises(BundleError, match=why):
        load(copy_of("klue/ynat", decoder=decoder))


def test_a_bundle_that_names_other_classes_than_its_graph_has_is_refused(copy_of: Callable[..., Path]) -> None:
    with pytest.raises(BundleError, match="the graph has 7 classes, the bundle names 2"):
        load(copy_of("klue/ynat", labels=["one", "two"]))
    with pytest.raises(BundleError, match=r"reads graph outputs \['logits'\], which it lacks"):
        load(_without_logits(copy_of))


def _without_logits(copy_of: Callable[..., Path]) -> Path:
    folder = copy_of("klue/ynat")
    manifest = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    manifest["graph"]["outputs"] = {"scores": [7]}
    (folder / "bundle.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
