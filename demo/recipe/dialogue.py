"""Wizard of Seoul: the input of every user turn, and gates and values of its state, as the KLUE baseline makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerFast

from suites import Suite


@dataclass(frozen=True)
class Turn:
    """Input ids of a user turn and the state after it, `domain-slot` -> value."""

    ids: list[int]
    state: dict[str, str]


@dataclass(frozen=True)
class Gates:
    """Kinds of value in id order: none, one that is generated, and those that are values by themselves."""

    names: list[str]
    empty: str
    generated: str

    @classmethod
    def of(cls, suite: Suite) -> Gates:
        """The gates of a dialogue suite. KeyError if it names none."""
        return cls((suite.head or {})["gates"], suite.decoder["empty"], suite.decoder["generated"])

    def gate(self, value: str) -> int:
        """Id of the gate of a slot's value."""
        literal = value in self.names and value != self.generated
        return self.names.index(value if literal else self.generated)

    def value(self, gate: int, generated: str) -> str | None:
        """A slot's value, given its gate and what was generated for it; None if there is none."""
        name = self.names[gate]
        value = generated if name == self.generated else name
        return None if value in ("", self.empty) else value


def turns(said: Sequence[dict[str, Any]], tokenizer: PreTrainedTokenizerFast, max_length: int) -> list[Turn]:
    """All user turns of a dialogue: earlier turns, what the system said last, what the user says; cut at the left."""
    separator = tokenizer.sep_token_id
    history: list[int] = []
    found = []
    pieces = tokenizer([turn["text"] for turn in said], add_special_tokens=False, verbose=False)["input_ids"]
    for index, turn in enumerate(said):
        if turn["role"] != "user":
            continue
        system = pieces[index - 1] if index else []
        current = [*system, separator, *pieces[index]]
        ids = [*history, separator, *current][-(max_length - 2) :]
        found.append(Turn([tokenizer.cls_token_id, *ids, separator], state(turn["state"])))
        history = [*history, separator, *current] if history else current
    return found


def state(values: Sequence[str]) -> dict[str, str]:
    """`domain-slot-value` strings -> value by `domain-slot`; the value may hold dashes of its own."""
    parts = [value.split("-", 2) for value in values]
    return {f"{domain}-{slot}": value for domain, slot, value in parts}


def slot_pieces(slots: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """Pieces of every slot's name, its dash read as a space."""
    names = [slot.replace("-", " ") for slot in slots]
    return [list(ids) for ids in tokenizer(names, add_special_tokens=False)["input_ids"]]


def targets(
    values: dict[str, str], slots: Sequence[str], gates: Gates, tokenizer: PreTrainedTokenizerFast, steps: int
) -> dict[str, Any]:
    """Gate id of every slot; the slots whose value is generated, and its pieces with a separator behind them."""
    ids = [gates.gate(values.get(slot, gates.empty)) for slot in slots]
    spoken = [index for index, gate in enumerate(ids) if gates.names[gate] == gates.generated]
    texts = [values[slots[index]] for index in spoken]
    pieces = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
    return {"gates": ids, "slots": spoken, "values": [[*row, tokenizer.sep_token_id][:steps] for row in pieces]}
