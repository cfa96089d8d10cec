"""Triples of one graph (GPLinker): it scores spans, and which first and which last tokens each relation joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from service.bundle import Bundle
from service.errors import BundleError
from service.tasks import triple_extraction
from service.tasks.base import Encoded
from service.tasks.chunks import in_chunks
from service.tasks.triple_extraction import Found, Span, Triples, by_label, listed
from service.tasks.windowed import Context, Windowed, WindowedItem, WindowParams
from service.types import Answer, Outputs, Run, Timing, sigmoid

ROWS = 1
"""Rows of one run: with 53 relations the scores of one of 256 tokens are 28 MB, and several at once are no faster."""


class Params(triple_extraction.Params, WindowParams):
    """`max_spans`: of more subjects or more objects in one window only the most probable ones are read."""

    max_spans: Annotated[int, Field(ge=1)]


class JointTripleExtraction(Windowed):
    """Every score is a logit that holds above 0: `entity` [2,T,T] of subjects and objects by first and last token,
    `head` and `tail` [R,T,T] of the first and the last tokens that a relation joins.

    A window's triples are read whole wherever they lie, and those that two windows share are one. But a span at the
    edge of a window may be the half of a longer one, which the neighbour sees: it does not count.
    """

    family = "triple-extraction"
    Input = WindowedItem
    Output = Triples
    Params = Params
    outputs = ("entity", "head", "tail")

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        labels, rows = self.manifest.labels, by_label(self.params, bundle.folder)
        if rows.keys() != set(labels):
            strange = sorted(rows.keys() ^ set(labels))
            raise BundleError(f"{bundle.folder}: labels and decoder.relations differ in {', '.join(strange)}")
        self._relations = [rows[label] for label in labels]
        for name in ("head", "tail"):
            count = bundle.graph.outputs[name][0]
            if isinstance(count, int) and count != len(labels):
                raise BundleError(f"{bundle.folder}: {name} has {count} relations, the bundle names {len(labels)}")

    def predict(self, items: Sequence[Any], run: Run, timings: Sequence[Timing]) -> list[Answer | Exception]:
        return super().predict(items, in_chunks(run, self.sparse, ROWS), timings)

    def sparse(self, outputs: Outputs) -> Outputs:
        """What holds in one row: `triples` [N,5] of relation and first and last token of subject and object, their
        least `logits` [N], and whether some spans were left out, `cut` [1]."""
        entity = outputs["entity"]
        spans, cut = [], False
        for scores in entity:
            where = np.argwhere(scores > 0)
            if len(where) > self.params.max_spans:
                best = np.argsort(-scores[tuple(where.T)], kind="stable")[: self.params.max_spans]
                where, cut = where[np.sort(best)], True
            spans.append(where)
        subjects, objects = spans
        joined = np.minimum(
            outputs["head"][:, subjects[:, :1], objects[:, 0]], outputs["tail"][:, subjects[:, 1:], objects[:, 1]]
        )
        relation, s, o = np.nonzero(joined > 0)
        subject, object_ = subjects[s], objects[o]
        logits = np.minimum.reduce([joined[relation, s, o], entity[0][tuple(subject.T)], entity[1][tuple(object_.T)]])
        triples = np.concatenate([relation[:, None], subject, object_], axis=1)
        return {"triples": triples, "logits": logits, "cut": np.array([cut])}

    def decode(self, item: WindowedItem, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        found = [one for index, out in enumerate(outputs) for one in self._found(encoded.context, index, out)]
        truncated = encoded.truncated or any(bool(out["cut"][0]) for out in outputs)
        return {"triples": listed(item, found), "truncated": truncated, "tokens": encoded.tokens}

    def _found(self, c: Context, index: int, out: Outputs) -> Iterator[Found]:
        begin, end = c.windows[index]
        # Without the tokens at an edge that has a neighbour.
        lowest, highest = begin + (index > 0), end - (index + 1 < len(c.windows))
        tokens = out["triples"][:, 1:] + (begin - c.at)
        within = ((tokens >= lowest) & (tokens < highest)).all(axis=1)
        scores = sigmoid(out["logits"])
        for i in np.flatnonzero(within).tolist():
            subject, object_ = (self._span(c, *map(int, ends)) for ends in (tokens[i, :2], tokens[i, 2:]))
            if subject is not None and object_ is not None:
                yield Found(subject, object_, self._relations[out["triples"][i, 0]], float(scores[i]))

    def _span(self, c: Context, first: int, last: int) -> Span | None:
        """The characters of a span of tokens; None if it ends before it starts or stands for none."""
        start, end = c.tokens.spans[first][0], c.tokens.spans[last][1]
        return Span(*c.text.span(start, end)) if first <= last and start < end else None
