"""Tensors of the Open Inference Protocol, in JSON and in its binary extension: read with suspicion, written plainly.

A binary request is its JSON, `Inference-Header-Content-Length` bytes of it, and behind that the bytes of each tensor
that says `binary_data_size`, in order. BYTES elements have their length before them, four bytes, little-endian. Sizes
are compared with what is there before anything is taken out; what does not fit is an InvalidRequest.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.responses import Response

from service.edge.body import parse
from service.edge.http import Asked, json_response
from service.errors import InvalidItem, InvalidRequest
from service.protocols.common import unsupported

NUMBERS = {"BOOL": "?", "FP32": "<f4", "FP64": "<f8"} | {
    f"{sign}INT{bits}": f"<{letter}{bits // 8}" for sign, letter in (("", "i"), ("U", "u")) for bits in (8, 16, 32, 64)
}
"""Datatypes but BYTES, as numpy calls them."""
BINARY = b"application/octet-stream"
HEADER_LENGTH = "Inference-Header-Content-Length"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class InputTensor(Strict):
    name: str
    datatype: str
    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=8, fail_fast=True)]
    parameters: dict[str, Any] = {}
    data: list[Any] | None = Field(None, description="elements, nested as the shape or flat; or else binary")


class OutputTensor(Strict):
    name: str
    parameters: dict[str, Any] = {}


class Request(Strict):
    id: str | None = None
    parameters: dict[str, Any] = {}
    inputs: Annotated[list[InputTensor], Field(min_length=1, fail_fast=True)]
    outputs: Annotated[list[OutputTensor], Field(fail_fast=True)] | None = None


class Written(NamedTuple):
    """One tensor of an answer: `shape` and flat `data`."""

    name: str
    datatype: str
    shape: list[int]
    data: Sequence[Any]
    parameters: dict[str, Any]
    binary: bool


def malformed(message: str, path: str) -> InvalidRequest:
    return InvalidRequest(message, field=path, code="invalid_tensor")


async def read(asked: Asked) -> tuple[Request, list[memoryview | None]]:
    """A request, and the bytes of each of its inputs that came in binary."""
    body, length = asked.body, asked.header(HEADER_LENGTH.lower())
    if length is None:
        return (request := await parse(Request, body)), _blobs(request, memoryview(b""))
    if not (length.isascii() and length.isdigit() and len(length) < 20 and int(length) <= len(body)):
        raise malformed(f"{length[:20]!r} is not the length of a JSON in a body of {len(body)} bytes", HEADER_LENGTH)
    request = await parse(Request, body[: int(length)])
    return request, _blobs(request, memoryview(body)[int(length) :])


def _blobs(request: Request, rest: memoryview) -> list[memoryview | None]:
    sizes = [tensor.parameters.get("binary_data_size") for tensor in request.inputs]
    for i, (tensor, size) in enumerate(zip(request.inputs, sizes, strict=True)):
        path = f"inputs.{i}.parameters.binary_data_size"
        if size is not None and (type(size) is not int or size < 0):
            raise malformed("not a number of bytes", path)
        if size is not None and size > len(rest):  # nor is a sum made of numbers that no body could hold
            raise malformed(f"there are {len(rest)} bytes behind the JSON", path)
        if (tensor.data is None) == (size is None):
            raise malformed("give either data or binary_data_size", f"inputs.{i}")
    declared = sum(size or 0 for size in sizes)
    if declared != len(rest):
        raise malformed(f"the inputs declare {declared} bytes behind the JSON, there are {len(rest)}", "inputs")
    blobs: list[memoryview | None] = []
    at = 0
    for size in sizes:
        blobs.append(None if size is None else rest[at : at + size])
        at += size or 0
    return blobs


def elements(tensor: InputTensor, blob: memoryview | None, path: str, most: int) -> list[Any]:
    """The flat elements of a vector: shape `[n]` or `[n, 1]`, at most `most` of them."""
    count = math.prod(tensor.shape)
    if not tensor.shape or count != tensor.shape[0] or count == 0:
        raise malformed(f"the shape is {tensor.shape}; give [n] or [n, 1], n at least 1", path)
    if count > most:
        raise InvalidItem(f"{count} items; at most {most}", field=path, code="batch_too_large")
    if tensor.datatype != "BYTES" and tensor.datatype not in NUMBERS:
        raise malformed(f"there is no datatype {tensor.datatype[:20]!r}", path)
    if blob is None:
        found = list(islice(_flat(tensor.data), count + 1))
        kinds = _kinds(tensor.datatype)
        if any(type(value) not in kinds for value in found):
            raise malformed(f"an element is not of datatype {tensor.datatype}", path)
    elif tensor.datatype == "BYTES":
        found = list(islice(_strings(blob, path), count + 1))
    else:
        dtype = np.dtype(NUMBERS[tensor.datatype])
        if len(blob) != count * dtype.itemsize:
            raise malformed(f"{len(blob)} bytes are not {count} elements of {dtype.itemsize}", path)
        found = np.frombuffer(blob, dtype).tolist()
    if len(found) != count:
        there = len(found) if len(found) < count else "more"
        raise malformed(f"the shape says {count} elements, there are {there}", path)
    return found


def _kinds(datatype: str) -> set[type]:
    if datatype == "BYTES":
        return {str}
    return {bool} if datatype == "BOOL" else {int} if "INT" in datatype else {int, float}


def _flat(value: Any) -> Iterator[Any]:
    """Elements of nested lists in order; a stack of ours, since a body may be nested deeper than Python's."""
    stack = [iter(value)]
    while stack:
        for one in stack[-1]:
            if isinstance(one, list):
                stack.append(iter(one))
                break
            yield one
        else:
            stack.pop()


