"""Entities that may lie within each other: every span of a text scored by itself, or starts and ends paired up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from service.bundle import Bundle
from service.errors import BundleError
from service.tasks.base import Encoded, Reading
from service.tasks.chunks import in_chunks
from service.tasks.windowed import Context, Windowed, WindowedItem, WindowParams
from service.text import Offsets, owners
from service.types import Answer, Array, Outputs, Run, Timing, rounded, sigmoid


class Params(WindowParams):
    """`form`: the graph scores every span in a `matrix` (global pointer), or tokens as `ends` of spans.
    `threshold`: a logit; a span of the matrix is above it, a start or an end reaches it. A span of the matrix that is
    longer than `stride` is found only where it lies within one window."""

    form: Literal["matrix", "ends"]
    threshold: float = 0.0
    alignment: Literal["token", "char"]


class NestedEntity(BaseModel):
    type: str
    text: str = Field(description="the caller's text from `start` to `end`")
    start: int
    end: int = Field(description="exclusive")
    score: float = Field(description="probability of the span, or the mean of its start's and its end's")


class NestedEntities(Reading):
    entities: list[NestedEntity] = Field(
        description="in order of their starts, of equal ones the longer first; they may overlap"
    )


class Found(NamedTuple):
    """A span in tokens, both ends inclusive; `kind` is the index of its type."""

    first: int
    last: int
    kind: int
    score: float


class SpanClassification(Windowed):
    family = "span-classification"
    Input = WindowedItem
    Output = NestedEntities
    Params = Params
    outputs = ()

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        names = ("scores",) if self.params.form == "matrix" else ("start", "end")
        for name in names:
            axes = bundle.graph.outputs.get(name)
            if axes is None:
                raise BundleError(f"{bundle.folder}: form {self.params.form} reads a graph output {name!r}")
            kinds = axes[0 if self.params.form == "matrix" else -1]
            if isinstance(kinds, int) and kinds != len(self.manifest.labels):
                raise BundleError(
                    f"{bundle.folder}: the graph has {kinds} types, the bundle names {len(self.manifest.labels)}"
                )

    def predict(self, items: Sequence[Any], run: Run, timings: Sequence[Timing]) -> list[Answer | Exception]:
        return super().predict(items, in_chunks(run, self.sparse), timings)

    def sparse(self, outputs: Outputs) -> Outputs:
        """Of a matrix `scores` [types, T, T] only the spans above the threshold: `spans` [N, 3] and `logits` [N]."""
        if self.params.form == "ends":
            return outputs
        where = np.argwhere(outputs["scores"] > self.params.threshold)
        return {"spans": where, "logits": outputs["scores"][tuple(where.T)]}

    def decode(self, item: WindowedItem, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        c: Context = encoded.context
        # Lone word marks and white space stand for no character: no entity begins or ends with them.
        real = [
            ids != self.encoder.word_mark_id and start < end
            for ids, (start, end) in zip(c.tokens.ids, c.tokens.spans, strict=True)
        ]
        found = self._matrix(c, outputs, real) if self.params.form == "matrix" else self._ends(c, outputs, real)
        best: dict[tuple[int, int, int], float] = {}
        for first, last, kind, score in found:
            if item.threshold is None or score >= item.threshold:
                place = (*c.text.span(c.tokens.spans[first][0], c.tokens.spans[last][1]), kind)
                best[place] = max(score, best.get(place, 0.0))  # tokens of one grapheme are one place in the text
        offsets = Offsets(item.text, item.offset_unit)
        entities = [
            {
                "type": self.manifest.labels[kind],
                "text": item.text[start:end],
                "start": offsets.outward(start),
                "end": offsets.outward(end),
                "score": rounded(best[start, end, kind]),
            }
            for start, end, kind in sorted(best, key=lambda place: (place[0], -place[1], place[2]))
        ]
        return {"entities": entities, "truncated": encoded.truncated, "tokens": encoded.tokens}

    def _matrix(self, c: Context, outputs: Sequence[Outputs], real: Sequence[bool]) -> Iterable[Found]:
        """Spans above the threshold; each belongs to the window that owns its middle, so that none is found twice."""
        for out, (begin, end), (mine, others) in zip(outputs, c.windows, owners(c.windows), strict=True):
            scores = sigmoid(out["logits"])
            for (kind, i, j), score in zip(out["spans"].tolist(), scores.tolist(), strict=True):
                first, last = begin + i - c.at, begin + j - c.at
                within = begin <= first <= last < end and mine <= (first + last) // 2 < others
                if within and real[first] and real[last]:
                    yield Found(first, last, kind, score)

    def _ends(self, c: Context, outputs: Sequence[Outputs], real: Sequence[bool]) -> Iterable[Found]:
        """Starts and ends of all windows, paired as if they were one text."""
        start, end = (
            np.concatenate(
                [
                    out[name][c.at + a - begin : c.at + b - begin]
                    for out, (begin, _), (a, b) in zip(outputs, c.windows, owners(c.windows), strict=True)
                ]
            )
            for name in ("start", "end")
        )
        places = np.flatnonzero(real[: len(start)])
        for kind in range(start.shape[1]):
            starts, ends = start[places, kind], end[places, kind]
            for i, j in pair(starts >= self.params.threshold, ends >= self.params.threshold):
                score = float(sigmoid(np.array([starts[i], ends[j]])).mean())
                yield Found(int(places[i]), int(places[j]), kind, score)


def pair(starts: Array, ends: Array) -> list[tuple[int, int]]:
    """Each start with the nearest end from it on, before the next start; by itself if there is none (CMeIE's rule)."""
    firsts = np.flatnonzero(starts)
    lasts = np.flatnonzero(ends)
    found = []
    for i, first in enumerate(firsts.tolist()):
        behind = firsts[i + 1] if i + 1 < len(firsts) else len(starts)
        nearest = np.searchsorted(lasts, first)
        has = nearest < len(lasts) and lasts[nearest] < behind
        found.append((first, int(lasts[nearest]) if has else first))
    return found
