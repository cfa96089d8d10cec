"""A graph in two: the encoder, which models of one trunk have in common, and the head that reads its hidden states.

Bundles whose encoders are equal to the byte are served from one copy of it in memory. So that equal encoders become
equal files whatever heads they were traced with, everything inside is named by its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

FILE = "encoder.onnx"
HIDDEN = "hidden_states"
NORMS = {"LayerNormalization", "SimplifiedLayerNormalization"}


def split(model: ModelProto, scope: str, hidden_size: int) -> tuple[ModelProto, ModelProto] | None:
    """Encoder and head, or None where the encoder's last normalisation is not the one way into the head.

    Graphs with graphs inside (ONNX's If and Loop) are left whole as well.

    `scope` is where the trunk's nodes are named, such as "/bert/".
    """
    graph = model.graph

    def of_encoder(node: NodeProto) -> bool:
        return node.op_type in NORMS and node.name.startswith(scope) and "pooler" not in node.name

    ends = [node.output[0] for node in graph.node if of_encoder(node)]
    if not ends or any(a.type == AttributeProto.GRAPH for node in graph.node for a in node.attribute):
        return None
    end = ends[-1]
    head_nodes = _behind(graph, [o.name for o in graph.output], end)
    encoder_nodes = _behind(graph, [end], None)
    if any(map(of_encoder, head_nodes)):
        return None  # it reads other layers too
    hidden = helper.make_tensor_value_info(HIDDEN, TensorProto.FLOAT, ["batch_size", "sequence_length", hidden_size])
    encoder = _part(model, encoder_nodes, {end: HIDDEN}, [], [hidden])
    head = _part(model, head_nodes, {end: HIDDEN}, [hidden], list(graph.output))
    return _canonical(encoder), head


def save(model: ModelProto, path: Path) -> Path:
    """Write a graph with its weights in a file beside it."""
    onnx.save_model(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=1024)
    return path


def _behind(graph: GraphProto, outputs: Iterable[str], stop: str | None) -> list[NodeProto]:
    """The nodes that `outputs` need, without those that only `stop` needs."""
    maker = {name: i for i, node in enumerate(graph.node) for name in node.output}
    found: set[int] = set()
    ahead = [name for name in outputs if name != stop]
    while ahead:
        i = maker.get(ahead.pop())
        if i is None or i in found:
            continue
        found.add(i)
        ahead.extend(name for name in graph.node[i].input if name != stop)
    return [graph.node[i] for i in sorted(found)]


def _part(
    model: ModelProto,
    nodes: Collection[NodeProto],
    renamed: dict[str, str],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
) -> ModelProto:
    """These nodes as a model, with the inputs and weights that they read."""
    read = dict.fromkeys(name for node in nodes for name in node.input)
    weights = {w.name: w for w in model.graph.initializer}
    part = helper.make_model(
        helper.make_graph(
            nodes,
            "graph",
            [*(i for i in model.graph.input if i.name in read), *inputs],
            outputs,
            [weights[name] for name in read if name in weights],
        ),
        opset_imports=model.opset_import,
        ir_version=model.ir_version,
    )
    _rename(part.graph, renamed)
    return part


def _rename(graph: GraphProto, names: dict[str, str]) -> None:
    for node in graph.node:
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
    for weight in graph.initializer:
        weight.name = names.get(weight.name, weight.name)


def _canonical(model: ModelProto) -> ModelProto:
    """The same graph with names that only say where in it a thing stands."""
    graph = model.graph
    kept = {value.name for value in (*graph.input, *graph.output)}
    inside = dict.fromkeys(name for node in graph.node for name in (*node.input, *node.output) if name)
    _rename(graph, {name: f"t{i}" for i, name in enumerate(n for n in inside if n not in kept)})
    for i, node in enumerate(graph.node):
        node.name = f"n{i}"
        node.doc_string = ""
        del node.metadata_props[:]
    return model
