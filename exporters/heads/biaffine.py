"""Biaffine dependency parser over encoder states (after Dozat and Manning, 2017), without a recurrent layer of its own.

A word is the state of its first piece beside the state of its last one; the root is the sequence's first token, twice.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

MASKED = -1e4
"""Score of a head that is padding: finite, so that half precision holds it and a softmax gives it zero."""


class Biaffine(nn.Module):
    """Scores every pair of word and head, and the relations at one head a word.

    With `pos_tags` > 0 a tag a word is read as well, embedded in `pos_size` numbers; the root's tag id is `pos_tags`.
    """

    def __init__(
        self, hidden: int, relations: int, arc_size: int, relation_size: int, pos_tags: int = 0, pos_size: int = 0
    ) -> None:
        super().__init__()
        if (pos_tags > 0) != (pos_size > 0):
            raise ValueError(f"pos_tags is {pos_tags}, pos_size {pos_size}: give both or neither")
        self.pos_tags = pos_tags
        self.pos_embedding = nn.Embedding(pos_tags + 1, pos_size) if pos_tags else None
        word = 2 * hidden + pos_size
        self.arc_dependent = nn.Linear(word, arc_size)
        self.arc_head = nn.Linear(word, arc_size)
        self.relation_dependent = nn.Linear(word, relation_size)
        self.relation_head = nn.Linear(word, relation_size)
        self.arc_weight = nn.Parameter(torch.empty(arc_size, arc_size))
        self.arc_bias = nn.Parameter(torch.zeros(arc_size))
        self.relation_weight = nn.Parameter(torch.empty(relations, relation_size, relation_size))
        self.relation_linear = nn.Linear(2 * relation_size, relations)
        for layer in (self.arc_dependent, self.arc_head, self.relation_dependent, self.relation_head):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.xavier_uniform_(self.arc_weight)
        nn.init.normal_(self.relation_weight, std=0.02)

    def words(self, states: Tensor, head_idx: Tensor, tail_idx: Tensor, pos_ids: Tensor | None = None) -> Tensor:
        """States [B,T,H] and first and last piece of every word [B,W] -> root and words [B,W+1,D]."""
        first = pick(states, head_idx)
        last = pick(states, tail_idx)
        root = states[:, :1]
        vectors = torch.cat([torch.cat([root, first], 1), torch.cat([root, last], 1)], -1)
        if self.pos_embedding is None:
            return vectors
        if pos_ids is None:
            raise ValueError("this parser reads part-of-speech tags: pos_ids is missing")
        tags = functional.pad(pos_ids, (1, 0), value=self.pos_tags)
        return torch.cat([vectors, self.pos_embedding(tags)], -1)

    def arcs(self, vectors: Tensor, word_mask: Tensor) -> Tensor:
        """Root and words [B,W+1,D] -> scores [B,W,W+1] of every head (0 is the root) for every word."""
        dependent = functional.gelu(self.arc_dependent(vectors[:, 1:]))
        head = functional.gelu(self.arc_head(vectors))
        scale = 1.0 / math.sqrt(self.arc_bias.shape[0])
        scores = torch.matmul(torch.matmul(dependent, self.arc_weight), head.transpose(1, 2)) * scale
        scores = scores + torch.matmul(head, self.arc_bias.unsqueeze(1)).transpose(1, 2)
        candidates = functional.pad(word_mask, (1, 0), value=1)
        return scores.masked_fill(candidates.unsqueeze(1) == 0, MASKED)

    def relations_at(self, vectors: Tensor, heads: Tensor) -> Tensor:
        """Root and words [B,W+1,D] and one head a word [B,W] -> scores [B,W,R] of the relation between them."""
        dependent = functional.gelu(self.relation_dependent(vectors[:, 1:]))
        head = pick(functional.gelu(self.relation_head(vectors)), heads)
        scale = 1.0 / math.sqrt(self.relation_weight.shape[1])
        product = torch.einsum("bwl,rlm,bwm->bwr", dependent, self.relation_weight, head) * scale
        return torch.as_tensor(product + self.relation_linear(torch.cat([dependent, head], -1)))

    def relations(self, vectors: Tensor) -> Tensor:
        """Root and words [B,W+1,D] -> scores [B,W,W+1,R]: what `relations_at` says of each head, for all of them."""
        dependent = functional.gelu(self.relation_dependent(vectors[:, 1:]))
        head = functional.gelu(self.relation_head(vectors))
        linear = self.relation_linear
        size = linear.in_features // 2  # not from a tensor's shape: the slices below shall be constants of the graph
        scores = pairs(dependent, self.relation_weight, head) / math.sqrt(size)
        scores = scores + functional.linear(dependent, linear.weight[:, :size]).unsqueeze(2)
        return torch.as_tensor(scores + functional.linear(head, linear.weight[:, size:], linear.bias).unsqueeze(1))

    def forward(
        self, states: Tensor, head_idx: Tensor, tail_idx: Tensor, word_mask: Tensor, pos_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Arc scores [B,W,W+1], and relation scores [B,W,R] at the best head of every word."""
        vectors = self.words(states, head_idx, tail_idx, pos_ids)
        arcs = self.arcs(vectors, word_mask)
        return arcs, self.relations_at(vectors, arcs.argmax(-1))


def pairs(dependent: Tensor, weight: Tensor, head: Tensor) -> Tensor:
    """Dependents [B,W,D], a matrix [R,D,H] a relation and heads [B,W+1,H] -> products [B,W,W+1,R]."""
    count, inner, size = weight.shape
    # One product with a flat matrix of fixed size, which is the only kind that int8 knows.
    flat = weight.transpose(0, 1).reshape(inner, count * size)
    turned = torch.matmul(dependent, flat).unflatten(-1, (count, size)).flatten(1, 2)
    return torch.matmul(turned, head.transpose(1, 2)).unflatten(1, (-1, count)).transpose(2, 3)


def pick(states: Tensor, index: Tensor) -> Tensor:
    """Rows of `states` [B,T,H] at `index` [B,N] -> [B,N,H]."""
    return torch.gather(states, 1, index.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
