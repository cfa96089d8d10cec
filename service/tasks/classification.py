"""What the classification families share: parameters, requests, and reading one row of logits."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, PrivateAttr, model_validator

from service.bundle import Bundle, Strict
from service.errors import BundleError
from service.tasks.base import Encoded, Head, Item, Overflow, Reading
from service.tasks.encoder import refuse_overflow
from service.types import Answer, Array, Outputs, Run, Timing, rounded, sigmoid, softmax


class Params(Strict):
    """How logits are read: softmax over classes, sigmoid each, or a plain number."""

    output: Literal["softmax", "sigmoid", "regression"]
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    score_range: tuple[float, float] | None = None
    binary_threshold: float | None = None
    binary_labels: tuple[str, str] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Params:
        if (self.output == "regression") != (self.score_range is not None):
            raise ValueError("score_range belongs to regression, and regression needs it")
        if (self.binary_threshold is None) != (self.binary_labels is None):
            raise ValueError("binary_threshold and binary_labels go together")
        return self


class TextParams(Params):
    """`alignment`: texts are read in pieces of the tokenizer, or by one look-up a character."""

    alignment: Literal["token", "char"] = "token"


class ClassificationItem(Item):
    top_k: (
        Annotated[int, Field(ge=1, description="how many of the classes to list in `scores`; all if absent")] | None
    ) = None
    on_overflow: Overflow = "truncate"
    _logits: bool = PrivateAttr(False)

    def with_logits(self) -> Self:
        """Have the answer hold `logits`, unrounded, by label. No request can ask for it: it is for protocols whose
        clients choose the function that makes scores of them."""
        self._logits = True
        return self


class LabelScore(BaseModel):
    label: str
    score: float


class Classification(Reading):
    """Fields that the bundle's output mode does not use are null or empty, so that the shape never changes."""

    label: str | None = Field(description="the most probable class; for regression the side of the binary threshold")
    score: float | None = Field(description="probability of `label`")
    scores: list[LabelScore] = Field(description="classes with probabilities, best first")
    labels: list[LabelScore] = Field(description="multi-label bundles: every class past the threshold")
    value: float | None = Field(description="regression bundles: the model's raw value, never squashed or clipped")


class ClassificationTask(Head):
    """One row an item; the last field of the template carries the longest text."""

    Output = Classification
    Params: ClassVar[type[Params]] = TextParams
    outputs = ("logits",)

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        classes = bundle.graph.outputs["logits"][-1]
        expected = 1 if self.params.output == "regression" else len(self.manifest.labels)
        if isinstance(classes, int) and classes != expected:
            raise BundleError(f"{bundle.folder}: the graph has {classes} classes, the bundle names {expected}")

    def predict(self, items: Sequence[Any], run: Run, timings: Sequence[Timing]) -> list[Answer | Exception]:
        # A pipeline asks about one text with each of hundreds of others, or about each pair of its spans.
        reader = copy(self)
        reader.encoder = self.encoder.remembering()
        return super(ClassificationTask, reader).predict(items, run, timings)

    def encode(self, item: Any) -> Encoded:
        fields = {name: self._ids(getattr(item, name), name) for name in self.encoder.fields}
        row, truncated = self.encoder.truncated_row(fields)
        if truncated and item.on_overflow == "error":
            longest = max(fields, key=lambda name: len(fields[name]))
            raise refuse_overflow(longest, sum(map(len, fields.values())), self.encoder.max_length - self.encoder.fixed)
        return Encoded([row], truncated)

    def _ids(self, text: str, field: str) -> list[int]:
        normal = self.encoder.normalize(text).text
        if self.params.alignment == "char":
            return self.encoder.characters(normal).ids
        return self.encoder.tokenize(normal, field).ids

    def decode(self, item: Any, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        logits = outputs[0]["logits"]
        answer = read(self.params, self.manifest.labels, logits, item.top_k)
        answer |= {"truncated": encoded.truncated, "tokens": encoded.tokens}
        by_label = zip(self.manifest.labels, logits.tolist(), strict=False)  # a regression has none
        return answer | {"logits": dict(by_label)} if item._logits else answer


def read(params: Params, labels: Sequence[str], logits: Array, top_k: int | None) -> Answer:
    """Answer fields from the logits `[classes]` of one row."""
    answer: Answer = {"label": None, "score": None, "scores": [], "labels": [], "value": None}
    if params.output == "regression":
        value = float(logits[0])
        answer["value"] = rounded(value)
        if params.binary_labels is not None and params.binary_threshold is not None:
            answer["label"] = params.binary_labels[value >= params.binary_threshold]
        return answer
    probabilities = sigmoid(logits) if params.output == "sigmoid" else softmax(logits)
    # A stable sort: of equal classes the earlier one wins, as argmax does.
    order = np.argsort(-probabilities, kind="stable")
    ranked = [{"label": labels[i], "score": rounded(probabilities[i])} for i in order]
    answer["scores"] = ranked[:top_k]
    if params.output == "sigmoid":
        answer["labels"] = [r for r, i in zip(ranked, order, strict=True) if probabilities[i] >= params.threshold]
    else:
        answer["label"], answer["score"] = ranked[0]["label"], ranked[0]["score"]
    return answer
