"""GPLinker: spans of subjects and objects, and for every relation which first and which last tokens it joins."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from exporters.heads import Encoded, Head
from exporters.heads.global_pointer import GlobalPointer

ROLES = 2
"""Subjects, then objects."""


class GpLinker(Head):
    """Logits above 0 hold: `entity[0, i, j]` that a subject goes from token i to token j, inclusive, `entity[1, i, j]`
    that an object does; `head[r, i, j]` that relation r joins a subject that begins with token i to an object that
    begins with j, and `tail[r, i, j]` the same of their last tokens.

    `head` and `tail` are asked only of spans that `entity` found, so that they need no mask.
    """

    type = "gplinker"
    outputs = {
        "entity": (str(ROLES), "sequence_length", "sequence_length"),
        "head": ("relations", "sequence_length", "sequence_length"),
        "tail": ("relations", "sequence_length", "sequence_length"),
    }

    def __init__(self, config: Any, labels: list[str], size: int = 64) -> None:
        super().__init__()
        axes = (str(len(labels)), "sequence_length", "sequence_length")
        self.outputs = {**GpLinker.outputs, "head": axes, "tail": axes}
        self.size = size
        self.entity = GlobalPointer(config.hidden_size, ROLES, size)
        # Published ones have no bias a role.
        del self.entity.bias
        self.entity.register_buffer("bias", torch.zeros(ROLES), persistent=False)
        self.head = nn.Linear(config.hidden_size, len(labels) * size * 2)
        self.tail = nn.Linear(config.hidden_size, len(labels) * size * 2)

    def forward(self, encoded: Encoded, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            "entity": self.entity(encoded.states, inputs["attention_mask"]),
            "head": self._pairs(self.head(encoded.states)),
            "tail": self._pairs(self.tail(encoded.states)),
        }

    def _pairs(self, vectors: Tensor) -> Tensor:
        """Queries and keys of every relation [B,T,R*2D] -> scores [B,R,T,T] without positions."""
        pairs = vectors.reshape(vectors.shape[0], vectors.shape[1], -1, 2 * self.size)
        query, key = pairs[..., : self.size] / math.sqrt(self.size), pairs[..., self.size :]
        return torch.matmul(query.permute(0, 2, 1, 3), key.permute(0, 2, 3, 1))
