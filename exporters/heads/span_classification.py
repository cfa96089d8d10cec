"""Heads that find spans which may lie within each other: a score for every span, or for every start and every end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from exporters.heads import Encoded, Head
from exporters.heads.global_pointer import GlobalPointer


class GlobalPointerHead(Head):
    """`scores[e, i, j]`: the logit of a span of type e from token i to token j, inclusive.

    `bias`: a number a type, which published global pointers lack.
    """

    type = "global-pointer"
    outputs = {"scores": ("types", "sequence_length", "sequence_length")}

    def __init__(self, config: Any, labels: list[str], size: int = 64, rope: bool = True, bias: bool = False) -> None:
        super().__init__()
        types = len(labels)
        self.outputs = {"scores": (str(types), "sequence_length", "sequence_length")}
        self.pointer = GlobalPointer(config.hidden_size, types, size, rope)
        if not bias:
            del self.pointer.bias
            self.pointer.register_buffer("bias", torch.zeros(types), persistent=False)

    def forward(self, encoded: Encoded, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"scores": self.pointer(encoded.states, inputs["attention_mask"])}


class StartEndHead(Head):
    """`start[i, e]` and `end[i, e]`: logits that a span of type e starts or ends with token i; a layer for each."""

    type = "start-end"
    outputs = {"start": ("sequence_length", "types"), "end": ("sequence_length", "types")}

    def __init__(self, config: Any, labels: list[str]) -> None:
        super().__init__()
        axes = ("sequence_length", str(len(labels)))
        self.outputs = {"start": axes, "end": axes}
        self.start = nn.ModuleList(nn.Linear(config.hidden_size, 1) for _ in labels)
        self.end = nn.ModuleList(nn.Linear(config.hidden_size, 1) for _ in labels)

    def forward(self, encoded: Encoded, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            "start": torch.cat([layer(encoded.states) for layer in self.start], -1),
            "end": torch.cat([layer(encoded.states) for layer in self.end], -1),
        }
