"""The gate of a lossy precision: on a benchmark's own records, does it still say what the float32 graph says?

One rule, for every bundle: no metric of the suite may fall by more than SCORE_LOSS points, and LABELS_EQUAL percent of
the labels must stay. What a label is depends on what the model decides, see `labels`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from exporters.errors import ExportError
from exporters.verify import MASKED
from service.errors import ServiceError
from service.tasks.base import Task
from service.types import Answer, Outputs, Row, Run, Timing
from suites import Suite

if TYPE_CHECKING:  # benchmarks reads official files; nothing else here needs it
    from benchmarks.records import Record

SCORE_LOSS = 0.5
LABELS_EQUAL = 99.5

LISTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("words", ("index", "head", "relation")),
    ("blanks", ("blank", "passage", "start", "choice")),
    ("entities", ("type", "start", "end")),
    ("triples", ("subject", "predicate", "object")),
)
"""Answers that are lists: of every member these fields are decisions, its score is not."""


def labels(answer: Answer) -> list[Hashable]:
    """What an answer decides, piece by piece, without scores.

    The tag of every character where a model tags; head and relation of every word; every filled blank, entity, triple
    and slot; else one piece a request: the class, the set of classes, the choice, the span or that there is
    none, the terms, a value to one decimal.
    """
    if answer.get("tags"):
        return list(enumerate(answer["tags"]))
    for name, fields in LISTS:
        if name in answer:
            return [tuple(str(member[field]) for field in fields) for member in answer[name]]
    if "state" in answer:
        return sorted(answer["state"].items())
    return [_whole(answer)]


def _whole(answer: Answer) -> Hashable:
    if "answer" in answer:
        span = answer["answer"]
        return span and (span["start"], span["end"])
    if "terms" in answer:
        return tuple((term["name"], term["code"]) for term in answer["terms"])
    if "choice" in answer:
        return int(answer["choice"])
    if answer.get("label") is None and answer.get("value") is not None:
        return round(float(answer["value"]), 1)
    return (answer.get("label"), *sorted(member["label"] for member in answer.get("labels", ())))


@dataclass(frozen=True)
class Fidelity:
    """What a lossy graph made of records, beside the float32 graph. Shares and scores are in percent."""

    records: int
    labels: int
    labels_equal: float
    records_equal: float
    scores: dict[str, tuple[float, float]]
    """By metric: the float32 graph's, and this one's."""
    logit_change: float
    """Largest difference of a logit. NaN for a pipeline: its later stages are asked other things."""

    @property
    def complaints(self) -> list[str]:
        """Why it does not pass; empty if it does."""
        lost = [
            f"{metric} falls from {before:.2f} to {after:.2f}"
            for metric, (before, after) in self.scores.items()
            if before - after > SCORE_LOSS
        ]
        changed = [f"{self.labels_equal:.2f} % of {self.labels} labels stay, {LABELS_EQUAL:g} % must"]
        return lost + (changed if self.labels_equal < LABELS_EQUAL else [])

    def as_dict(self) -> dict[str, Any]:
        found = {name: _rounded(value) for name, value in asdict(self).items()}
        return found | {"scores": {name: [_rounded(v) for v in pair] for name, pair in self.scores.items()}}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3) if np.isfinite(value) else None
    return value


class Watched:
    """A `Run` that keeps what was made of the rows it was given."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.outputs: list[Outputs] = []

    def __call__(self, rows: Sequence[Row], *, stage: str | None = None) -> list[Outputs]:
        outputs = self._run(rows) if stage is None else self._run(rows, stage=stage)
        self.outputs += outputs
        return outputs


def answers(task: Task, run: Run, records: Iterable[Record]) -> list[Answer]:
    """The answer to every record by itself; `{}` to one that the service refuses, which counts as wrong."""
    asked = {"tags": True} if "tags" in task.Input.model_fields else {}
    out: list[Answer] = []
    for record in records:
        try:
            item = task.Input.model_validate(record.item | asked)
            task.check(item)
            (result,) = task.predict([item], run, [Timing()])
        except (ValidationError, ServiceError):
            result = {}
        if isinstance(result, Exception) and not isinstance(result, ServiceError):
            raise ExportError(f"record {record.id} cannot be answered: {result}") from result
        out.append({} if isinstance(result, Exception) else result)
    return out


def compare(
    records: Sequence[Record],
    suite: Suite,
    before: tuple[Sequence[Answer], Sequence[Outputs]],
    after: tuple[Sequence[Answer], Sequence[Outputs]],
) -> Fidelity:
    """Answers and outputs of the float32 graph and of another one to the same records."""
    from benchmarks.metrics import METRICS

    pieces = [(Counter(labels(b)), Counter(labels(a))) for b, a in zip(before[0], after[0], strict=True)]
    totals = [max(b.total(), a.total(), 1) for b, a in pieces]
    # Nothing found, and nothing found again: one decision that stayed.
    stayed = [(b & a).total() if b or a else 1 for b, a in pieces]
    whole = sum(b == a for b, a in pieces)
    scores = {m: tuple(METRICS[m](records, a, suite) for a in (before[0], after[0])) for m in suite.metrics}
    return Fidelity(
        len(records),
        sum(totals),
        100 * sum(stayed) / sum(totals),
        100 * whole / len(records),
        {name: (b, a) for name, (b, a) in scores.items()},
        float("nan") if suite.stages else _logit_change(before[1], after[1]),
    )


def _logit_change(before: Sequence[Outputs], after: Sequence[Outputs]) -> float:
    """ExportError if an output is not finite."""
    worst = 0.0
    for expected, got in zip(before, after, strict=True):
        for name, value in expected.items():
            if not np.isfinite(got[name]).all():
                raise ExportError(f"{name} is not finite")
            if value.dtype.kind == "f":
                real = np.abs(value) < MASKED
                worst = max(worst, float(np.abs(got[name] - value)[real].max(initial=0.0)))
    return worst
