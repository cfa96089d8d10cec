"""What a model's inputs and outputs are as tensors of the Open Inference Protocol, read from its native models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic_core import to_json

from service.protocols.common import Model
from service.tasks.classification import Classification
from service.tasks.question_answering import QuestionAnswer
from service.types import Answer

TEXT, JSONS = "str", "hg_jsonlist"
"""Content types of BYTES: a text an element, or a JSON text an element."""
SCALARS = {"string": "BYTES", "integer": "INT64", "number": "FP64", "boolean": "BOOL"}


class Field(NamedTuple):
    """A field of the native request as an input. `content` is the content type of BYTES."""

    datatype: str
    content: str | None
    required: bool


class Output(NamedTuple):
    """A tensor of the answer: `of` takes an element out of a native answer, or `width` elements."""

    datatype: str
    of: Callable[[Answer], Any]
    width: int | None = None
    parameters: dict[str, Any] = {}
    default: bool = True


def fields(model: Model) -> dict[str, Field]:
    """The inputs of a model, the first text first."""
    schema = model.task.Input.model_json_schema()
    found: dict[str, Field] = {}
    for name, info in schema["properties"].items():
        kinds = {one.get("type") for one in info.get("anyOf", [info])} - {"null"}
        datatype = SCALARS.get(kinds.pop() or "") if len(kinds) == 1 else None
        content = None if datatype not in (None, "BYTES") else JSONS if datatype is None else TEXT
        found[name] = Field(datatype or "BYTES", content, name in schema.get("required", ()))
    del found["timeout_ms"]  # the protocol has its own
    if issubclass(model.task.Output, Classification):
        del found["top_k"]  # `probs` has every class
    return dict(sorted(found.items(), key=lambda one: (not one[1].required, one[0] != "text")))


def outputs(model: Model) -> dict[str, Output]:
    whole = Output("BYTES", lambda a: to_json(a).decode(), parameters={"content_type": JSONS})
    if issubclass(model.task.Output, QuestionAnswer):
        null: dict[str, Any] = {"text": "", "start": -1, "end": -1}

        def best(name: str) -> Callable[[Answer], Any]:
            return lambda a: (a["answer"] or null | {"score": a["null_score"] or 0.0})[name]

        own = {
            "answer": Output("BYTES", best("text")),
            "score": Output("FP32", best("score")),
            "start": Output("INT64", best("start")),
            "end": Output("INT64", best("end")),
        }
    elif issubclass(model.task.Output, Classification):
        own = _classes(model)
    else:
        return {"output": whole}
    return own | {"output": whole._replace(default=False)}


def _classes(model: Model) -> dict[str, Output]:
    labels, mode = model.manifest.labels, model.params.output

    def probabilities(answer: Answer) -> list[float]:
        scores = {s["label"]: s["score"] for s in answer["scores"]}
        return [scores.get(label, 0.0) for label in labels]  # another version may lack one

    label = Output("BYTES", lambda a: a["label"])
    value = Output("FP32", lambda a: a["value"])
    probs = Output("FP32", probabilities, len(labels), {"labels": labels})
    if mode == "regression":
        return {"value": value} | ({"label": label} if getattr(model.params, "binary_labels", None) else {})
    if mode == "sigmoid":
        several = Output("BYTES", lambda a: to_json(a["labels"]).decode(), parameters={"content_type": JSONS})
        return {"labels": several, "probs": probs}
    return {"label": label, "probs": probs} | ({"value": value} if getattr(model.params, "class_values", None) else {})


def metadata(model: Model) -> dict[str, Any]:
    ins = [
        {"name": name, "datatype": f.datatype, "shape": [-1]}
        | {"parameters": {"optional": not f.required} | ({"content_type": f.content} if f.content else {})}
        for name, f in fields(model).items()
    ]
    outs = [
        {"name": name, "datatype": o.datatype, "shape": [-1] if o.width is None else [-1, o.width]}
        | ({"parameters": o.parameters} if o.parameters else {})
        for name, o in outputs(model).items()
    ]
    return {
        "name": model.name,
        "versions": model.versions,
        "platform": "onnxruntime_onnx",
        "inputs": ins,
        "outputs": outs,
    }
