"""The relation of two marked spans of one text: relation extraction, pronoun resolution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from service.bundle import Bundle, Strict
from service.errors import BundleError, InvalidItem
from service.tasks import classification
from service.tasks.base import Encoded, Text
from service.tasks.classification import ClassificationItem, ClassificationTask
from service.tasks.encoder import refuse_overflow
from service.text import Normalized, Offsets

WORD_MARK = "▁"


class Span(BaseModel):
    """Part of the text; `end` is exclusive."""

    model_config = ConfigDict(extra="forbid", strict=True)

    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=1)]
    type: str | None = Field(None, description="entity type, for bundles whose markers name it")


class Markers(Strict):
    subject: tuple[str, str]
    object: tuple[str, str]


class Params(classification.Params):
    """`marker_tokens`: markers are vocabulary entries of their own (else they are plain characters of the text).
    `attach_particle`: a Hangul piece right after a closing marker continues the marked word (KLUE's rule)."""

    markers: Markers
    marker_tokens: bool
    attach_particle: bool = False


class SpanPairItem(ClassificationItem):
    text: Text
    subject: Span
    object: Span


class _Mark(NamedTuple):
    """A marker to insert before character `at` of the normalised text. Sorts in order of insertion."""

    at: int
    opens: bool
    inner: int
    rank: bool
    role: str
    text: str


class _Marked(NamedTuple):
    """Tokens of the marked text; the part `[first, last)` that must be read; where each role's opening marker is."""

    ids: list[int]
    first: int
    last: int
    opens: dict[str, int]


class SpanPairClassification(ClassificationTask):
    """A graph with an input `marker_pos` gets the positions of both opening markers in the row, the subject's first."""

    family = "span-pair-classification"
    Input = SpanPairItem
    Params = Params

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        m: Markers = self.params.markers
        self._positions = "marker_pos" in bundle.graph.inputs
        if self._positions and not self.params.marker_tokens:
            raise BundleError(f"{bundle.folder}: the graph reads the states of markers, which are no tokens here")
        if self.params.marker_tokens:
            lost = [t for t in (*m.subject, *m.object) if "{type}" not in t and self.encoder.find(t) is None]
            if lost:
                raise BundleError(f"{bundle.folder}: markers {lost} are not in the tokenizer's vocabulary")

    def check(self, item: SpanPairItem) -> None:
        super().check(item)
        self._spans(item)

    def _spans(self, item: SpanPairItem) -> dict[str, tuple[int, int]]:
        """Both spans in code points; InvalidItem if one is outside the text, empty, or splits a character."""
        offsets = Offsets(item.text, item.offset_unit)
        found = {}
        for role, span in (("subject", item.subject), ("object", item.object)):
            start, end = offsets.inward(span.start), offsets.inward(span.end)
            for name, value in (("start", start), ("end", end)):
                if value is None or value > len(item.text):
                    raise InvalidItem(
                        "the offset is outside the text or inside a character",
                        field=f"{role}.{name}",
                        code="invalid_span",
                    )
            if start is None or end is None or start >= end or not item.text[start:end].strip():
                raise InvalidItem("the span is empty", field=role, code="invalid_span")
            found[role] = (start, end)
        return found

    def encode(self, item: SpanPairItem) -> Encoded:
        text = self.encoder.normalize(item.text)
        marks = self._marks(item, text)
        marked = (self._with_tokens if self.params.marker_tokens else self._with_text)(text.text, marks)
        room = self.encoder.max_length - self.encoder.fixed
        if marked.last - marked.first > room:
            raise InvalidItem(
                f"the two spans lie {marked.last - marked.first} tokens apart, the model reads {room}",
                field="text",
                code="text_too_long",
            )
        if len(marked.ids) > room and item.on_overflow == "error":
            raise refuse_overflow("text", len(marked.ids), room)
        # Cut on the right as in training, but never an entity: then the window moves just far enough.
        start = max(0, marked.last - room)
        row, at = self.encoder.row({"text": marked.ids[start : start + room]})
        if self._positions:
            opens = (marked.opens["subject"], marked.opens["object"])
            row["marker_pos"] = np.array(opens, dtype=np.int64) - start + at["text"]
        return Encoded([row], truncated=len(marked.ids) > room)

    def _marks(self, item: SpanPairItem, text: Normalized) -> list[_Mark]:
        marks = []
        for role, (start, end) in self._spans(item).items():
            opening, closing = getattr(self.params.markers, role)
            kind = getattr(item, role).type
            if "{type}" in opening and kind is None:
                raise InvalidItem("this model needs the entity's type", field=f"{role}.type")
            a, b = text.position(start), text.position(end)
            if a >= b:
                raise InvalidItem("the span holds no characters that the model knows", field=role, code="invalid_span")
            marks.append(_Mark(a, True, -b, role == "subject", role, opening.replace("{type}", kind or "")))
            marks.append(_Mark(b, False, -a, role == "object", role, closing.replace("{type}", kind or "")))
        # At one place markers close before others open, and spans nest: the longer opens first and closes last.
        return sorted(marks)

    def _with_tokens(self, text: str, marks: list[_Mark]) -> _Marked:
        ids: list[int] = []
        places: list[tuple[int, _Mark]] = []
        for fragment, mark in _fragments(text, marks):
            pieces = self.encoder.fragment(fragment)
            if ids and pieces and self.params.attach_particle and places and not places[-1][1].opens:
                pieces = self._attached(fragment, pieces)
            ids.extend(pieces)
            if mark is not None:
                marker = self.encoder.find(mark.text)
                if marker is None:
                    raise InvalidItem(f"the model has no marker {mark.text}", field=f"{mark.role}.type")
                places.append((len(ids), mark))
                ids.append(marker)
        opens = {mark.role: place for place, mark in places if mark.opens}
        return _Marked(ids, places[0][0], places[-1][0] + 1, opens)

    def _attached(self, fragment: str, pieces: list[int]) -> list[int]:
        """Pieces of a particle as the continuation of the word before the marker."""
        if not "가" <= fragment[0] <= "힣":
            return pieces
        first = self.encoder.token(pieces[0])
        if pieces[0] == self.encoder.word_mark_id:
            return pieces[1:]
        joined = first[1:] if first.startswith(WORD_MARK) else f"##{first}"
        return [self.encoder.token_id(joined), *pieces[1:]]

    def _with_text(self, text: str, marks: list[_Mark]) -> _Marked:
        marked = "".join(fragment + (mark.text if mark else "") for fragment, mark in _fragments(text, marks))
        grown = sum(len(m.text) for m in marks)
        begin, stop = marks[0].at, marks[-1].at + grown
        tokens = self.encoder.tokenize(marked, "text")
        inside = [i for i, (a, b) in enumerate(tokens.spans) if a < stop and b > begin]
        return _Marked(tokens.ids, inside[0], inside[-1] + 1, {})


def _fragments(text: str, marks: list[_Mark]) -> Iterator[tuple[str, _Mark | None]]:
    """The text between markers, each with the marker that follows it."""
    at = 0
    for mark in marks:
        yield text[at : mark.at], mark
        at = mark.at
    yield text[at:], None