def _strings(blob: memoryview, path: str) -> Iterator[str]:
    at = 0
    while at < len(blob):
        if len(blob) - at < 4:
            raise malformed("an element's length is cut off", path)
        (size,) = struct.unpack_from("<I", blob, at)
        at += 4
        if size > len(blob) - at:
            raise malformed(f"an element of {size} bytes in the {len(blob) - at} that are left", path)
        try:
            yield str(blob[at : at + size], "utf-8")
        except UnicodeDecodeError:
            raise malformed("an element is not UTF-8", path) from None
        at += size


def only(parameters: dict[str, Any], known: set[str], path: str) -> None:
    """Refuse parameters that are not among `known`, by name."""
    for name in parameters:
        if name not in known:
            raise unsupported(f"{path}.{name}", "this parameter is not supported")


def flag(parameters: dict[str, Any], name: str, default: bool, path: str) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise InvalidItem("Input should be a boolean", field=f"{path}.{name}", code="invalid_value")
    return value


def respond(head: dict[str, Any], tensors: Sequence[Written], headers: dict[str, str]) -> Response:
    """An answer; if any of its tensors is binary, JSON and bytes in one body."""
    outputs: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    for t in tensors:
        written: dict[str, Any] = {"name": t.name, "datatype": t.datatype, "shape": t.shape}
        parameters = t.parameters
        if t.binary:
            blobs.append(_packed(t))
            parameters = parameters | {"binary_data_size": len(blobs[-1])}
        else:
            written["data"] = list(t.data)
        outputs.append(written | ({"parameters": parameters} if parameters else {}))
    content = head | {"outputs": outputs}
    if not blobs:
        return json_response(content, headers=headers)
    start = to_json(content)
    headers = headers | {HEADER_LENGTH: str(len(start))}
    return Response(b"".join([start, *blobs]), headers=headers, media_type=BINARY.decode())


def _packed(tensor: Written) -> bytes:
    if tensor.datatype != "BYTES":
        return np.array(tensor.data, NUMBERS[tensor.datatype]).tobytes()
    encoded = [text.encode() for text in tensor.data]
    return b"".join(part for text in encoded for part in (struct.pack("<I", len(text)), text))
