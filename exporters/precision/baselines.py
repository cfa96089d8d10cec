"""The usual ways to 8 bits in ONNX Runtime, for comparison: none of them is exported."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from exporters.precision.products import CONTRIB, Graph
from service.types import Array

BLOCK = 64


def dynamic(model: Any, maxima: Mapping[str, Array]) -> Any:
    """ONNX Runtime's own: weights int8 by channel, activations uint8 with one scale a run. Rows of a batch share it."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it advises a pre-processing that made it slower
    try:
        with tempfile.TemporaryDirectory(prefix="clueserve-dynamic-") as folder:
            source, target = Path(folder) / "source.onnx", Path(folder) / "target.onnx"
            onnx.save_model(model, source)
            quantize_dynamic(source, target, per_channel=True, weight_type=QuantType.QInt8)
            return onnx.load(target)
    finally:
        root.setLevel(level)


def blockwise(model: Any, maxima: Mapping[str, Array]) -> Any:
    """MatMulNBits: a scale for every BLOCK weights, and one for as many activations of a token (accuracy_level 4)."""
    graph = Graph(model)
    for product in graph.products:
        nodes = []
        for name, bias, output in zip(product.matrices, product.biases, product.outputs, strict=True):
            codes, steps = _blocks(graph.constants[name])
            rows, columns = graph.constants[name].shape
            inputs = [product.source, graph.constant(f"{name}_blocks", codes), graph.constant(f"{name}_steps", steps)]
            nodes.append(
                helper.make_node(
                    "MatMulNBits",
                    [*inputs, *(["", "", bias] if bias else [])],
                    [output],
                    name=output,
                    domain=CONTRIB,
                    K=rows,
                    N=columns,
                    bits=8,
                    block_size=BLOCK,
                    accuracy_level=4,
                )
            )
        graph.replace(product, nodes)
    return graph.finished()


def _blocks(matrix: Array) -> tuple[Array, Array]:
    """uint8 codes around 128 [columns, blocks, BLOCK] and float32 steps [columns * blocks]."""
    rows, columns = matrix.shape
    padded = np.zeros((-(-rows // BLOCK) * BLOCK, columns), np.float32)
    padded[:rows] = matrix
    blocks = padded.T.reshape(columns, -1, BLOCK)
    steps = np.maximum(np.abs(blocks).max(2), 1e-9) / 127
    return (np.rint(blocks / steps[..., None]) + 128).astype(np.uint8), steps.astype(np.float32).reshape(-1)
