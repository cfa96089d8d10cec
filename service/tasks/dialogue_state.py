"""The state of a dialogue after its last turn: which slots have a value, and the values, generated piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from service.bundle import Bundle, Strict
from service.errors import BundleError, InvalidItem
from service.tasks.base import Encoded, Head, Item, Overflow, Reading, Text
from service.tasks.encoder import refuse_overflow
from service.types import Answer, Outputs, rounded, softmax

FIELDS = ["history", "system", "user"]


class Params(Strict):
    """`gates`: kinds of value a slot may have, in the order of their ids. `empty` is that of no value, and a generated
    value of that name is none either; the value of `generated` is what the model spells; any other gate is a value by
    itself. `replace`: what is mended in a spelled value, in order."""

    gates: list[str]
    empty: str
    generated: str
    replace: dict[str, str] = {}

    @model_validator(mode="after")
    def _known(self) -> Params:
        if self.empty == self.generated or not {self.empty, self.generated} <= set(self.gates):
            raise ValueError("empty and generated must be two of the gates")
        return self


class Turn(BaseModel):
    """What one side says."""

    model_config = ConfigDict(extra="forbid", strict=True)

    role: Literal["user", "sys"]
    text: Text


class DialogueItem(Item):
    turns: Annotated[
        list[Turn],
        Field(
            fail_fast=True,
            description="the whole dialogue in order, the last turn the user's. The state is read from it alone: "
            "nothing is remembered between requests. Turns of one side in a row are read as one. Of a dialogue past "
            "the model's limit the newest words are read",
        ),
    ]
    on_overflow: Overflow = "truncate"


class Slot(BaseModel):
    slot: str
    value: str
    score: float = Field(description="probability of the slot's gate: that there is such a kind of value")


class DialogueState(Reading):
    state: dict[str, str] = Field(
        description="value of each filled `domain-slot`. Values are generated text: mostly words of the dialogue, "
        "but no slices of it, and without offsets"
    )
    slots: list[Slot] = Field(description="the same in the order of the bundle's slots, with scores")


class DialogueStateTracking(Head):
    family = "dialogue-state"
    Input = DialogueItem
    Output = DialogueState
    Params = Params
    outputs = ("gate_logits", "gen_ids")

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        expected = [len(self.manifest.labels), len(self.params.gates)]
        if bundle.graph.outputs["gate_logits"] != expected:
            raise BundleError(
                f"{bundle.folder}: the graph's slots and gates are {bundle.graph.outputs['gate_logits']}, the bundle "
                f"names {expected}"
            )
        self._separator = self._between(bundle)
        self._stops = {*bundle.tokenizer.special_ids, bundle.tokenizer.unk_id}

    def _between(self, bundle: Bundle) -> int:
        """The token that the template puts between the fields, and history between its turns."""
        fields = [part.field for part in self.encoder.template]
        inner = self.encoder.template[fields.index(FIELDS[0]) :][:5] if self.encoder.fields == FIELDS else []
        separators = {part.id for part in inner if part.id is not None}
        if [part.field for part in inner[::2]] != FIELDS or len(separators) != 1:
            raise BundleError(f"{bundle.folder}: the template must be {' <sep> '.join(f'{{{f}}}' for f in FIELDS)}")
        (separator,) = separators
        return separator

    def texts(self, item: DialogueItem) -> Iterator[tuple[str, str]]:
        return ((f"turns.{i}.text", turn.text) for i, turn in enumerate(item.turns))

    def check(self, item: DialogueItem) -> None:
        if not item.turns:
            raise InvalidItem("the dialogue has no turns", field="turns", code="empty_text")
        if item.turns[-1].role != "user":
            raise InvalidItem("the last turn must be the user's", field=f"turns.{len(item.turns) - 1}.role")
        super().check(item)

    def encode(self, item: DialogueItem) -> Encoded:
        said: list[tuple[str, list[int]]] = [("sys", [])]
        for (path, text), turn in zip(self.texts(item), item.turns, strict=True):
            if said[-1][0] != turn.role:
                said.append((turn.role, []))
            said[-1][1].extend(self.encoder.tokenize(self.encoder.normalize(text).text, path).ids)
        # From here on the system and the user speak in turn, the system first; what it says there may be nothing.
        pieces = [ids for _, ids in said]
        history: list[int] = []
        for system, user in zip(pieces[:-2:2], pieces[1:-2:2], strict=True):
            history += [*([self._separator] if history else []), *system, self._separator, *user]
        fields = dict(zip(FIELDS, (history, *pieces[-2:]), strict=True))
        row, truncated = self.encoder.truncated_row(fields)
        if truncated and item.on_overflow == "error":
            room = self.encoder.max_length - self.encoder.fixed
            raise refuse_overflow("turns", sum(map(len, fields.values())), room)
        return Encoded([row], truncated)

    def decode(self, item: DialogueItem, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        p: Params = self.params
        found: list[dict[str, Any]] = []
        probabilities = softmax(outputs[0]["gate_logits"])
        for slot, chances, ids in zip(self.manifest.labels, probabilities, outputs[0]["gen_ids"], strict=True):
            chosen = int(chances.argmax())
            value = p.gates[chosen]
            if value == p.generated:
                value = self._spelled(ids.tolist())
            if value not in ("", p.empty):
                found.append({"slot": slot, "value": value, "score": rounded(chances[chosen])})
        return {
            "state": {s["slot"]: s["value"] for s in found},
            "slots": found,
            "truncated": encoded.truncated,
            "tokens": encoded.tokens,
        }

    def _spelled(self, ids: list[int]) -> str:
        """The value that pieces spell, up to the first special one; unknown pieces count as such."""
        text = self.encoder.text(list(takewhile(lambda i: i not in self._stops, ids)))
        for old, new in self.params.replace.items():
            text = text.replace(old, new)
        return text.strip()
