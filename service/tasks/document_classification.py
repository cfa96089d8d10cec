"""Classes of a long document or of a series of notes: read in windows, a row each, and answered by all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from service.bundle import Bundle
from service.errors import BundleError, InvalidItem
from service.tasks import aggregation
from service.tasks.base import Encoded, Text
from service.tasks.chunks import in_chunks
from service.tasks.classification import Classification, ClassificationItem, LabelScore
from service.tasks.windowed import Windowed
from service.text import Normalized, Offsets, windows
from service.types import Answer, Outputs, Run, Timing


class Note(BaseModel):
    """One text of a series."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: Text
    time: str | None = Field(None, description="ISO 8601; if every note has one, notes are read in order of time")


class DocumentItem(ClassificationItem):
    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["text"]}, {"required": ["notes"]}]})
    series = "notes"

    text: Text | None = Field(None, description="the document; give this or `notes`")
    notes: Annotated[list[Note], Field(min_length=1, fail_fast=True)] | None = Field(
        None, description="texts of one case, first to last"
    )


class Window(BaseModel):
    """What one row said, and of which part of which note."""

    note: int = Field(description="index into `notes` as they were sent; 0 for `text`")
    start: int
    end: int = Field(description="exclusive")
    scores: list[LabelScore] = Field(description="classes with probabilities, best first; empty for regression")
    value: float | None = Field(description="regression and ordinal bundles: the value of this part alone")


class DocumentClasses(Classification):
    windows: list[Window] = Field(description="every part that was read, in the order in which it was read")


class Params(aggregation.Params):
    """`stride`: tokens that neighbouring windows of a note share. `max_windows`: of more windows only as many are read,
    the `first`, the `last`, or half of them from either end (`keep`)."""

    stride: Annotated[int, Field(ge=0)]
    max_windows: Annotated[int, Field(ge=1)] | None = None
    keep: Literal["first", "last", "head_tail"] = "first"


class _Part(NamedTuple):
    """A window's place: the note's index in the request, and offsets into its text in code points."""

    note: int
    start: int
    end: int


class DocumentClassification(Windowed):
    family = "document-classification"
    Input = DocumentItem
    Output = DocumentClasses
    Params = Params
    outputs = ("logits",)

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self._reader = aggregation.Reader(self.params, self.manifest.labels, bundle.folder)
        classes = bundle.graph.outputs["logits"][-1]
        if isinstance(classes, int) and classes != self._reader.classes:
            raise BundleError(
                f"{bundle.folder}: the graph has {classes} classes, the bundle names {self._reader.classes}"
            )

    def texts(self, item: DocumentItem) -> Iterator[tuple[str, str]]:
        if item.text is not None:
            yield "text", item.text
        for i, note in enumerate(item.notes or []):
            yield f"notes.{i}.text", note.text

    def check(self, item: DocumentItem) -> None:
        if (item.text is None) == (item.notes is None):
            raise InvalidItem("give text or notes, and not both", field="text" if item.notes is None else "notes")
        super().check(item)
        _in_order(item)

    def limit(self, item: DocumentItem) -> float:
        return math.inf if self.params.max_windows is None else self.params.max_windows * self.encoder.max_length

    def predict(self, items: Sequence[Any], run: Run, timings: Sequence[Timing]) -> list[Answer | Exception]:
        return super().predict(items, in_chunks(run), timings)

    def encode(self, item: DocumentItem) -> Encoded:
        texts = [item.text] if item.text is not None else [note.text for note in item.notes or []]
        ids: list[list[int]] = []
        parts: list[_Part] = []
        for note in _in_order(item):
            field = "text" if item.notes is None else f"notes.{note}.text"
            text = self.encoder.normalize(texts[note])
            tokens = self.encoder.tokenize(text.text, field)
            for first, last in windows(len(tokens), self._room, self._room - self.params.stride):
                ids.append(tokens.ids[first:last])
                parts.append(_Part(note, *_place(text, tokens.spans[first:last])))
        kept = self._kept(len(ids))
        if len(kept) < len(ids) and item.on_overflow == "error":
            raise InvalidItem(
                f"the document has {len(ids)} windows, the model reads {len(kept)}",
                field="text" if item.notes is None else "notes",
                code="text_too_long",
            )
        rows = [self.encoder.row({"text": ids[i]})[0] for i in kept]
        return Encoded(rows, len(kept) < len(ids), [parts[i] for i in kept])

    def _kept(self, count: int) -> list[int]:
        """Which of `count` windows are read."""
        most = count if self.params.max_windows is None else min(count, self.params.max_windows)
        head = {"first": most, "last": 0, "head_tail": math.ceil(most / 2)}[self.params.keep]
        return [*range(head), *range(count - most + head, count)]

    def decode(self, item: DocumentItem, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        logits = np.stack([out["logits"] for out in outputs])
        whole, each = self._reader.read(logits, item.top_k)
        units = {part.note: Offsets(self._text(item, part.note), item.offset_unit) for part in encoded.context}
        seen = [
            {
                "note": part.note,
                "start": units[part.note].outward(part.start),
                "end": units[part.note].outward(part.end),
                "scores": alone["scores"],
                "value": alone["value"],
            }
            for part, alone in zip(encoded.context, each, strict=True)
        ]
        return whole | {"windows": seen, "truncated": encoded.truncated, "tokens": encoded.tokens}

    @staticmethod
    def _text(item: DocumentItem, note: int) -> str:
        return item.text if item.text is not None else (item.notes or [])[note].text


def _in_order(item: DocumentItem) -> list[int]:
    """Indices of the notes as they are read: by time if all have one, of equal ones and without times as sent."""
    times = [note.time for note in item.notes or []]
    order = list(range(len(times) or 1))
    if not any(time is not None for time in times):
        return order
    moments: list[datetime] = []
    for i, time in enumerate(times):
        if time is None:
            raise InvalidItem("some notes have a time and this one has none", field=f"notes.{i}.time")
        try:
            moments.append(datetime.fromisoformat(time))
        except ValueError:
            raise InvalidItem("the time is not one of ISO 8601", field=f"notes.{i}.time") from None
        if (moments[i].tzinfo is None) != (moments[0].tzinfo is None):
            raise InvalidItem(
                "some times have an offset from UTC and this one does not, or the reverse", field=f"notes.{i}.time"
            )
    return sorted(order, key=moments.__getitem__)


def _place(text: Normalized, spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Offsets of a window's pieces in the caller's text; those of white space have no extent."""
    real = [span for span in spans if span[0] < span[1]]
    if real:
        return text.span(real[0][0], real[-1][1])
    at = spans[0][0]
    place = text.starts[at] if at < len(text.text) else len(text.original)
    return place, place
