"""The head that generates the state of a dialogue."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from exporters.heads import Encoded, Head
from exporters.heads.trade import Trade


class TradeHead(Head):
    """`gate_logits[s, g]`: the logit of gate g for slot s; `gen_ids[s, k]`: the k-th piece of its generated value.

    A slot is asked for by the pieces of its name, which are constants of the graph. `gates` are in the order of their
    ids.
    """

    type = "trade"
    outputs = {"gate_logits": ("slots", "gates"), "gen_ids": ("slots", "steps")}
    reads_labels = True

    def __init__(self, config: Any, labels: list[str], gates: list[str], steps: int) -> None:
        super().__init__()
        embedded = getattr(config, "embedding_size", config.hidden_size)
        if embedded != config.hidden_size:
            raise ValueError(f"word embeddings of {embedded} numbers cannot score states of {config.hidden_size}")
        slots = str(len(labels))
        self.outputs = {"gate_logits": (slots, str(len(gates))), "gen_ids": (slots, str(steps))}
        self.slots = labels
        self.gates = gates
        # What the slots are called is known once there is a tokenizer.
        unnamed = [[config.pad_token_id] for _ in labels]
        self.generator = Trade(config.hidden_size, unnamed, len(gates), steps, config.pad_token_id)

    def prepare(self, tokenizer: Any) -> None:
        """Domain and name of a slot are read as two words; shorter names are filled up, as in training."""
        names = [slot.replace("-", " ") for slot in self.slots]
        pieces = tokenizer(names, add_special_tokens=False, padding=True)["input_ids"]
        self.generator.slot_pieces = torch.tensor(pieces)

    def forward(self, encoded: Encoded, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        gates, ids = self.generator(
            encoded.states, inputs["input_ids"], inputs["attention_mask"], encoded.word_embeddings
        )
        return {"gate_logits": gates, "gen_ids": ids}

    def decoder(self) -> dict[str, Any]:
        return {"gates": self.gates}
