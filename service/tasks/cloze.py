"""Idioms for the blanks of passages: one row a blank and candidate, and no candidate twice among all blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, field_validator

from service.bundle import Bundle, Strict
from service.errors import BundleError, InvalidItem
from service.tasks.base import Encoded, Head, Item, Reading, Text
from service.tasks.chunks import in_chunks
from service.tasks.encoder import refuse_overflow
from service.text import Offsets
from service.types import Answer, Array, Outputs, Row, Run, Timing, rounded, softmax


class Params(Strict):
    """`blank_pattern` finds blanks in a passage. The blank in question is read as `blank_token`, the others as
    `other_blank_tokens`. `choice_tokens`: room that is kept for a candidate, whatever its length; the rest of the row
    is the passage on both sides of the blank. `replace`: what a passage is rewritten by, in order, between its blanks.
    `assignment`: a candidate goes to one blank of the request, the highest score first, or to any."""

    blank_pattern: str
    blank_token: str
    other_blank_tokens: list[str]
    choice_tokens: Annotated[int, Field(ge=1)]
    max_choices: Annotated[int, Field(ge=2)]
    max_blanks: Annotated[int, Field(ge=1)]
    replace: dict[Annotated[str, Field(min_length=1)], str] = {}
    assignment: Literal["one-to-one", "independent"] = "one-to-one"

    @field_validator("blank_pattern")
    @classmethod
    def _finds_something(cls, pattern: str) -> str:
        try:
            empty = re.compile(pattern).search("")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        if empty:
            raise ValueError("finds blanks where there is nothing")
        return pattern


class ClozeItem(Item):
    passages: Annotated[list[Text], Field(min_length=1, fail_fast=True)]
    candidates: Annotated[list[Text], Field(fail_fast=True)]


class Filled(BaseModel):
    blank: str = Field(description="the blank as it stands in the passage")
    passage: int = Field(description="index into `passages`")
    start: int
    end: int = Field(description="exclusive")
    choice: int = Field(description="index into `candidates`")
    text: str = Field(description="the candidate")
    scores: list[float] = Field(
        description="probability of each candidate for this blank alone, in the request's order"
    )


class Cloze(Reading):
    blanks: list[Filled] = Field(description="every blank, in order of passages and places in them")


class _Blank(NamedTuple):
    passage: int
    start: int
    end: int
    before: int
    """Blanks before this one in its passage."""


class ClozeTask(Head):
    family = "cloze"
    Input = ClozeItem
    Output = Cloze
    Params = Params
    outputs = ("logits",)
    text_fields = ("passages", "candidates")

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        p: Params = self.params
        found = {token: self.encoder.find(token) for token in (p.blank_token, *p.other_blank_tokens)}
        if absent := [token for token, token_id in found.items() if token_id is None]:
            raise BundleError(f"{bundle.folder}: the tokenizer has no {', '.join(absent)}")
        self._pattern = re.compile(p.blank_pattern)
        self._blank = self.encoder.token_id(p.blank_token)
        self._others = [self.encoder.token_id(token) for token in p.other_blank_tokens]
        self._room = self.encoder.max_length - self.encoder.fixed - 1
        if p.choice_tokens >= self._room:
            raise BundleError(f"{bundle.folder}: max_length leaves no passage beside {p.choice_tokens} choice_tokens")

    def check(self, item: ClozeItem) -> None:
        p: Params = self.params
        if not 2 <= len(item.candidates) <= p.max_choices:
            raise InvalidItem(f"give 2 to {p.max_choices} candidates, not {len(item.candidates)}", field="candidates")
        super().check(item)
        count = sum(1 for _ in self._blanks(item))
        if not 1 <= count <= p.max_blanks:
            raise InvalidItem(f"give 1 to {p.max_blanks} blanks, not {count}", field="passages")

    def _blanks(self, item: ClozeItem) -> Iterator[_Blank]:
        for passage, text in enumerate(item.passages):
            for before, found in enumerate(self._pattern.finditer(text)):
                yield _Blank(passage, found.start(), found.end(), before)

    def weight(self, item: ClozeItem) -> int:
        length = sum(len(item.passages[blank.passage]) for blank in self._blanks(item))
        return length * len(item.candidates)

    def limit(self, item: ClozeItem) -> float:
        return float(self.encoder.max_length * len(item.candidates) * sum(1 for _ in self._blanks(item)))

    def predict(self, items: Sequence[Any], run: Run, timings: Sequence[Timing]) -> list[Answer | Exception]:
        return super().predict(items, in_chunks(run), timings)

    def encode(self, item: ClozeItem) -> Encoded:
        choices = [self._choice(text, f"candidates.{i}") for i, text in enumerate(item.candidates)]
        pieces = [self._pieces(text) for text in item.passages]
        rows: list[Row] = []
        truncated = False
        blanks = list(self._blanks(item))
        for blank in blanks:
            for choice in choices:
                room = min(self._room - self.params.choice_tokens, self._room - len(choice))
                left, right, cut = self._around(pieces[blank.passage], blank.before, room)
                row, _ = self.encoder.row({"choice": choice, "passage": [*left, self._blank, *right]})
                # The graph has an axis of choices; a row is one choice, so that rows of all callers mix.
                rows.append({name: array[None, :] for name, array in row.items()})
                truncated |= cut
        return Encoded(rows, truncated, blanks)

    def _choice(self, text: str, field: str) -> list[int]:
        ids = self.encoder.tokenize(self.encoder.normalize(text).text, field).ids
        if len(ids) >= self._room:
            raise refuse_overflow(field, len(ids), self._room - 1)
        return ids

    def _pieces(self, text: str) -> list[list[int]]:
        """Ids of what stands between the blanks of a passage: one more than there are blanks."""
        pieces = []
        start = 0
        for end, behind in [*((m.start(), m.end()) for m in self._pattern.finditer(text)), (len(text), 0)]:
            part = self.encoder.normalize(text[start:end]).text
            for old, new in self.params.replace.items():
                part = part.replace(old, new)
            pieces.append(self.encoder.fragment(part))
            start = behind
        return pieces

    def _around(self, pieces: Sequence[list[int]], blank: int, room: int) -> tuple[list[int], list[int], bool]:
        """Up to `room` ids on both sides of a blank, half of them on the left unless a side has fewer; was any cut?

        As in the official script, another blank counts as one while the window is laid; it is then written out, and
        each side is cut at its far end to the length that it was laid with. A passage that fits is read whole: there
        the script cuts as well, and for a blank near its end loses the beginning to a negative index.
        """
        other = -1
        left = [i for piece in pieces[:blank] for i in (*piece, other)] + pieces[blank]
        right = pieces[blank + 1] + [i for piece in pieces[blank + 2 :] for i in (other, *piece)]
        first, last = self._written(left), self._written(right)
        if len(first) + len(last) <= room:
            return first, last, False
        half = room // 2
        before = len(left) if len(left) <= half else min(len(left), max(half, room - len(right)))
        behind = min(room - before, len(right))
        first, last = self._written(left[len(left) - before :]), self._written(right[:behind])
        return first[len(first) - before :], last[:behind], True

    def _written(self, ids: list[int]) -> list[int]:
        return [j for i in ids for j in (self._others if i < 0 else (i,))]

    def decode(self, item: ClozeItem, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        logits = np.array([out["logits"][0] for out in outputs], dtype=np.float64).reshape(-1, len(item.candidates))
        chosen = assign(logits) if self.params.assignment == "one-to-one" else logits.argmax(axis=1).tolist()
        offsets = [Offsets(text, item.offset_unit) for text in item.passages]
        blanks = [
            {
                "blank": item.passages[blank.passage][blank.start : blank.end],
                "passage": blank.passage,
                "start": offsets[blank.passage].outward(blank.start),
                "end": offsets[blank.passage].outward(blank.end),
                "choice": choice,
                "text": item.candidates[choice],
                "scores": [rounded(p) for p in scores],
            }
            for blank, choice, scores in zip(encoded.context, chosen, softmax(logits), strict=True)
        ]
        return {"blanks": blanks, "truncated": encoded.truncated, "tokens": encoded.tokens}


def assign(scores: Array) -> list[int]:
    """A candidate for each blank of `scores` [blanks, candidates]: the highest score first, each candidate once.

    Of equal scores the earlier candidate's comes first, then the earlier blank's. If there are more blanks than
    candidates, all candidates are free again for the blanks that are left over.
    """
    blanks, candidates = scores.shape
    order = np.argsort(-scores.T, axis=None, kind="stable")
    chosen: dict[int, int] = {}
    while len(chosen) < blanks:
        free = set(range(candidates))
        for candidate, blank in zip(*(a.tolist() for a in np.unravel_index(order, (candidates, blanks))), strict=True):
            if blank not in chosen and candidate in free:
                chosen[blank] = candidate
                free.remove(candidate)
    return [chosen[blank] for blank in range(blanks)]
