"""The gate of every export: the graph against torch over many shapes, and the decoded answers of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError

from exporters.errors import ExportError
from exporters.heads import Model
from service.errors import InvalidItem
from service.graph.session import Session
from service.loading import difference
from service.tasks.base import Task
from service.types import Answer, Outputs, Row, Run, Timing

BATCHES = (1, 2, 3, 17)
# Values that heads put where nothing can be, such as spans that end before they start.
MASKED = 1e4
# Largest difference of a logit, in parts of the row's largest where that is above 1. int8 is made of a graph that
# passed as fp32, and is held by its answers (see gate).
LIMITS = {"fp32": 1e-4, "fp16": 5e-2, "fp16-packed": 5e-2}
# One chosen id in so many may differ.
TIES = 1000
# Largest difference of a score in a decoded answer.
TOLERANCES = {"fp32": 1e-3, "fp16": 2e-2, "fp16-packed": 2e-2, "int8": 2e-1}


@dataclass(frozen=True)
class Parity:
    """What was compared, and the largest differences found."""

    shapes: int
    logit_delta: float
    largest_logit: float
    score_delta: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "shapes": self.shapes,
            "max_logit_delta": self.logit_delta,
            "largest_logit": self.largest_logit,
            "max_score_delta": self.score_delta,
        }


def lengths(limit: int) -> list[int]:
    """Row lengths that are tried: the shortest, the longest, and some between."""
    return sorted({n for n in (1, 2, 3, 8, 33, limit // 2, limit - 1, limit) if 0 < n <= limit})


def chained(runs: Mapping[str, Run]) -> Run:
    """The trained models of a pipeline as one `Run`."""

    def run(rows: Sequence[Row], *, stage: str) -> list[Outputs]:
        return runs[stage](rows)

    return run


def torch_run(model: Any, outputs: Sequence[str], session_inputs: Sequence[str]) -> Run:
    """The trained model as a `Run`: every row alone, unpadded, in float32."""

    def run(rows: Sequence[Row]) -> list[Outputs]:
        answers = []
        for row in rows:
            with torch.no_grad():
                result = model(**{name: torch.from_numpy(row[name])[None] for name in session_inputs})
            answers.append({name: result[name][0].numpy() for name in outputs})
        return answers

    return run


def parity(
    model: Any, session: Session, limit: int, vocabulary: int, pad: int, precision: str
) -> tuple[int, float, float]:
    """Compare logits over batches x lengths with ragged masks. Returns shapes, largest difference, largest logit.

    ExportError if a value is not finite or differs by more than the precision allows.
    """
    rng = np.random.default_rng(0)
    reference = torch_run(model, list(session.outputs), list(session.inputs))
    worst = largest = 0.0
    shapes = chosen = others = 0
    for batch in BATCHES:
        for longest in lengths(limit):
            sizes = [longest, *rng.integers(1, longest + 1, batch - 1)]
            rows = [_row(model, session, int(n), vocabulary, pad, rng) for n in sizes]
            together = session.run_together(rows)
            # The longest row by itself says all of its length; the padded ones say what padding does.
            for row, got in list(zip(rows, together, strict=True))[: 1 if longest > 128 and batch > 3 else None]:
                (want,) = reference([row])
                for name, expected in want.items():
                    if not np.isfinite(got[name]).all():
                        raise ExportError(f"{name} is not finite at batch {batch}, length {longest}")
                    # An axis that no input has (words and the root) keeps its padding.
                    answer = got[name][tuple(map(slice, expected.shape))]
                    if expected.dtype.kind == "i":  # ids that the graph itself chose
                        chosen, others = chosen + expected.size, others + int((answer != expected).sum())
                        continue
                    real = np.abs(expected[np.abs(expected) < MASKED])
                    scale = max(1.0, float(real.max(initial=0.0)))
                    worst = max(worst, float(np.abs(answer - expected).max()) / scale)
                    largest = max(largest, float(real.max(initial=0.0)))
            shapes += 1
            if worst > LIMITS[precision]:
                at = f"batch {batch}, length {longest}"
                raise ExportError(f"logits differ from torch by {worst:.2g} at {at}; at most {LIMITS[precision]:g}")
    # Of two ids that are as good, either may be chosen; that is rare.
    if precision == "fp32" and others > chosen / TIES:
        raise ExportError(f"the graph chose {others} of {chosen} ids otherwise than torch; at most one in {TIES}")
    return shapes, worst, largest


def _row(model: Any, session: Session, length: int, vocabulary: int, pad: int, rng: np.random.Generator) -> Row:
    ids = rng.integers(0, vocabulary, length)
    ids[ids == pad] = (pad + 1) % vocabulary
    # Second halves are segment B, so that an input that is not wired up shows.
    values = {
        "input_ids": ids,
        "attention_mask": np.ones(length, np.int64),
        "token_type_ids": (np.arange(length) > length // 2).astype(np.int64),
    }
    if isinstance(model, Model):
        values |= model.head.sample(length, rng)
        return {name: values[name] for name in session.inputs}
    rank = len(next(iter(session.inputs.values())))
    return {name: values[name].reshape((1,) * (rank - 1) + (-1,)) for name in session.inputs}


def answers(task: Task, run: Run, items: Sequence[dict[str, Any]]) -> list[Answer]:
    """Decoded answers of raw request items; ExportError if one cannot be answered."""
    out = []
    for i, raw in enumerate(items):
        try:
            item = task.Input.model_validate(raw)
            task.check(item)
        except (ValidationError, InvalidItem) as error:
            raise ExportError(f"the suite's example {i} is not a request: {error}") from error
        (result,) = task.predict([item], run, [Timing()])
        if isinstance(result, Exception):
            raise ExportError(f"the suite's example {i} cannot be answered: {result}")
        out.append(result)
    return out


def compare(expected: Sequence[Answer], got: Sequence[Answer], precision: str) -> float:
    """The largest difference of a score; ExportError if answers differ in anything but scores within tolerance."""
    for i, (e, g) in enumerate(zip(expected, got, strict=True)):
        if problem := difference(e, g, TOLERANCES[precision]):
            raise ExportError(f"{precision} changes the answer to example {i}: {problem}")
    return max(
        (abs(a - b) for e, g in zip(expected, got, strict=True) for a, b in zip(_floats(e), _floats(g), strict=True)),
        default=0.0,
    )


def _floats(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [f for v in value.values() for f in _floats(v)]
    if isinstance(value, list):
        return [f for v in value for f in _floats(v)]
    return [value] if isinstance(value, float) else []
