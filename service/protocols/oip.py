"""Open Inference Protocol v2, as KServe's, Triton's and MLServer's clients speak it: health, metadata, infer.

An input is a field of the native request by its name, one element an item; what is neither text nor number is JSON
text. Request parameters may set the scalar fields of all items. Outputs are those of `outputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pydantic_core import from_json
from starlette.responses import Response

from service import __version__
from service.batching.runner import Result
from service.edge.endpoints import timing_headers
from service.edge.http import JSON, Asked, Endpoint, Style, json_response
from service.errors import InvalidItem, NotFound, NotReady, ServiceError, UnsupportedMedia
from service.protocols import tensors
from service.protocols.common import (
    Ask,
    Model,
    Place,
    Reader,
    Writer,
    models,
    spelled,
    together,
    unsupported,
)
from service.protocols.described import answered, named
from service.protocols.signature import JSONS, Field, Output, fields, metadata, outputs
from service.protocols.tensors import Request, Written, malformed
from service.server import Server

ALIASES = ("args", "array_inputs", "input-0")
"""What generic clients call the first input."""


def reader(model: Model, version: str | None = None) -> Reader:
    """Reads requests for a model, or for one version of it."""
    inputs = fields(model)
    options = {name for name, field in inputs.items() if field.content != JSONS}

    async def read(asked: Asked) -> tuple[Sequence[Ask], Writer]:
        if (encoding := asked.header("content-encoding") or "identity") != "identity":
            raise UnsupportedMedia(f"send the body as it is, not as {encoding[:20]}")
        if version is not None and model.versions != [version]:
            raise NotFound(f"{model.name} is answered by {' and '.join(model.versions)}, not by {version} alone")
        request, blobs = await tensors.read(asked)
        known = outputs(model)
        tensors.only(request.parameters, {"timeout", "binary_data_output", *options}, "parameters")
        shared = {name: value for name, value in request.parameters.items() if name in options}
        if (timeout := _timeout(request, model)) is not None:
            shared["timeout_ms"] = timeout
        wanted = _wanted(request, known)
        columns = _columns(request, blobs, inputs, model.server.settings.max_batch_items)
        counts = {len(column) for _, column in columns.values()}
        if len(counts) > 1:
            raise malformed(f"inputs of {' and '.join(map(str, sorted(counts)))} elements", "inputs")
        asks = []
        for i in range(counts.pop()):
            places = {name: f"parameters.{name}" for name in shared}
            places |= {name: f"inputs.{called}.{i}" for name, (called, _) in columns.items()}
            item = shared | {name: column[i] for name, (_, column) in columns.items()}
            asks.append(model.ask(item, Place("inputs", places)))

        def write(results: Sequence[Result]) -> Response:
            timing = together(results)
            head = {"model_name": model.name, "model_version": timing.version or model.versions[0]}
            if request.id is not None:
                head["id"] = request.id
            written = [_written(name, known[name], binary, results) for name, binary in wanted.items()]
            return tensors.respond(head, written, timing_headers(timing))

        return asks, write

    return read


def _timeout(request: Request, model: Model) -> int | None:
    """Milliseconds of the `timeout` in microseconds; 0 is none, as for Triton."""
    timeout = request.parameters.get("timeout", 0)
    if type(timeout) is not int or timeout < 0:
        raise InvalidItem("not a number of microseconds", field="parameters.timeout", code="invalid_value")
    return min(-(-timeout // 1000), model.server.settings.timeout_ms, 600_000) if timeout else None


def _wanted(request: Request, known: dict[str, Output]) -> dict[str, bool]:
    """Names of outputs, and whether each is wanted in binary."""
    binary = tensors.flag(request.parameters, "binary_data_output", False, "parameters")
    if not request.outputs:
        return {name: binary for name, output in known.items() if output.default}
    wanted: dict[str, bool] = {}
    for i, output in enumerate(request.outputs):
        if output.name not in known or output.name in wanted:
            raise InvalidItem(f"ask once for any of {', '.join(known)}", field=f"outputs.{i}.name")
        path = f"outputs.{i}.parameters"
        tensors.only(output.parameters, {"binary_data"}, path)
        wanted[output.name] = tensors.flag(output.parameters, "binary_data", binary, path)
    return wanted


def _columns(
    request: Request, blobs: Sequence[memoryview | None], inputs: dict[str, Field], most: int
) -> dict[str, tuple[str, list[Any]]]:
    """By native field: what the caller calls it, and its elements."""
    columns: dict[str, tuple[str, list[Any]]] = {}
    for i, (tensor, blob) in enumerate(zip(request.inputs, blobs, strict=True)):
        name = next(iter(inputs)) if tensor.name in ALIASES else tensor.name
        if name not in inputs or name in columns:
            raise InvalidItem(f"give once any of {', '.join(inputs)}", field=f"inputs.{i}.name")
        field, path = inputs[name], f"inputs.{tensor.name}"
        tensors.only(tensor.parameters, {"binary_data_size", "content_type"}, f"{path}.parameters")
        if tensor.parameters.get("content_type") not in (None, field.content):
            raise unsupported(f"{path}.parameters.content_type", f"this input has {field.content or 'none'}")
        if tensor.datatype.removeprefix("U")[:2] != field.datatype[:2]:  # of any width
            raise malformed(f"the datatype is {field.datatype}, not {tensor.datatype[:20]}", path)
        found = tensors.elements(tensor, blob, path, most)
        if field.content == JSONS:
            found = [_json(text, f"{path}.{k}") for k, text in enumerate(found)]
        columns[name] = (tensor.name, found)
    return columns


def _json(text: str, path: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        raise malformed("the element is not JSON", path) from None


def _written(name: str, output: Output, binary: bool, results: Sequence[Result]) -> Written:
    values = [output.of(result.answer) for result in results]
    if output.width is None:
        return Written(name, output.datatype, [len(values)], values, output.parameters, binary)
    flat = [one for row in values for one in row]
    return Written(name, output.datatype, [len(values), output.width], flat, output.parameters, binary)


def routes(server: Server) -> dict[str, dict[str, Endpoint]]:
    about = {"name": "clueserve", "version": __version__, "extensions": ["binary_tensor_data"]}
    found = {
        "/v2": _get(lambda: about),
        "/v2/health/live": _get(lambda: {"live": True}),
        "/v2/health/ready": _get(lambda: {"ready": True}, server.ready),
    }
    for model in models(server):
        for version in (None, *_versions(model)):
            base = f"/v2/models/{model.name}" + (f"/versions/{version}" if version else "")
            found[base] = _get(partial(metadata, model))
            found[f"{base}/ready"] = _get(partial(dict, name=model.name, ready=True), partial(_ready, model, version))
            infer = model.handler(reader(model, version))
            found[f"{base}/infer"] = {"POST": Endpoint(infer, (JSON, tensors.BINARY))}
    return found


def _versions(model: Model) -> list[str]:
    """Those that were wanted when the server was started: they have paths of their own."""
    board = model.server.board
    return [e.version for e in board.desired().models[model.name].versions] if board else model.versions


def _ready(model: Model, version: str | None) -> None:
    model.ready()
    if version is not None and version not in model.versions:
        raise NotReady(f"{model.name} is answered by {' and '.join(model.versions)}")


def _get(content: Callable[[], Any], ready: Callable[[], None] = lambda: None) -> dict[str, Endpoint]:
    """`content`, unless something is not `ready`."""

    async def handle(_: Asked) -> Response:
        ready()
        return json_response(content())

    return {"GET": Endpoint(handle)}


def style(error: ServiceError) -> Response:
    return json_response({"error": spelled(error)}, error.status, error.headers())


STYLES: dict[str, Style] = {"v2": style}


def paths(server: Server) -> dict[str, Any]:
    """For OpenAPI: the JSON form. Tensors may as well follow it in binary."""
    example = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["..."]}]}
    found: dict[str, Any] = {"/v2": {"get": answered("the server")}}
    found |= {f"/v2/health/{kind}": {"get": answered(f"whether the server is {kind}")} for kind in ("live", "ready")}
    for version, more in (("", ()), ("/versions/{version}", ("version",))):
        base, of = f"/v2/models/{{model}}{version}", named(server, "path", *more)
        found[base] = {"get": answered("inputs and outputs of a model", of)}
        found[f"{base}/ready"] = {"get": answered("whether a model is ready", of)}
        found[f"{base}/infer"] = {"post": answered("Open Inference Protocol v2", of, Request, example)}
    return found
