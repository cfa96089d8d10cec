"""Token tags chained by a conditional random field: the graph gives the tags' scores, the chain is the decoder's."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from exporters.heads import Encoded, Head

FORBIDDEN = -1e4
"""Score of what never happens, as those who published the second convention write it."""


class Crf(Head):
    """A linear classifier, and the chain's parameters as plain numbers for the decoder.

    Two conventions are published. `from-to` (pytorch-crf, AllenNLP): `transitions[i, j]` is tag j behind tag i, and
    `start` and `end` are vectors of their own. `to-from` (flair, and the CRF of older CLUENER baselines):
    `transitions[i, j]` is tag i behind tag j, and two of the tags stand for the boundaries; `boundaries` are their ids,
    of the start and of the stop. Either becomes the first one in the bundle.
    """

    type = "crf"
    outputs = {"logits": ("sequence_length", "tags")}

    def __init__(
        self,
        config: Any,
        labels: list[str],
        span: Literal["all", "text"] = "all",
        convention: Literal["from-to", "to-from"] = "from-to",
        boundaries: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        if (convention == "to-from") != (boundaries is not None):
            raise ValueError("boundaries are the start and the stop tag of convention to-from, and of no other")
        if span not in ("all", "text") or convention not in ("from-to", "to-from"):
            raise ValueError(f"no span {span!r} or no convention {convention!r}")
        tags = len(labels)
        self.outputs = {"logits": ("sequence_length", str(tags))}
        self.span = span
        self.boundaries = boundaries
        self.classifier = nn.Linear(config.hidden_size, tags)
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        if boundaries is None:
            self.start = nn.Parameter(torch.zeros(tags))
            self.end = nn.Parameter(torch.zeros(tags))

    def forward(self, encoded: Encoded, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"logits": self.classifier(encoded.states)}

    def decoder(self) -> dict[str, Any]:
        transitions = self.transitions.detach()
        if self.boundaries is None:
            start, end = self.start.detach(), self.end.detach()
        else:
            first, stop = self.boundaries
            start, end = transitions[:, first], transitions[stop].clone()
            end[[first, stop]] = FORBIDDEN
            transitions = transitions.T
        chain = {"transitions": transitions.tolist(), "start": start.tolist(), "end": end.tolist()}
        return {"crf": chain | {"span": self.span}}
