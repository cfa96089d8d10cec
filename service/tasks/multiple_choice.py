"""Which of several choices fits a context: one row a choice, a softmax over the choices of one item only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from service.bundle import Bundle, Strict
from service.errors import InvalidItem
from service.tasks.base import Encoded, Head, Item, Overflow, Reading, Text
from service.tasks.encoder import refuse_overflow
from service.types import Answer, Outputs, Row, rounded, softmax


class Params(Strict):
    """`max_choices`: as many as the model was trained to tell apart."""

    max_choices: Annotated[int, Field(ge=2)]


class ChoiceItem(Item):
    context: Text
    question: Text = Field("", description="left out where the bundle's template has no question")
    choices: Annotated[list[Text], Field(fail_fast=True)]
    on_overflow: Overflow = "truncate"


class ChoiceScore(BaseModel):
    choice: int = Field(description="index into `choices`")
    text: str
    score: float


class Choice(Reading):
    choice: int = Field(description="index of the best choice")
    text: str
    score: float
    scores: list[ChoiceScore] = Field(description="every choice, in the request's order; scores sum to 1")


class MultipleChoice(Head):
    family = "multiple-choice"
    Input = ChoiceItem
    Output = Choice
    Params = Params
    outputs = ("logits",)

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self._asks = "question" in self.encoder.fields
        self.text_fields = ("context", "question", "choices") if self._asks else ("context", "choices")  # type: ignore[misc]

    def check(self, item: ChoiceItem) -> None:
        limit = self.params.max_choices
        if not 2 <= len(item.choices) <= limit:
            raise InvalidItem(f"give 2 to {limit} choices, not {len(item.choices)}", field="choices")
        if item.question and not self._asks:
            raise InvalidItem("this model takes no question", field="question")
        super().check(item)

    def weight(self, item: ChoiceItem) -> int:
        shared = len(item.context) + len(item.question)
        return sum(shared + len(choice) for choice in item.choices)

    def limit(self, item: ChoiceItem) -> float:
        return float(self.manifest.max_length * len(item.choices))

    def encode(self, item: ChoiceItem) -> Encoded:
        shared = {n: self._ids(getattr(item, n), n) for n in self.encoder.fields if n != "choice"}
        rows: list[Row] = []
        truncated = False
        for i, choice in enumerate(item.choices):
            fields = shared | {"choice": self._ids(choice, f"choices.{i}")}
            row, cut = self.encoder.truncated_row(fields)
            if cut and item.on_overflow == "error":
                raise refuse_overflow(
                    "context", sum(map(len, fields.values())), self.encoder.max_length - self.encoder.fixed
                )
            # The graph has an axis of choices; a row is one choice, so that rows of all callers mix.
            rows.append({name: array[None, :] for name, array in row.items()})
            truncated |= cut
        return Encoded(rows, truncated)

    def _ids(self, text: str, path: str) -> list[int]:
        return self.encoder.tokenize(self.encoder.normalize(text).text, path).ids

    def decode(self, item: ChoiceItem, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        probabilities = softmax(np.array([float(out["logits"][0]) for out in outputs]))
        scores: list[dict[str, Any]] = [
            {"choice": i, "text": text, "score": rounded(p)}
            for i, (text, p) in enumerate(zip(item.choices, probabilities, strict=True))
        ]
        best = scores[int(probabilities.argmax())]
        return {**best, "scores": scores, "truncated": encoded.truncated, "tokens": encoded.tokens}
