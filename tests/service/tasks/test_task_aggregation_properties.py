"""Windows of a document put together: what holds of any number of windows and any logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from service.tasks.aggregation import Params, Reader
from service.types import Array

LABELS = ["a", "b", "c"]
logits = arrays(np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=st.floats(-20, 20))
UNORDERED = ["mean_logit", "mean_probability", "max", "max_mean"]


def read(logits: Array, aggregation: str, output: str = "softmax") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    c = {"c": 2.0} if aggregation == "max_mean" else {}
    params = Params.model_validate({"output": output, "aggregation": aggregation, **c})
    return Reader(params, LABELS, Path("bundle")).read(logits, None)


def by_label(answer: dict[str, Any]) -> dict[str, float]:
    return {score["label"]: score["score"] for score in answer["scores"]}


@pytest.mark.parametrize("output", ["softmax", "sigmoid"])
@pytest.mark.parametrize("aggregation", [*UNORDERED, "first", "last"])
@given(logits=logits)
def test_a_score_lies_between_those_of_the_windows(output: str, aggregation: str, logits: Array) -> None:
    whole, windows = read(logits, aggregation, output)
    each = [by_label(window) for window in windows]
    for label, score in by_label(whole).items():
        assert 0 <= score <= 1
        if aggregation != "mean_logit":  # of three classes one may profit from the quarrel of two others
            assert min(e[label] for e in each) - 2e-6 <= score <= max(e[label] for e in each) + 2e-6


@pytest.mark.parametrize("aggregation", UNORDERED)
@given(logits=logits)
def test_the_order_of_the_windows_does_not_matter(aggregation: str, logits: Array) -> None:
    there, back = (by_label(read(some, aggregation)[0]) for some in (logits, logits[::-1]))
    assert there == pytest.approx(back, abs=2e-6)


@pytest.mark.parametrize("aggregation", UNORDERED)
@given(logits=logits, times=st.integers(1, 4))
def test_windows_that_agree_say_what_one_of_them_says(aggregation: str, logits: Array, times: int) -> None:
    once, often = (by_label(read(np.repeat(logits[:1], n, axis=0), aggregation)[0]) for n in (1, times))
    assert once == pytest.approx(often, abs=2e-6)
