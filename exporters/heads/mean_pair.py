"""Classes from the mean over a row's positions of its last states and its embeddings, as CHIP-CDN's baseline ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from exporters.heads import Encoded, Head


class MeanPair(Head):
    """`masked`: the mean is over the tokens of the row, or over all positions of a row of `length`, padding included.

    A mean over padding depends on how much of it there is. So the graph itself fills every row up to the `length` of
    training, and rows of one text answer alike in any batch. Longer rows are not cut.
    """

    type = "mean-pair"
    outputs = {"logits": ("classes",)}

    def __init__(self, config: Any, labels: list[str], masked: bool = True, length: int | None = None) -> None:
        super().__init__()
        if masked != (length is None):
            raise ValueError("length belongs to a mean over padding (masked: false), which needs it")
        if length is not None and length > config.max_position_embeddings:
            raise ValueError(f"length is {length}; the encoder has {config.max_position_embeddings} positions")
        self.outputs = {"logits": (str(len(labels)),)}
        self.length = length
        self.pad = {"input_ids": int(config.pad_token_id)}
        self.classifier = nn.Linear(config.hidden_size, len(labels))

    def complete(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.length is None:
            return inputs
        return {name: _filled(values, self.length, self.pad.get(name, 0)) for name, values in inputs.items()}

    def forward(self, encoded: Encoded, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        vectors = encoded.states + encoded.embedded
        if self.length is not None:
            return {"logits": self.classifier(vectors.mean(1))}
        mask = inputs["attention_mask"].unsqueeze(-1).to(vectors.dtype)
        return {"logits": self.classifier((vectors * mask).sum(1) / mask.sum(1))}


def _filled(values: Tensor, length: int, filler: int) -> Tensor:
    """Rows [B,T] filled up to [B,length]; longer ones as they are."""
    fill = torch.full((1, length), filler, dtype=values.dtype, device=values.device)[:, values.shape[1] :]
    return torch.cat([values, fill.expand(values.shape[0], -1)], 1)
