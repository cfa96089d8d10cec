"""Whatever is sent, it is the sender's fault: no request of any protocol is answered with 500 or more."""

from __future__ import annotations

import json
import struct
from typing import Any

from booth import Booth
from hypothesis import given, settings
from hypothesis import strategies as st

TEXTS = [b"\xec\x84\x9c\xec\x9a\xb8", b"a b"]
BLOB = b"".join(struct.pack("<I", len(text)) + text for text in TEXTS)
HEAD: dict[str, Any] = {
    "inputs": [{"name": "text", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": len(BLOB)}}],
    "parameters": {"binary_data_output": True},
}
WORDS = (
    st.sampled_from(["text", "text_pair", "inputs", "parameters", "outputs", "name", "shape", "data", "datatype"])
    | st.sampled_from(["query", "texts", "truncate", "raw_scores", "top_k", "candidate_labels", "timeout", "words"])
    | st.sampled_from(["label", "probs", "output", "tags", "threshold", "question", "context", "binary_data_size"])
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | WORDS
JSONS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=12
)
PATHS = ["/models/{}", "/v2/models/{}/infer", "/tei/{}/predict", "/tei/{}/rerank"]


@settings(max_examples=150)
@given(
    edits=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 6),
    length=st.none() | st.integers(-2, 400).map(str) | st.text(max_size=4).filter(lambda t: t.isascii()),
)
def test_a_binary_request_whose_bytes_are_changed(
    booth: Booth, edits: list[tuple[int, int]], cut: int, length: str | None
) -> None:
    start = json.dumps(HEAD).encode()
    body = bytearray(start + BLOB)
    for at, value in edits:
        body[at % len(body)] = value
    said = str(len(start)) if length is None else length
    path = "/v2/models/topic/infer"
    reply = booth.post(path, bytes(body[: len(body) - cut]), inference_header_content_length=said)
    assert reply.status < 500, reply.body


@settings(max_examples=150)
@given(path=st.sampled_from(PATHS), name=st.sampled_from(["topic", "nli", "ner", "reading", "tree"]), body=JSONS)
def test_json_of_any_shape(booth: Booth, path: str, name: str, body: Any) -> None:
    assert booth.post(path.format(name), body).status < 500


@settings(max_examples=150)
@given(path=st.sampled_from(PATHS), inputs=JSONS, parameters=st.dictionaries(WORDS, JSONS, max_size=3))
def test_inputs_and_parameters_of_any_shape(booth: Booth, path: str, inputs: Any, parameters: Any) -> None:
    body = {"inputs": inputs} | ({"parameters": parameters} if path != "/tei/{}/predict" else parameters)
    assert booth.post(path.format("nli"), body).status < 500


@settings(max_examples=100)
@given(
    field=WORDS, datatype=st.sampled_from(["BYTES", "INT64", "BOOL", "FP32", "FP16"]), data=JSONS, n=st.integers(0, 3)
)
def test_tensors_of_any_shape(booth: Booth, field: str, datatype: str, data: Any, n: int) -> None:
    for name in ("tree", "reading"):
        first = {"name": "text" if name == "tree" else "question", "datatype": "BYTES", "shape": [1], "data": ["a"]}
        other = {"name": field, "datatype": datatype, "shape": [n], "data": data}
        assert booth.post(f"/v2/models/{name}/infer", {"inputs": [first, other]}).status < 500
