"""An encoder that models of one trunk share is a file of its own, equal to the byte whatever head was trained on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from exporters.split import FILE, HIDDEN, split
from service.bundle import Bundle
from service.graph.session import Model, Session
from service.loading import open_graph

SCOPE = "/trunk/"
AXES = ["batch_size", "sequence_length", 4]


def norm(name: str, source: str, out: str) -> onnx.NodeProto:
    return helper.make_node("LayerNormalization", [source, "scale"], [out], name=name)


def made(*nodes: onnx.NodeProto, inputs: tuple[str, ...] = ("x", "mask"), order: int = 1) -> onnx.ModelProto:
    """Nodes from `x` (and `mask`) to `y`; `order` -1 lists the weights the other way round."""
    weights = [
        numpy_helper.from_array(np.ones(4, np.float32), "scale"),
        numpy_helper.from_array(np.arange(16, dtype=np.float32).reshape(4, 4), "w"),
    ][::order]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, AXES) for name in inputs]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, AXES)]
    return helper.make_model(
        helper.make_graph(list(nodes), "g", values, out, weights), opset_imports=[helper.make_opsetid("", 18)]
    )


FIRST = (helper.make_node("MatMul", ["x", "w"], ["a"], name=f"{SCOPE}dense"), norm(f"{SCOPE}norm", "a", "h"))


def test_the_head_is_what_follows_the_last_normalisation_of_the_trunk() -> None:
    parts = split(made(*FIRST, helper.make_node("Mul", ["h", "mask"], ["y"], name="/head/mul")), SCOPE, 4)
    assert parts is not None
    encoder, head = parts
    assert [n.op_type for n in encoder.graph.node] == ["MatMul", "LayerNormalization"]
    assert [n.op_type for n in head.graph.node] == ["Mul"]
    assert [o.name for o in encoder.graph.output] == [HIDDEN]
    assert {i.name for i in head.graph.input} == {HIDDEN, "mask"}
    assert [w.name for w in head.graph.initializer] == []


def test_equal_encoders_are_equal_files_whatever_they_were_called() -> None:
    other = (
        helper.make_node("MatMul", ["x", "w"], ["otherwise"], name=f"{SCOPE}other", doc_string="traced elsewhere"),
        norm(f"{SCOPE}n", "otherwise", "state"),
    )
    one = split(made(*FIRST, helper.make_node("Neg", ["h"], ["y"])), SCOPE, 4)
    two = split(made(*other, helper.make_node("Abs", ["state"], ["y"]), order=-1), SCOPE, 4)
    assert one is not None
    assert two is not None
    assert one[0].SerializeToString() == two[0].SerializeToString()
    assert one[1] != two[1]


def test_a_norm_of_the_head_or_of_the_pooler_does_not_end_the_encoder() -> None:
    pooler = norm(f"{SCOPE}pooler/norm", "h", "p")
    parts = split(made(*FIRST, pooler, norm("/head/norm", "p", "y")), SCOPE, 4)
    assert parts is not None
    assert len(parts[0].graph.node) == 2
    assert len(parts[1].graph.node) == 2


@pytest.mark.parametrize("scope", ["/nothing/", SCOPE])
def test_a_graph_without_one_such_place_stays_whole(scope: str) -> None:
    """No trunk by that name, or a head that reads several of its layers."""
    mix = (norm(f"{SCOPE}norm2", "h", "h2"), helper.make_node("Add", ["h", "h2"], ["y"]))
    assert split(made(*FIRST, *mix), scope, 4) is None


def test_two_bundles_of_one_trunk_share_it_in_memory(bundle_of: Callable[..., Path]) -> None:
    folder = bundle_of("klue/ynat")
    one, two = (open_graph(Bundle(folder)) for _ in range(2))
    assert one._models[0] is two._models[0]
    assert one._models[1] is not two._models[1]
    assert open_graph(Bundle(bundle_of("klue/mrc")))._models[0] is not one._models[0], "other weights"


def test_encoder_and_head_answer_as_the_whole_graph_would(bundle_of: Callable[..., Path]) -> None:
    folder = bundle_of("klue/ner")
    row = {
        "input_ids": np.arange(5, 14),
        "attention_mask": np.ones(9, np.int64),
        "token_type_ids": np.zeros(9, np.int64),
    }
    hidden = Session(Model(folder / FILE), pads={}).run([row])[0][HIDDEN]
    (head,) = Session(Model(folder / "model.onnx"), pads={}).run([{HIDDEN: hidden}])
    (both,) = open_graph(Bundle(folder)).run([row])
    assert np.array_equal(head["logits"], both["logits"])
