"""int8 by token: close to the float32 product, the same in every batch, and exact where it promises to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from exporters.precision import baselines
from exporters.precision.calibration import maxima
from exporters.precision.products import SMALLEST, Graph
from exporters.precision.rowwise import int8, quantized

WIDTH = 64


def model(*nodes: Any, **constants: Any) -> Any:
    """A graph from `x` [batch, tokens, WIDTH] to the last node's output."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "t", WIDTH])],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def linear(matrix: Any, bias: Any) -> Any:
    product = helper.make_node("MatMul", ["x", "w"], ["xw"])
    return model(product, helper.make_node("Add", ["bias", "xw"], ["y"]), w=matrix, bias=bias)


def lowered(made: Any, x: Any, lower: Any = int8) -> Any:
    largest = np.abs(x).max((0, 1))
    return lower(made, {product.source: largest for product in Graph(made).products})


def run(made: Any, x: Any) -> Any:
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x.astype(np.float32)})[0]


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def error(got: Any, expected: Any) -> float:
    return float(np.abs(got - expected).max() / np.abs(expected).max())


@pytest.fixture
def x() -> Any:
    return normal(3, 7, WIDTH)


@pytest.fixture
def dense() -> tuple[Any, Any]:
    return normal(WIDTH, 96), normal(96)


def test_codes_are_symmetric_and_steps_go_by_column() -> None:
    codes, steps = quantized(np.array([[1.27, -10.0], [-0.5, 25.4]]))
    assert codes.tolist() == [[127, -50], [-50, 127]]
    assert steps == pytest.approx([0.01, 0.2])


def test_a_product_is_within_two_percent_of_float32(x: Any, dense: Any) -> None:
    assert error(run(lowered(linear(*dense), x), x), x @ dense[0] + dense[1]) < 0.02


def test_one_giant_token_does_not_spoil_the_others_as_one_scale_would(x: Any, dense: Any) -> None:
    x[0, 0] *= 200  # an attention sink
    expected = (x @ dense[0] + dense[1])[0, 1:]
    assert error(run(lowered(linear(*dense), x), x)[0, 1:], expected) < 0.05
    assert error(run(lowered(linear(*dense), x, baselines.dynamic), x)[0, 1:], expected) > 0.2


def test_a_token_has_the_same_answer_in_every_company(x: Any, dense: Any) -> None:
    made = lowered(linear(*dense), x)
    together = run(made, x)
    for i, row in enumerate(x):
        assert np.array_equal(run(made, row[None])[0], together[i])


def test_outlier_channels_are_exact(dense: Any) -> None:
    x = np.full((1, 2, WIDTH), 1e-3)
    x[..., 5] = 1000.0
    made = lowered(linear(*dense), x)
    assert error(run(made, x), x @ dense[0] + dense[1]) < 1e-5
    assert any(node.op_type == "Gather" for node in made.graph.node)


def test_a_token_of_zeros_gives_the_bias(x: Any, dense: Any) -> None:
    x[1, 3] = 0
    assert run(lowered(linear(*dense), x), x)[1, 3] == pytest.approx(dense[1], abs=1e-6)


def test_what_reads_one_tensor_is_one_product(x: Any, dense: Any) -> None:
    other = normal(WIDTH, 32)
    made = model(
        helper.make_node("MatMul", ["x", "a"], ["xa"]),
        helper.make_node("Add", ["xa", "bias"], ["ya"]),
        helper.make_node("MatMul", ["x", "b"], ["yb"]),
        helper.make_node("Concat", ["yb", "ya"], ["y"], axis=-1),
        a=dense[0],
        b=other,
        bias=dense[1],
    )
    low = lowered(made, x)
    assert sum(node.op_type == "MatMulIntegerToFloat" for node in low.graph.node) == 1
    assert error(run(low, x), np.concatenate([x @ other, x @ dense[0] + dense[1]], -1)) < 0.02


def test_layers_that_share_their_matrix_go_on_sharing_it(x: Any) -> None:
    matrix = normal(WIDTH, WIDTH) / 8
    made = model(helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"]), w=matrix)
    largest = {"x": np.abs(x).max((0, 1)), "h": np.abs(x @ matrix).max((0, 1))}
    low = int8(made, largest)
    assert sum(w.data_type == TensorProto.INT8 and len(w.dims) == 2 for w in low.graph.initializer) == 1
    assert error(run(low, x), x @ matrix @ matrix) < 0.02


def test_small_matrices_stay_as_they_are(x: Any) -> None:
    made = linear(normal(WIDTH, SMALLEST - 1), np.zeros(SMALLEST - 1))
    assert [node.op_type for node in int8(made, {}).graph.node] == ["MatMul", "Add"]


def test_tables_of_embeddings_are_halved() -> None:
    table = normal(50, WIDTH)
    made = model(
        helper.make_node("Cast", ["x"], ["ids"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "ids"], ["y"]),
        table=table,
    )
    ids = np.random.default_rng(0).integers(0, 50, (1, 2, WIDTH))
    low = int8(made, {})
    assert run(low, ids) == pytest.approx(table[ids], rel=1e-3, abs=1e-4)
    assert {w.data_type for w in low.graph.initializer if len(w.dims) == 2} == {TensorProto.FLOAT16}


def test_blocks_are_finer_than_channels(x: Any, dense: Any) -> None:
    assert error(run(lowered(linear(*dense), x, baselines.blockwise), x), x @ dense[0] + dense[1]) < 0.02


def test_calibration_keeps_the_largest_of_every_channel(x: Any, dense: Any) -> None:
    found = maxima(_flat(linear(*dense)), ["x2"], [{"x": row.reshape(-1)} for row in x.astype(np.float32)])
    assert found["x2"] == pytest.approx(np.abs(x).max((0, 1)), rel=1e-6)


def _flat(made: Any) -> Any:
    """The same graph over rows of numbers, which calibration feeds."""
    made.graph.input[0].type.tensor_type.shape.dim.pop()
    made.graph.node.insert(0, helper.make_node("Reshape", ["x", "shape"], ["x2"]))
    made.graph.node[1].input[0] = "x2"
    made.graph.initializer.append(numpy_helper.from_array(np.array([1, -1, WIDTH], np.int64), "shape"))
    return made
