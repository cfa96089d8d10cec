"""Heads that parse: a score for every head of every word, and for every relation of every such pair.

Relations are scored at all heads rather than at the best one alone: a decoder that makes a tree may choose another, and
nothing in the graph turns on a head that is best by a hair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from exporters.heads import Axes, Encoded, Head
from exporters.heads.biaffine import Biaffine

WORDS = ("head_idx", "tail_idx", "word_mask")


class ParserHead(Head):
    """`arc[i, j]`: the score of word j as the head of word i + 1, j = 0 being the root; `rel[i, j, r]`: of relation r
    between them.

    `head_idx` and `tail_idx` are the first and the last piece of each word, `word_mask` tells words from padding, and
    `pos_ids` are part-of-speech tags where the parser reads them: `pos_tags` in the order of their ids.
    """

    inputs = dict.fromkeys(WORDS, ("words",))
    outputs = {"arc": ("words", "words_and_root"), "rel": ("words", "words_and_root", "relations")}

    def __init__(self, labels: list[str], pos_tags: Sequence[str]) -> None:
        super().__init__()
        self.pos_tags = list(pos_tags)
        if pos_tags:
            self.inputs = {**self.inputs, "pos_ids": ("words",)}
        axes: Axes = ("words", "words_and_root", str(len(labels)))
        self.outputs = {"arc": axes[:2], "rel": axes}

    def sample(self, length: int, rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
        first = np.unique(rng.integers(min(1, length - 1), length, max(1, length // 2)))
        row = {
            "head_idx": first,
            "tail_idx": np.append(first[1:] - 1, length - 1),
            "word_mask": np.ones(len(first), dtype=np.int64),
            "pos_ids": rng.integers(0, len(self.pos_tags) + 1, len(first)),
        }
        return {name: row[name] for name in self.inputs}

    def decoder(self) -> dict[str, Any]:
        return {"pos_tags": self.pos_tags} if self.pos_tags else {}


class BiaffineHead(ParserHead):
    """`Biaffine` over the encoder's states."""

    type = "biaffine"

    def __init__(
        self,
        config: Any,
        labels: list[str],
        arc_size: int,
        relation_size: int,
        pos_size: int = 0,
        pos_tags: Sequence[str] = (),
    ) -> None:
        super().__init__(labels, pos_tags)
        self.parser = Biaffine(config.hidden_size, len(labels), arc_size, relation_size, len(pos_tags), pos_size)

    def forward(self, encoded: Encoded, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        vectors = self.parser.words(encoded.states, inputs["head_idx"], inputs["tail_idx"], inputs.get("pos_ids"))
        return {"arc": self.parser.arcs(vectors, inputs["word_mask"]), "rel": self.parser.relations(vectors)}
