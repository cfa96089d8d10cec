"""Heads that transformers lacks: torch modules over an encoder, and the names under which others publish their tensors.

A head is one file here, and `<type>.yaml` beside it lists the layouts of checkpoints that it can be read from.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

Axes = tuple[str, ...]


@dataclass(frozen=True)
class Encoded:
    """What the encoder made of a batch: `states` [B,T,H], `pooled` [B,H] if the head wants a pooler, and the output
    `embedded` [B,T,H] of its embedding layer; `word_embeddings` [V,H]."""

    states: Tensor
    pooled: Tensor | None
    embedded: Tensor
    word_embeddings: Tensor


class Head(nn.Module):
    """One head. `inputs` are the axes of what the graph takes beside ids, mask and types; `outputs` of what it answers.

    Axes are named without the batch; rows of a batch are padded along equal names. `__init__` gets the encoder's
    configuration, the suite's labels and what else the suite says under `head`.
    """

    type: ClassVar[str]
    inputs: dict[str, Axes] = {}  # a head whose sizes are its labels sets its own
    outputs: dict[str, Axes]
    pooler: ClassVar[bool] = False
    reads_labels: ClassVar[bool] = False
    """Whether the labels' names go into the graph, so that the order of its outputs is the suite's."""

    def complete(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The graph's inputs as encoder and head read them."""
        return inputs

    @abstractmethod
    def forward(self, encoded: Encoded, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Outputs by name; `inputs` are all inputs of the graph."""

    def prepare(self, tokenizer: Any) -> None:
        """Take what the graph needs of the checkpoint's tokenizer as constants; called once, before the export."""

    def sample(self, length: int, rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
        """Made-up `inputs` of one row of `length` tokens, for the comparison of graph and torch."""
        return {}

    def decoder(self) -> dict[str, Any]:
        """Parameters that the decoder outside the graph needs, in plain numbers."""
        return {}


class Model(nn.Module):
    """An encoder and a head, called as transformers' own models are: by keyword, and outputs by name."""

    def __init__(self, trunk: Any, head: Head) -> None:
        super().__init__()
        self.config = trunk.config
        self.trunk = trunk
        self.head = head
        if not head.pooler and hasattr(trunk, "pooler"):
            trunk.pooler = None

    def get_input_embeddings(self) -> Any:
        return self.trunk.get_input_embeddings()

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        inputs = self.head.complete(inputs)
        own = {name: inputs[name] for name in inputs if name not in self.head.inputs}
        out = self.trunk(**own, output_hidden_states=True)
        encoded = Encoded(
            out.last_hidden_state,
            getattr(out, "pooler_output", None),
            out.hidden_states[0],
            self.get_input_embeddings().weight,
        )
        return self.head(encoded, inputs)  # type: ignore[no-any-return]


def _discover() -> dict[str, type[Head]]:
    found: dict[str, type[Head]] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if not (isinstance(value, type) and issubclass(value, Head) and "type" in vars(value)):
                continue
            if found.setdefault(value.type, value) is not value:
                raise RuntimeError(f"head {value.type!r} is defined twice")
    return found


def heads() -> dict[str, type[Head]]:
    """Every head by its type."""
    return _discover()


__all__ = ["Axes", "Encoded", "Head", "Model", "heads"]
