"""From the logits of many windows to the classes of one document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from service.bundle import Strict
from service.errors import BundleError
from service.types import Answer, Array, rounded, sigmoid, softmax


class Params(Strict):
    """`output`: one of several classes (`softmax`), any number of them (`sigmoid`), one of several in an order
    (`ordinal`), or a number (`regression`). `aggregation`: the mean of the windows' logits or of their probabilities,
    their `max`, `max_mean` (ClinicalBERT: `(max + sum / c) / (1 + n / c)` of n windows), the `first` or the `last`
    window alone; all class by class, so that `max` and `max_mean` need not sum to 1. `temperature` divides logits.
    `thresholds`: by label, of multi-label classes; `threshold` for the others. `class_values`: what an ordinal class
    stands for; the answer's value is their `mean` under the probabilities, or that of the best class (`mode`)."""

    output: Literal["softmax", "sigmoid", "ordinal", "regression"]
    aggregation: Literal["mean_logit", "mean_probability", "max", "max_mean", "first", "last"]
    c: Annotated[float, Field(gt=0)] | None = None
    temperature: Annotated[float, Field(gt=0)] = 1.0
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    thresholds: dict[str, Annotated[float, Field(gt=0, lt=1)]] = {}
    class_values: dict[str, float] = {}
    estimate: Literal["mean", "mode"] = "mean"
    score_range: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Params:
        number = self.output == "regression"
        if number != (self.score_range is not None):
            raise ValueError("score_range belongs to regression, and regression needs it")
        if number and (self.aggregation in ("mean_probability", "max_mean") or self.temperature != 1):
            raise ValueError("a regression has no probabilities to aggregate or to calibrate")
        if (self.aggregation == "max_mean") != (self.c is not None):
            raise ValueError("c belongs to max_mean, and max_mean needs it")
        if self.thresholds and self.output != "sigmoid":
            raise ValueError("thresholds belong to sigmoid outputs")
        if self.class_values and self.output != "ordinal":
            raise ValueError("class_values belong to ordinal outputs")
        return self


class Reader:
    """Reads the logits of one document's windows, class order as in `labels`."""

    def __init__(self, params: Params, labels: Sequence[str], folder: Path) -> None:
        self.params = params
        self.labels = labels
        self.classes = 1 if params.output == "regression" else len(labels)
        for name, values in (("thresholds", params.thresholds), ("class_values", params.class_values)):
            if strange := sorted(values.keys() - set(labels)):
                raise BundleError(f"{folder}: decoder.{name} names {', '.join(strange)}, which are no labels")
        if params.class_values and len(params.class_values) < len(labels):
            raise BundleError(f"{folder}: decoder.class_values lacks some of the labels")
        self._limits = np.array([params.thresholds.get(label, params.threshold) for label in labels])
        self._values = np.array([params.class_values[label] for label in labels]) if params.class_values else None

    def read(self, logits: Array, top_k: int | None) -> tuple[Answer, list[Answer]]:
        """Answer fields of the document and of each window, from logits `[windows, classes]`."""
        if self.params.output == "regression":
            values = logits[:, 0].astype(np.float64)
            return self._number(self._together(values)), [self._number(v) for v in values]
        calibrated = logits.astype(np.float64) / self.params.temperature
        each = self._squashed(calibrated)
        if self.params.aggregation == "mean_logit":
            whole = self._squashed(calibrated.mean(axis=0))
        else:
            whole = self._together(each)
        return self._classes(whole, top_k), [self._classes(p, top_k) for p in each]

    def _squashed(self, logits: Array) -> Array:
        return sigmoid(logits) if self.params.output == "sigmoid" else softmax(logits)

    def _together(self, each: Array) -> Any:
        """One value a class, of windows `[windows, ...]`."""
        match self.params.aggregation:
            case "max":
                return each.max(axis=0)
            case "max_mean":
                c = self.params.c or 1.0
                return (each.max(axis=0) + each.sum(axis=0) / c) / (1 + len(each) / c)
            case "first":
                return each[0]
            case "last":
                return each[-1]
            case _:
                return each.mean(axis=0)

    def _number(self, value: float) -> Answer:
        return {"label": None, "score": None, "scores": [], "labels": [], "value": rounded(value)}

    def _classes(self, p: Array, top_k: int | None) -> Answer:
        # A stable sort: of equal classes the earlier one wins, as argmax does.
        order = np.argsort(-p, kind="stable")
        ranked = [{"label": self.labels[i], "score": rounded(p[i])} for i in order]
        answer: Answer = {"label": None, "score": None, "scores": ranked[:top_k], "labels": [], "value": None}
        if self.params.output == "sigmoid":
            answer["labels"] = [r for r, i in zip(ranked, order, strict=True) if p[i] >= self._limits[i]]
            return answer
        answer["label"], answer["score"] = ranked[0]["label"], ranked[0]["score"]
        if self._values is not None:
            mode = self.params.estimate == "mode"
            answer["value"] = rounded(self._values[order[0]] if mode else p @ self._values / p.sum())
        return answer
