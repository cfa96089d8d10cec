"""Products of activations with constant matrices: there an encoder spends its time, and there it can spend less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from service.types import Array

SMALLEST = 32
"""Matrices with fewer rows or columns, such as classifiers, stay as they are: they cost nothing and decide all."""
CONTRIB = "com.microsoft"


@dataclass(frozen=True)
class Product:
    """MatMul nodes that read one tensor, such as query, key and value of a layer: `matrices` lie side by side.

    `outputs` are what the graph reads of each, its bias included; `biases` has None where a node has none.
    """

    source: str
    nodes: tuple[Any, ...]
    matrices: tuple[str, ...]
    biases: tuple[str | None, ...]
    outputs: tuple[str, ...]
    widths: tuple[int, ...]


class Graph:
    """A graph under change. Products are found once; `replace` puts nodes in the place of one."""

    def __init__(self, model: Any) -> None:
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.constants: dict[str, Array] = {i.name: numpy_helper.to_array(i) for i in self.model.graph.initializer}
        self._new: dict[str, Array] = {}
        self._instead: dict[str, Sequence[Any]] = {}
        self.products = list(self._products())

    def constant(self, name: str, value: Any) -> str:
        """Add a constant; one that is there under this name stays."""
        self._new.setdefault(name, np.asarray(value))
        return name

    def matrix(self, product: Product) -> Array:
        """The product's matrices as one, float32 [inputs, outputs]."""
        return np.concatenate([self.constants[name] for name in product.matrices], axis=1)

    def bias(self, product: Product) -> Array | None:
        """The biases as one, zeros where a node has none; None if no node has any."""
        if not any(product.biases):
            return None
        parts = zip(product.biases, product.widths, strict=True)
        return np.concatenate([self.constants[b] if b else np.zeros(n, np.float32) for b, n in parts])

    def replace(self, product: Product, nodes: Sequence[Any]) -> None:
        """Compute a product's outputs by `nodes`, which may read its source."""
        for i, old in enumerate(product.nodes):
            self.instead_of(old, nodes if i == 0 else ())

    def instead_of(self, node: Any, nodes: Sequence[Any]) -> None:
        self._instead[node.output[0]] = nodes

    def finished(self) -> Any:
        """The changed model, without what nothing reads any more."""
        graph = self.model.graph
        nodes = [new for node in graph.node for new in self._instead.get(node.output[0], (node,))]
        read = {name for node in nodes for name in node.input} | {output.name for output in graph.output}
        kept = [i for i in graph.initializer if i.name in read]
        kept += [numpy_helper.from_array(value, name) for name, value in self._new.items() if name in read]
        # Outputs of one product are computed where its first node stood, which no reader of them comes before.
        out = onnx.ModelProto()
        out.CopyFrom(self.model)
        del out.graph.node[:], out.graph.initializer[:]
        out.graph.node.extend(nodes)
        out.graph.initializer.extend(kept)
        if CONTRIB not in {o.domain for o in out.opset_import}:
            out.opset_import.append(helper.make_opsetid(CONTRIB, 1))
        return out

    def _products(self) -> Any:
        readers: dict[str, list[Any]] = {}
        for node in self.model.graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        sources: dict[str, list[Any]] = {}
        for node in self.model.graph.node:
            if node.op_type == "MatMul" and node.input[0] not in self.constants and self._large(node.input[1]):
                sources.setdefault(node.input[0], []).append(node)
        for source, nodes in sources.items():
            added = [_bias(node, readers, self.constants) for node in nodes]
            yield Product(
                source,
                tuple(n for node, (add, _) in zip(nodes, added, strict=True) for n in (node, add) if n is not None),
                tuple(node.input[1] for node in nodes),
                tuple(bias for _, bias in added),
                tuple((node if add is None else add).output[0] for node, (add, _) in zip(nodes, added, strict=True)),
                tuple(self.constants[node.input[1]].shape[1] for node in nodes),
            )

    def _large(self, name: str) -> bool:
        matrix = self.constants.get(name)
        return matrix is not None and matrix.ndim == 2 and min(matrix.shape) >= SMALLEST


def _bias(node: Any, readers: Mapping[str, Sequence[Any]], constants: Mapping[str, Array]) -> tuple[Any, str | None]:
    """The Add of a constant vector that alone reads a product, and the vector."""
    found = readers.get(node.output[0], [])
    if len(found) == 1 and found[0].op_type == "Add":
        other = next((name for name in found[0].input if name != node.output[0]), "")
        if other in constants and constants[other].shape == constants[node.input[1]].shape[1:]:
            return found[0], other
    return None, None
