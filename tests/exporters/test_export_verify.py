"""The gate itself: a graph that is not the model does not pass, whatever it is that differs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tiny import model_for, tiny_suite, tokenizer_for

from exporters import verify
from exporters.errors import ExportError
from service.bundle import FILE, Bundle, sha256
from service.graph.session import Session
from service.loading import open_graph

SUITE = tiny_suite("klue/ynat")


def model(seed: int = 0) -> Any:
    made = model_for("bert", SUITE, len(tokenizer_for("bert", SUITE)), seed=seed)
    made.set_attn_implementation("eager")
    return made


def gate(session: Session, seed: int = 0) -> tuple[int, float, float]:
    return verify.parity(model(seed), session, 64, len(tokenizer_for("bert", SUITE)), 0, "fp32")


def opened(folder: Path) -> Session:
    return open_graph(Bundle(folder))


@pytest.fixture
def folder(bundle_of: Callable[..., Path], tmp_path: Path) -> Path:
    """A copy of a bundle that the test may spoil."""
    return Path(shutil.copytree(bundle_of(SUITE.name), tmp_path / "copy"))


def rewire(folder: Path, name: str, operator: str, constant: int) -> None:
    """Feed the graph `operator(input, constant)` in place of one of its inputs."""
    path = folder / "encoder.onnx"
    graph = onnx.load(path)
    for node in graph.graph.node:
        node.input[:] = [f"{name}_rewired" if i == name else i for i in node.input]
    graph.graph.initializer.append(numpy_helper.from_array(np.array(constant, np.int64), f"{name}_constant"))
    graph.graph.node.insert(0, helper.make_node(operator, [name, f"{name}_constant"], [f"{name}_rewired"]))
    onnx.save_model(graph, path)
    manifest = json.loads((folder / FILE).read_text(encoding="utf-8"))
    manifest["files"][path.name] = sha256(path)
    (folder / FILE).write_text(json.dumps(manifest), encoding="utf-8")


def test_provenance_says_what_the_gate_found(folder: Path) -> None:
    shapes, delta, largest = gate(opened(folder))
    found = Bundle(folder).manifest.provenance["parity"]
    assert found["shapes"] == shapes
    assert found["max_logit_delta"] == pytest.approx(delta, rel=0.5)  # the last bits depend on where weights lie
    assert found["largest_logit"] == pytest.approx(largest)


def test_other_weights_do_not_pass(folder: Path) -> None:
    with pytest.raises(ExportError, match=r"logits differ from torch by .* at batch 1, length 1; at most 0\.0001"):
        gate(opened(folder), seed=1)


def test_a_graph_that_reads_padding_does_not_pass(folder: Path) -> None:
    rewire(folder, "attention_mask", "Max", 1)
    with pytest.raises(ExportError, match=r"logits differ from torch by .* at batch 2"):
        gate(opened(folder))


def test_a_graph_that_ignores_segments_does_not_pass(folder: Path) -> None:
    rewire(folder, "token_type_ids", "Mul", 0)
    with pytest.raises(ExportError, match="logits differ from torch"):
        gate(opened(folder))


def test_a_graph_that_confuses_token_ids_does_not_pass(folder: Path) -> None:
    rewire(folder, "input_ids", "Max", 20)
    with pytest.raises(ExportError, match="logits differ from torch"):
        gate(opened(folder))


@pytest.mark.parametrize("limit", [3, 16, 62, 64, 128, 512])
def test_lengths_include_the_shortest_the_longest_and_its_neighbour(limit: int) -> None:
    tried = verify.lengths(limit)
    assert {1, 2, limit - 1, limit} <= set(tried)
    assert tried == sorted(set(tried))
    assert max(tried) == limit


def test_batches_include_one_row_and_an_odd_number_of_rows() -> None:
    assert 1 in verify.BATCHES
    assert any(batch > 2 and batch % 2 for batch in verify.BATCHES)


def answer(label: str, score: float) -> dict[str, Any]:
    return {"label": label, "scores": [{"label": label, "score": score}], "tokens": 7}


def answers(*scores: float) -> Sequence[dict[str, Any]]:
    return [answer(SUITE.labels[0], score) for score in scores]


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("fp32", 1e-3), ("fp16", 2e-2), ("fp16-packed", 2e-2), ("int8", 2e-1)]
)
def test_scores_may_differ_within_the_tolerance_of_the_precision(precision: str, tolerance: float) -> None:
    near, far = 0.5 + 0.9 * tolerance, 0.5 + 1.1 * tolerance
    assert verify.compare(answers(0.5, 0.5), answers(0.5, near), precision) == pytest.approx(0.9 * tolerance)
    with pytest.raises(ExportError, match=f"{precision} changes the answer to example 1: answer.scores.0.score"):
        verify.compare(answers(0.5, 0.5), answers(0.5, far), precision)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "fp16-packed", "int8"])
def test_no_precision_may_change_a_label(precision: str) -> None:
    changed = [answer(SUITE.labels[1], 0.5)]
    with pytest.raises(ExportError, match=r"example 0: answer\.label"):
        verify.compare(answers(0.5), changed, precision)


@pytest.mark.parametrize("got", [[], [answer(SUITE.labels[0], 0.5)] * 2])
def test_every_example_needs_an_answer_of_both(got: Sequence[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="zip"):
        verify.compare(answers(0.5), got, "fp32")


def test_torch_answers_every_row_alone_and_unpadded() -> None:
    rows = [
        {"input_ids": np.arange(1, n + 1), "attention_mask": np.ones(n, np.int64), "token_type_ids": np.zeros(n, int)}
        for n in (3, 9)
    ]
    run = verify.torch_run(model(), ["logits"], list(rows[0]))
    together, alone = run(rows), [run([row])[0] for row in rows]
    for a, b in zip(together, alone, strict=True):
        assert np.array_equal(a["logits"], b["logits"])
    assert not np.array_equal(together[0]["logits"], together[1]["logits"])
