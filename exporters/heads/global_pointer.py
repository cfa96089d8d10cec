"""Global pointer: one score a type for every pair of first and last token of a span (after Su et al., 2022)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

MASKED = -1e4
"""Score of a pair that is no span: finite, so that half precision holds it; a span is found above 0."""


class GlobalPointer(nn.Module):
    """Scores spans of encoder states; a span is found where its score is above zero.

    `rope` turns queries and keys by their positions, so that a score knows how far apart two tokens are. `masked` rules
    out spans that end before they start and spans with padding or with the first or last token, which are special.
    """

    def __init__(self, hidden: int, types: int, size: int, rope: bool = True, masked: bool = True) -> None:
        super().__init__()
        if size % 2:
            raise ValueError(f"size is {size}; rotary positions need an even one")
        self.types = types
        self.size = size
        self.rope = rope
        self.masked = masked
        self.dense = nn.Linear(hidden, types * size * 2)
        self.bias = nn.Parameter(torch.full((types,), -4.0))  # spans are rare
        nn.init.xavier_uniform_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)

    def forward(self, states: Tensor, attention_mask: Tensor) -> Tensor:
        """States [B,T,H], mask [B,T] -> scores [B,E,T,T]; [b,e,i,j] is the span from token i to token j, inclusive."""
        batch, length = states.shape[0], states.shape[1]
        pairs = self.dense(states).reshape(batch, length, self.types, 2 * self.size)
        query, key = pairs[..., : self.size], pairs[..., self.size :]
        # Position numbers as a running sum over a real axis: no length is baked into a traced graph.
        position = torch.ones_like(attention_mask[:1]).cumsum(-1) - 1
        if self.rope:
            query, key = self._turn(query, position), self._turn(key, position)
        scores = torch.matmul(query.permute(0, 2, 1, 3), key.permute(0, 2, 3, 1)) / math.sqrt(self.size)
        scores = scores + self.bias.view(1, -1, 1, 1)
        if not self.masked:
            return scores
        count = attention_mask.sum(1, keepdim=True)
        inner = (attention_mask > 0) & (position > 0) & (position < count - 1)
        forward = position.unsqueeze(2) <= position.unsqueeze(1)
        allowed = inner.unsqueeze(2) & inner.unsqueeze(1) & forward
        return scores.masked_fill(~allowed.unsqueeze(1), MASKED)

    def _turn(self, vectors: Tensor, position: Tensor) -> Tensor:
        """Vectors [B,T,E,D]: every pair of neighbouring numbers turned by an angle that grows with the position."""
        step = torch.arange(0, self.size, 2, dtype=vectors.dtype, device=vectors.device) * (-2.0 / self.size / 2)
        angle = position.to(vectors.dtype).unsqueeze(-1) * torch.pow(10000.0, step)  # [1,T,D/2]
        sin, cos = angle.sin().unsqueeze(2), angle.cos().unsqueeze(2)
        even, odd = vectors[..., ::2], vectors[..., 1::2]
        return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).reshape(vectors.shape)
