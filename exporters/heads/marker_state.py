"""The relation of two marked spans from the states of their opening markers, as CMeIE's baseline reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from exporters.heads import Encoded, Head


class MarkerState(Head):
    """`marker_pos` are the positions of the subject's and the object's opening marker in the row."""

    type = "marker-state"
    inputs = {"marker_pos": ("2",)}
    outputs = {"logits": ("classes",)}

    def __init__(self, config: Any, labels: list[str]) -> None:
        super().__init__()
        self.outputs = {"logits": (str(len(labels)),)}
        self.classifier = nn.Linear(2 * config.hidden_size, len(labels))

    def forward(self, encoded: Encoded, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        where = inputs["marker_pos"].unsqueeze(-1).expand(-1, -1, encoded.states.shape[-1])
        return {"logits": self.classifier(torch.gather(encoded.states, 1, where).flatten(1))}

    def sample(self, length: int, rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
        return {"marker_pos": rng.integers(0, length, 2)}
