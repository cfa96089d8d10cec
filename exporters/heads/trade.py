"""TRADE state generator (Wu et al., 2019) in the form of the KLUE baseline: one gate and one short value a slot.

The graph takes the best piece of every step inside: its outputs are gates and piece ids, never a vocabulary times slots
times steps of probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

MASKED = -1e4
"""Attention score of padding before the softmax, which makes it exactly zero in float32."""


class Trade(nn.Module):
    """Reads encoder states of a dialogue; `slots` are the pieces of every slot's name, filled up with `pad_id`.

    The word embeddings are the encoder's own and come with every call: the vocabulary distribution is tied to them.
    """

    def __init__(self, hidden: int, slots: Sequence[Sequence[int]], gates: int, steps: int, pad_id: int) -> None:
        super().__init__()
        self.steps = steps
        self.pooler = nn.Linear(hidden, hidden)
        self.gru_input = nn.Linear(hidden, 3 * hidden)
        self.gru_state = nn.Linear(hidden, 3 * hidden)
        self.w_gen = nn.Linear(3 * hidden, 1)
        self.w_gate = nn.Linear(hidden, gates)
        longest = max(map(len, slots))
        pieces = [[*slot, *[pad_id] * (longest - len(slot))] for slot in slots]
        self.register_buffer("slot_pieces", torch.tensor(pieces), persistent=False)
        for layer in (self.pooler, self.w_gen, self.w_gate):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def queries(self, word_embeddings: Tensor) -> Tensor:
        """Sum of the piece embeddings of every slot's name [S,H]; fillers count, as in the baseline."""
        return word_embeddings[self.slot_pieces].sum(1)

    def start(self, states: Tensor) -> Tensor:
        """First hidden state [B,H] of every slot, from the first token's state."""
        return torch.tanh(self.pooler(states[:, 0]))

    def step(self, inputs: Tensor, hidden: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """One decoding step of N rows over states [B,T,H]; `inputs` and `hidden` are [B,N,H].

        Returns the new hidden state [B,N,H], attention [B,N,T], context [B,N,H] and the share of generating [B,N,1].
        """
        reset_x, update_x, new_x = self.gru_input(inputs).chunk(3, -1)
        reset_h, update_h, new_h = self.gru_state(hidden).chunk(3, -1)
        update = torch.sigmoid(update_x + update_h)
        new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
        hidden = (1 - update) * new + update * hidden
        scores = torch.matmul(hidden, states.transpose(1, 2)).masked_fill(mask.unsqueeze(1) == 0, MASKED)
        attention = torch.softmax(scores, -1)
        context = torch.matmul(attention, states)
        generate = torch.sigmoid(self.w_gen(torch.cat([inputs, hidden, context], -1)))
        return hidden, attention, context, generate

    def forward(
        self, states: Tensor, input_ids: Tensor, attention_mask: Tensor, word_embeddings: Tensor
    ) -> tuple[Tensor, Tensor]:
        """States [B,T,H], ids and mask [B,T], embeddings [V,H] -> gate_logits [B,S,G] and gen_ids [B,S,steps].

        Probability of a piece = generate * vocabulary + (1 - generate) * attention on its places in the input. Only a
        piece of the input can have the second part, so the best piece is either the best of the vocabulary part alone
        or the best among the input's pieces: a table of copy mass over the whole vocabulary is not needed.
        """
        slots = self.slot_pieces.shape[0]
        inputs = self.queries(word_embeddings).unsqueeze(0).expand(states.shape[0], -1, -1)
        hidden = self.start(states).unsqueeze(1).expand(-1, slots, -1)
        same = (input_ids.unsqueeze(1) == input_ids.unsqueeze(2)).to(states.dtype)
        present = word_embeddings[input_ids]
        gates: list[Tensor] = []
        ids: list[Tensor] = []
        for _ in range(self.steps):
            hidden, attention, context, generate = self.step(inputs, hidden, states, attention_mask)
            if not gates:
                gates.append(self.w_gate(context))
            logits = torch.matmul(hidden, word_embeddings.t())
            total = torch.logsumexp(logits, -1, keepdim=True)
            best, best_id = logits.max(-1)
            spoken = generate * torch.exp(torch.matmul(hidden, present.transpose(1, 2)) - total)
            mixed = spoken + (1 - generate) * torch.matmul(attention, same)
            mixed = mixed.masked_fill(attention_mask.unsqueeze(1) == 0, -1.0)
            copied, place = mixed.max(-1)
            copied_id = torch.gather(input_ids.unsqueeze(1).expand(-1, slots, -1), 2, place.unsqueeze(-1)).squeeze(-1)
            alone = generate.squeeze(-1) * torch.exp(best - total.squeeze(-1))
            chosen = torch.where(copied >= alone, copied_id, best_id)
            ids.append(chosen)
            inputs = word_embeddings[chosen]
        return gates[0], torch.stack(ids, -1)
