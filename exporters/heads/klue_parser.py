"""The dependency parser of the KLUE baseline (Park et al., 2021).

An encoder that reads words both ways, a decoder that reads them once more, and a biaffine score of every pair of what
the two made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from exporters.heads import Encoded
from exporters.heads.biaffine import MASKED, pairs, pick
from exporters.heads.dependency_parsing import ParserHead


class KlueParser(ParserHead):
    """One layer each of encoder and decoder, as in every published run of the baseline.

    The sequences of the encoder are packed, so that its backward half starts at the last word of each row and not in
    the padding behind it; the exporter gives their lengths to the graph's own LSTM.
    """

    type = "klue-parser"

    def __init__(
        self,
        config: Any,
        labels: list[str],
        lstm_size: int = 768,
        arc_size: int = 512,
        relation_size: int = 256,
        pos_size: int = 256,
        pos_tags: Sequence[str] = (),
    ) -> None:
        super().__init__(labels, pos_tags)
        relations = len(labels)
        # The last id is the root's, which is no word and has no tag.
        self.pos_embedding = nn.Embedding(len(pos_tags) + 1, pos_size) if pos_tags else None
        word = 2 * config.hidden_size + (pos_size if pos_tags else 0)
        self.encoder = nn.LSTM(word, lstm_size, batch_first=True, bidirectional=True)
        self.decoder_lstm = nn.LSTM(lstm_size, lstm_size, batch_first=True)
        self.decoder_input = nn.Linear(2 * lstm_size, lstm_size)
        self.decoder_start = nn.Linear(2 * lstm_size, lstm_size)
        self.arc_head = nn.Linear(2 * lstm_size, arc_size)
        self.arc_dependent = nn.Linear(lstm_size, arc_size)
        self.relation_head = nn.Linear(2 * lstm_size, relation_size)
        self.relation_dependent = nn.Linear(lstm_size, relation_size)
        self.arc_weight = nn.Parameter(torch.zeros(1, arc_size, arc_size))
        self.arc_of_head = nn.Parameter(torch.zeros(1, arc_size))
        self.arc_of_dependent = nn.Parameter(torch.zeros(1, arc_size))
        self.arc_bias = nn.Parameter(torch.zeros(1, 1, 1))
        self.relation_weight = nn.Parameter(torch.zeros(relations, relation_size, relation_size))
        self.relation_of_head = nn.Parameter(torch.zeros(relations, relation_size))
        self.relation_of_dependent = nn.Parameter(torch.zeros(relations, relation_size))
        self.relation_bias = nn.Parameter(torch.zeros(relations))

    def words(self, states: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        """States [B,T,H] -> root and words [B,W+1,D]: first piece, last piece, tag; the root is the first token."""
        first, last = (functional.pad(inputs[name], (1, 0), value=0) for name in ("head_idx", "tail_idx"))
        parts = [pick(states, first), pick(states, last)]
        if self.pos_embedding is not None:
            parts.append(self.pos_embedding(functional.pad(inputs["pos_ids"], (1, 0), value=len(self.pos_tags))))
        return torch.cat(parts, -1)

    def forward(self, encoded: Encoded, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        mask = functional.pad(inputs["word_mask"], (1, 0), value=1)
        packed = pack_padded_sequence(
            self.words(encoded.states, inputs), mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        packed, (_, cell) = self.encoder(packed)
        heads, _ = pad_packed_sequence(packed, batch_first=True)
        start = self.decoder_start(torch.cat([cell[0], cell[1]], -1)).unsqueeze(0)
        # The decoder only looks back, so that padding behind the words does not reach them.
        dependents, _ = self.decoder_lstm(functional.elu(self.decoder_input(heads[:, 1:])), (torch.tanh(start), start))
        arc = self._arcs(functional.elu(self.arc_dependent(dependents)), functional.elu(self.arc_head(heads)))
        # The baseline lets padding score 0 and win; here it cannot, and a row does not depend on its batch.
        arc = arc.masked_fill(mask.unsqueeze(1) == 0, MASKED)
        dependent = functional.elu(self.relation_dependent(dependents))
        return {"arc": arc, "rel": self._relations(dependent, functional.elu(self.relation_head(heads)))}

    def _arcs(self, dependent: Tensor, head: Tensor) -> Tensor:
        """Dependents [B,W,A] and heads [B,W+1,A] -> scores [B,W,W+1]."""
        scores = torch.matmul(torch.matmul(dependent, self.arc_weight[0]), head.transpose(1, 2))
        scores = scores + functional.linear(dependent, self.arc_of_dependent)
        return scores + functional.linear(head, self.arc_of_head).transpose(1, 2) + self.arc_bias

    def _relations(self, dependent: Tensor, head: Tensor) -> Tensor:
        """Dependents [B,W,D] and heads [B,W+1,D] -> scores [B,W,W+1,R]."""
        scores = pairs(dependent, self.relation_weight, head)
        scores = scores + functional.linear(dependent, self.relation_of_dependent).unsqueeze(2)
        return scores + functional.linear(head, self.relation_of_head, self.relation_bias).unsqueeze(1)
