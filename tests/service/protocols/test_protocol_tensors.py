"""Tensors of Open Inference Protocol v2: what is written is read again, and no bytes are more than refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import ServiceError
from service.protocols.tensors import NUMBERS, InputTensor, Written, elements, respond

DATATYPES = ["BYTES", *NUMBERS, "FP16", ""]
texts = st.lists(st.text(st.characters(codec="utf-8"), max_size=9), min_size=1, max_size=5)
MOST = 1000


def tensor(datatype: str, shape: list[int], data: list[Any] | None = None) -> InputTensor:
    return InputTensor(name="text", datatype=datatype, shape=shape, data=data)


def blob_of(datatype: str, values: list[Any]) -> memoryview:
    """The bytes of a tensor as an answer has them."""
    written = Written("text", datatype, [len(values)], values, {}, True)
    response = respond({}, [written], {})
    return memoryview(bytes(response.body))[int(response.headers["inference-header-content-length"]) :]


@given(texts)
def test_texts_come_back_from_bytes_and_from_json(values: list[str]) -> None:
    n = len(values)
    assert elements(tensor("BYTES", [n]), blob_of("BYTES", values), "x", MOST) == values
    assert elements(tensor("BYTES", [n, 1], [[value] for value in values]), None, "x", MOST) == values


@pytest.mark.parametrize("datatype", [name for name in NUMBERS if "INT" in name])
def read(tensor: InputTensor, blob: bytes) -> list[Any] | ServiceError:
    """The elements, or why there are none; anything else that is raised is a fault."""
    try:
        return elements(tensor, memoryview(blob), "x", MOST)
    except ServiceError as error:
        return error


@given(st.sampled_from(DATATYPES), st.lists(st.integers(0, 3), max_size=3), st.binary(max_size=24))
def test_no_bytes_are_more_than_refused(datatype: str, shape: list[int], blob: bytes) -> None:
    found = read(tensor(datatype, shape), blob)
    assert found.status in (400, 422) if isinstance(found, ServiceError) else len(found) == shape[0]


@given(st.integers(0, 12) | st.integers(0, 2**32 - 1), st.binary(max_size=8))
def test_a_length_that_is_not_there_is_never_believed(size: int, rest: bytes) -> None:
    found = read(tensor("BYTES", [1]), struct.pack("<I", size) + rest)
    if isinstance(found, ServiceError):
        assert found.reason == "invalid_tensor"
    else:
        assert [text.encode() for text in found] == [rest]
        assert len(rest) == size
