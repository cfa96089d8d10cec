"""What a short request would grow to is refused before it has grown."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from booth import Booth, Reply

MOST = 6_000_000
"""Bytes of memory that a request of at most 100 KB may take."""


def measured(booth: Booth, path: str, body: Any) -> tuple[Reply, int]:
    tracemalloc.start()
    try:
        return booth.post(path, body), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def zero_shot(inputs: Any, labels: Any, template: str = "{}") -> dict[str, Any]:
    return {"inputs": inputs, "parameters": {"candidate_labels": labels, "hypothesis_template": template}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (zero_shot("네", ["b" * 40_000], "{}" * 1000), "parameters.candidate_labels.0: the text has more than 2000"),
        (zero_shot("네", ["a", "b" * 1999], "is {}"), "parameters.candidate_labels.1: the text has more than 2000"),
        (zero_shot(["네"] * 40, ["a"] * 2000), "parameters.candidate_labels: 2000 items; at most 40"),
        (zero_shot(["네"] * 40, "a," * 2000 + "a"), "parameters.candidate_labels: 2001 items; at most 40"),
        (zero_shot(["네"] * 8, ["a"] * 6), "inputs: 48 items; at most 40"),
        (zero_shot(["네"] * 10_000, ["a"] * 40), "inputs: 10000 items; at most 40"),
    ],
    ids=["label", "one too long", "labels", "labels in one", "items by labels", "items"],
)
def test_hypotheses_are_counted_before_they_are_written(booth: Booth, body: Any, message: str) -> None:
    """A label in a template of many places made 4 GB, many labels for many texts 400,000,000 items."""
    booth.post("/models/nli", zero_shot("네", ["a"]))  # pays for what is made once
    reply, peak = measured(booth, "/models/nli", body)
    assert reply.status == 422
    assert reply.json["error"].startswith(message)
    assert peak < MOST


def test_a_hypothesis_as_long_as_a_text_may_be(booth: Booth) -> None:
    reply = booth.post("/models/nli", zero_shot("네", ["b" * 999], "{}{}ab"))
    assert reply.status == 200, reply.body


def test_hypotheses_take_no_more_together_than_a_body_could_hold(booth_of: Callable[..., Booth]) -> None:
    small = booth_of("nli", max_body_bytes=20_000, max_text_chars=2000)
    assert small.post("/models/nli", zero_shot("네", ["a"] * 10, "{}" + "b" * 1990)).status == 200
    reply = small.post("/models/nli", zero_shot("네", ["a"] * 11, "{}" + "b" * 1990))
    assert (reply.status, reply.json["error_type"]) == (422, "batch_too_large")
    assert reply.json["error"].startswith("parameters.hypothesis_template: ")


def test_no_more_elements_are_taken_out_than_the_shape_says(booth: Booth) -> None:
    for data in (["네"] * 30_000, [["네"]] * 30_000):
        tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": data}
        reply = booth.post("/v2/models/topic/infer", {"inputs": [tensor]})
        assert reply.error == (400, "inputs.text: the shape says 1 elements, there are more")
    binary = {"name": "text", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 400_000}}
    head = json.dumps({"inputs": [binary]}).encode()
    length = {"inference_header_content_length": str(len(head))}
    reply = booth.post("/v2/models/topic/infer", head + bytes(400_000), **length)
    assert reply.error == (400, "inputs.text: the shape says 1 elements, there are more")


def test_numbers_of_more_digits_than_python_reads_or_writes(booth: Booth) -> None:
    """Of 4301 digits and more it refuses to: a 500."""
    agent = f"hf_hub/{'1' * 4301}.1.1"
    assert booth.post("/models/topic", {"inputs": "네"}, user_agent=agent).status == 200
    sized = {"datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 10**4299 * 9}}
    reply = booth.post("/v2/models/topic/infer", {"inputs": [{"name": name} | sized for name in ("text", "a")]})
    assert reply.status == 400, reply.body
    assert "binary_data_size" in reply.json["error"]
    tensor = {"name": "text", "datatype": "BYTES", "data": ["네"]}
    for shape in ([10**4299, 1], [10**4299, 10]):
        assert booth.post("/v2/models/topic/infer", {"inputs": [tensor | {"shape": shape}]}).status in (400, 422)
