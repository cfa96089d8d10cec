"""int8 that is fast and says what the model says: a scale a token, outlier channels apart, magnitudes migrated.

One scale for a whole tensor wastes its range on position 0, an attention sink with activations a hundred times those of
other tokens, and lets rows of a batch change each other's answers. ONNX Runtime's int8 product takes no other, so every
token is brought to [-1, 1] before it and back behind it. Three things are exact in float32 and make int8 lose less:

- migration (after SmoothQuant): channel i of the input is divided by s_i and row i of the matrix multiplied by it;
  s_i = sqrt(max|x_i| / max|w_i|) gives either side a similar range;
- the few channels with the largest activations are multiplied in float32 (after LLM.int8());
- matrices that read the same tensor are one product.

Tokens do not see each other, so that a row's answer is the same in every batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import helper

from exporters.precision.products import CONTRIB, Graph, Product
from service.types import Array

OUTLIER = 2.0
"""A channel is an outlier from so many times the median magnitude on, once migrated."""
MOST_OUTLIERS = 8
STEPS = 127
TINY = 1e-6


def int8(model: Any, maxima: Mapping[str, Array]) -> Any:
    """Every large product by token-wise int8, embeddings in half precision. `maxima` is by a product's source."""
    graph = Graph(model)
    last = graph.constant("rowwise_last", np.array([-1], np.int64))
    scale = graph.constant("rowwise_scale", np.float32(1 / STEPS))
    middle = graph.constant("rowwise_middle", np.uint8(128))
    largest = _by_matrices(graph, maxima)
    for product in graph.products:
        x, key = product.source, "+".join(product.matrices)
        matrix, bias = graph.matrix(product), graph.bias(product)
        s, outliers = _migration(largest[product.matrices], matrix)
        rest = matrix * s[:, None]
        rest[outliers] = 0
        weights, steps = quantized(rest)
        inverse = 1 / s
        inverse[outliers] = 0
        zeros = np.zeros(len(steps), np.int8)
        nodes = [
            _node("Mul", [x, graph.constant(f"{key}_inverse", inverse)], f"{x}_migrated"),
            _node("Abs", [f"{x}_migrated"], f"{x}_abs"),
            _node("ReduceMax", [f"{x}_abs", last], f"{x}_max", keepdims=1),
            _node("Div", [f"{x}_migrated", f"{x}_max"], f"{x}_unit"),
            _node("QuantizeLinear", [f"{x}_unit", scale, middle], f"{x}_int8"),
            helper.make_node(
                "MatMulIntegerToFloat",
                [
                    f"{x}_int8",
                    graph.constant(f"{key}_int8", weights),
                    scale,
                    graph.constant(f"{key}_steps", steps),
                    middle,
                    graph.constant(f"{key}_zeros", zeros),
                ],
                [f"{x}_unit_product"],
                name=f"{x}_unit_product",
                domain=CONTRIB,
            ),
            # A row of zeros has no scale, and its product, whatever it is, becomes zero here.
            _node("Mul", [f"{x}_unit_product", f"{x}_max"], f"{x}_product"),
        ]
        if len(outliers):
            exact = graph.constant(f"{key}_float", matrix[outliers])
            nodes += [
                _node("Gather", [x, graph.constant(f"{key}_outliers", outliers)], f"{x}_outliers", axis=-1),
                _node("MatMul", [f"{x}_outliers", exact], f"{x}_exact"),
                _node("Add", [f"{x}_product", f"{x}_exact"], f"{x}_whole"),
            ]
        if bias is not None:
            nodes.append(_node("Add", [nodes[-1].output[0], graph.constant(f"{key}_bias", bias)], f"{x}_biased"))
        graph.replace(product, _given(graph, product, nodes))
    _half(graph)
    return graph.finished()


def quantized(matrix: Array) -> tuple[Array, Array]:
    """Symmetric int8 by column: codes, and float32 [columns] steps."""
    steps = np.maximum(np.abs(matrix).max(0), TINY) / STEPS
    return np.rint(matrix / steps).astype(np.int8), steps.astype(np.float32)


def _by_matrices(graph: Graph, maxima: Mapping[str, Array]) -> dict[tuple[str, ...], Array]:
    """Layers that share their matrices share what is made of them, and so the maxima."""
    found: dict[tuple[str, ...], Array] = {}
    for product in graph.products:
        own = maxima[product.source]
        found[product.matrices] = np.maximum(found.get(product.matrices, own), own)
    return found


def _migration(largest: Array, matrix: Array) -> tuple[Array, Array]:
    """float32 [channels] divisors of the input, and the outlier channels."""
    largest = np.maximum(largest, TINY)
    s = np.sqrt(largest / np.maximum(np.abs(matrix).max(1), TINY))
    migrated = largest / s
    order = np.argsort(migrated)[::-1][:MOST_OUTLIERS]
    outliers = np.sort(order[migrated[order] > OUTLIER * np.median(migrated)])
    return (s / np.exp(np.log(s).mean())).astype(np.float32), outliers.astype(np.int64)


def _given(graph: Graph, product: Product, nodes: list[Any]) -> list[Any]:
    """`nodes`, whose last one gives what the graph reads of the product."""
    if len(product.outputs) == 1:
        nodes[-1].output[0] = product.outputs[0]
        return nodes
    sizes = graph.constant("+".join(product.matrices) + "_widths", np.array(product.widths, np.int64))
    source = nodes[-1].output[0]
    return [*nodes, helper.make_node("Split", [source, sizes], list(product.outputs), name=f"{source}_split", axis=-1)]


def _half(graph: Graph) -> None:
    """Tables of embeddings, half of a small model, in half precision: what is read of them becomes float32 again."""
    tables = {}
    for node in graph.model.graph.node:
        table = graph.constants.get(node.input[0]) if node.op_type == "Gather" else None
        if table is not None and table.dtype == np.float32 and table.ndim == 2 and np.abs(table).max() < 6e4:
            tables[node.input[0]] = table.astype(np.float16)
            name = graph.constant(f"{node.input[0]}_half", tables[node.input[0]])
            read = f"{node.output[0]}_half"
            gather = helper.make_node("Gather", [name, node.input[1]], [read], name=f"{node.name}_half", axis=0)
            graph.instead_of(node, [gather, _node("Cast", [read], node.output[0], to=1)])


def _node(op: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs, [output], name=output, **attributes)
