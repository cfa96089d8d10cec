"""Windows of one document put together: worked values of every rule and every output."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from service.errors import BundleError
from service.tasks.aggregation import Params, Reader

LABELS = ["a", "b", "c"]
LOGITS = np.log(np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]], np.float64))


def read(logits: Any, labels: list[str] = LABELS, top_k: int | None = None, **params: Any) -> tuple[Any, Any]:
    return Reader(Params.model_validate(params), labels, Path("bundle")).read(logits, top_k)


def scores(answer: dict[str, Any]) -> dict[str, float]:
    return {s["label"]: s["score"] for s in answer["scores"]}


@pytest.mark.parametrize(
    ("aggregation", "want"),
    [
        ({"aggregation": "mean_probability"}, [0.3, 0.7 / 3, 1.4 / 3]),
        ({"aggregation": "max"}, [0.6, 0.3, 0.8]),
        ({"aggregation": "max_mean", "c": 2}, [(0.6 + 0.9 / 2) / 2.5, (0.3 + 0.7 / 2) / 2.5, (0.8 + 1.4 / 2) / 2.5]),
        ({"aggregation": "max_mean", "c": 1}, [1.5 / 4, 1.0 / 4, 2.2 / 4]),
        ({"aggregation": "first"}, [0.2, 0.3, 0.5]),
        ({"aggregation": "last"}, [0.1, 0.1, 0.8]),
    ],
)
def test_worked_values(aggregation: dict[str, Any], want: list[float]) -> None:
    answer, windows = read(LOGITS, output="softmax", **aggregation)
    assert scores(answer) == pytest.approx(dict(zip(LABELS, want, strict=True)), abs=1e-6)
    best = max(range(3), key=lambda i: want[i])
    assert (answer["label"], answer["score"]) == (LABELS[best], pytest.approx(want[best], abs=1e-6))
    assert [w["label"] for w in windows] == ["c", "a", "c"]
    assert [w["score"] for w in windows] == [0.5, 0.6, 0.8]
    assert [s["score"] for s in answer["scores"]] == sorted((s["score"] for s in answer["scores"]), reverse=True)


def test_the_mean_of_logits_is_a_geometric_mean_of_probabilities() -> None:
    product = np.exp(LOGITS.mean(axis=0))
    answer, _ = read(LOGITS, output="softmax", aggregation="mean_logit")
    assert scores(answer) == pytest.approx(dict(zip(LABELS, product / product.sum(), strict=True)), abs=1e-6)


def test_of_one_window_every_rule_but_calibration_makes_the_same() -> None:
    rules = [{"aggregation": a} for a in ("mean_logit", "mean_probability", "max", "first", "last")]
    answers = [read(LOGITS[:1], output="softmax", **rule)[0] for rule in [*rules, {"aggregation": "max_mean", "c": 2}]]
    assert all(answer == answers[0] for answer in answers)


def test_a_temperature_makes_probabilities_modest() -> None:
    (answer, windows) = read(LOGITS[:1], output="softmax", aggregation="first", temperature=2.0)
    roots = np.sqrt([0.2, 0.3, 0.5])
    assert scores(answer) == pytest.approx(dict(zip(LABELS, roots / roots.sum(), strict=True)), abs=1e-6)
    assert windows[0]["scores"] == answer["scores"]
    hot, _ = read(np.array([[3.0]]), ["a"], output="sigmoid", aggregation="max", temperature=3.0)
    assert hot["scores"][0]["score"] == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-6)


def test_many_classes_may_hold_at_once_each_past_its_own_threshold() -> None:
    logits = np.array([[0.0, 2.0, -1.0], [1.0, -2.0, -1.0]])
    p = 1 / (1 + np.exp(-logits))
    answer, windows = read(logits, output="sigmoid", aggregation="max", threshold=0.8, thresholds={"a": 0.7, "c": 0.2})
    assert scores(answer) == pytest.approx(dict(zip(LABELS, p.max(axis=0), strict=True)), abs=1e-6)
    assert [s["label"] for s in answer["labels"]] == ["b", "a", "c"]
    assert (answer["label"], answer["score"], answer["value"]) == (None, None, None)
    strict, _ = read(logits, output="sigmoid", aggregation="max", threshold=0.9)
    assert strict["labels"] == []
    assert [s["label"] for s in windows[1]["labels"]] == ["a", "c"]


def test_ordinal_classes_have_an_expected_value() -> None:
    values = {"a": 10.0, "b": 20.0, "c": 100.0}
    common = {"output": "ordinal", "class_values": values}
    answer, windows = read(LOGITS, aggregation="mean_probability", **common)
    assert answer["label"] == "c"
    assert answer["value"] == pytest.approx(3 + 14 / 3 + 140 / 3, abs=1e-5)
    assert windows[0]["value"] == pytest.approx(2 + 6 + 50, abs=1e-5)
    most, _ = read(LOGITS, aggregation="max", **common)
    assert most["value"] == pytest.approx((6 + 6 + 80) / 1.7, abs=1e-5), "weights that do not sum to 1 are shares"
    mode, parts = read(LOGITS, aggregation="mean_probability", estimate="mode", **common)
    assert (mode["value"], [w["value"] for w in parts]) == (100.0, [100.0, 10.0, 100.0])
    bare, _ = read(LOGITS, output="ordinal", aggregation="max")
    assert bare["value"] is None


def test_values_follow_their_labels_into_any_order() -> None:
    values = {"a": 10.0, "b": 20.0, "c": 100.0}
    params = {"output": "ordinal", "aggregation": "mean_probability", "class_values": values}
    one, _ = read(LOGITS, **params)
    two, _ = read(LOGITS[:, [2, 0, 1]], ["c", "a", "b"], **params)
    assert (one["value"], one["label"]) == (two["value"], two["label"])


@pytest.mark.parametrize(("aggregation", "want"), [("mean_logit", 3.0), ("max", 7.5), ("first", 2.0), ("last", -0.5)])
def test_a_regression_is_a_plain_number(aggregation: str, want: float) -> None:
    logits = np.array([[2.0], [7.5], [-0.5]])
    answer, windows = read(logits, [], output="regression", aggregation=aggregation, score_range=(0, 5))
    assert answer == {"label": None, "score": None, "scores": [], "labels": [], "value": want}
    assert [w["value"] for w in windows] == [2.0, 7.5, -0.5], "never clipped"


@given(st.lists(st.lists(st.floats(-30, 30), min_size=2, max_size=2), min_size=1, max_size=6), st.floats(0.1, 9))
def test_the_clinical_rule_lies_between_the_mean_and_the_largest(logits: list[list[float]], c: float) -> None:
    both, windows = read(np.array(logits), LABELS[:2], output="sigmoid", aggregation="max_mean", c=c)
    for label in LABELS[:2]:
        p = [scores(w)[label] for w in windows]
        assert np.mean(p) - 2e-6 <= scores(both)[label] <= max(p) + 2e-6


@pytest.mark.parametrize(
    "params",
    [
        {"output": "regression", "aggregation": "max"},
        {"output": "softmax", "aggregation": "max", "score_range": (0, 1)},
        {"output": "regression", "aggregation": "mean_probability", "score_range": (0, 1)},
        {"output": "regression", "aggregation": "max", "score_range": (0, 1), "temperature": 2.0},
        {"output": "softmax", "aggregation": "max_mean"},
        {"output": "softmax", "aggregation": "max", "c": 2},
        {"output": "softmax", "aggregation": "max", "thresholds": {"a": 0.5}},
        {"output": "softmax", "aggregation": "max", "class_values": {"a": 1.0}},
        {"output": "softmax", "aggregation": "max", "temperature": 0.0},
        {"output": "softmax", "aggregation": "median"},
    ],
)
def test_parameters_that_contradict_each_other_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Params.model_validate(params)


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"output": "sigmoid", "thresholds": {"d": 0.5}}, "decoder.thresholds names d"),
        ({"output": "ordinal", "class_values": {"a": 1, "b": 2, "x": 3}}, "decoder.class_values names x"),
        ({"output": "ordinal", "class_values": {"a": 1, "b": 2}}, "decoder.class_values lacks some of the labels"),
    ],
)
def test_parameters_of_other_labels_are_refused(params: dict[str, Any], problem: str) -> None:
    with pytest.raises(BundleError, match=problem):
        read(LOGITS, aggregation="max", **params)
