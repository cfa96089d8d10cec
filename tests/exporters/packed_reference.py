"""What ONNX Runtime's CUDA kernels of a packed encoder compute, in numpy: nothing else runs them without a GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Array = Any


def run(model: ModelProto, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs of a fused graph by name."""
    session = ReferenceEvaluator(model, new_ops=OPS)
    return dict(zip(session.output_names, session.run(None, dict(arrays)), strict=True))


class _Op(OpRun):
    op_domain = "com.microsoft"


def _normal(x: Array, gamma: Array, beta: Array, epsilon: float) -> Array:
    wide = x.astype(np.float32)
    deviation = wide - wide.mean(-1, keepdims=True)
    scaled = deviation / np.sqrt((deviation**2).mean(-1, keepdims=True) + epsilon)
    return (scaled * gamma + beta).astype(x.dtype)


class EmbedLayerNormalization(_Op):
    def _run(self, ids, segments, words, positions, types, gamma, beta, mask, epsilon=None):  # type: ignore[no-untyped-def]
        total = words[ids] + positions[None, : ids.shape[1]] + (0 if types is None else types[segments])
        return _normal(total.astype(words.dtype), gamma, beta, epsilon), mask.sum(1).astype(np.int32)


class SkipLayerNormalization(_Op):
    def _run(self, x, skip, gamma, beta, bias, epsilon=None):  # type: ignore[no-untyped-def]
        return (_normal(x + skip + bias, gamma, beta, epsilon),)


class BiasGelu(_Op):
    def _run(self, x, bias):  # type: ignore[no-untyped-def]
        wide = (x + bias).astype(np.float32)
        return ((wide * (1 + np.vectorize(math.erf, otypes=[np.float32])(wide / math.sqrt(2))) / 2).astype(x.dtype),)


class RemovePadding(_Op):
    """Rows x longest x hidden and the tokens of each row -> tokens x hidden, and what finds them again."""

    def _run(self, x, counts):  # type: ignore[no-untyped-def]
        real = np.arange(x.shape[1]) < counts[:, None]
        offsets = np.concatenate([np.flatnonzero(real), np.flatnonzero(~real)]).astype(np.int32).reshape(real.shape)
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return x[real], offsets, ends, np.array([counts.max()], np.int32)


class RestorePadding(_Op):
    def _run(self, x, offsets):  # type: ignore[no-untyped-def]
        out = np.zeros((offsets.size, x.shape[-1]), x.dtype)
        out[offsets.ravel()[: len(x)]] = x
        return (out.reshape(*offsets.shape, -1),)


class PackedAttention(_Op):
    """Each row's tokens attend to each other; rows end where `ends` says."""

    def _run(self, x, weights, bias, offsets, ends, nothing=None, num_heads=None, **_):  # type: ignore[no-untyped-def]
        query, key, value = np.split((x @ weights + bias).astype(np.float32), 3, axis=-1)
        out = np.zeros_like(query)
        width = query.shape[-1] // num_heads
        for start, end in pairwise(ends):
            for head in range(num_heads):
                at = (slice(start, end), slice(head * width, (head + 1) * width))
                if end > start:
                    scores = query[at] @ key[at].T / math.sqrt(width)
                    weight = np.exp(scores - scores.max(-1, keepdims=True))
                    out[at] = weight / weight.sum(-1, keepdims=True) @ value[at]
        return (out.astype(x.dtype),)


OPS = [EmbedLayerNormalization, SkipLayerNormalization, BiasGelu, RemovePadding, RestorePadding, PackedAttention]
