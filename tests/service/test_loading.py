"""What a bundle proves before it answers anybody: its files, its graph's axes, its golden records; and its family."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import edit
from onnx import TensorProto, helper, numpy_helper

from service.bundle import Bundle, sha256
from service.errors import BundleError
from service.graph.session import Cost
from service.loading import difference, open_bundle
from service.tasks import FAMILIES, family

Copy = Callable[..., Path]
SUITES = ["klue/ynat", "klue/nli", "klue/sts", "klue/re", "klue/ner", "klue/mrc", "clue/cmrc2018", "clue/c3"]
SUITES += ["cblue/cmeee-nested", "clue/cluener-crf"]
FAMILY_NAMES = {
    "text-classification",
    "pair-classification",
    "span-pair-classification",
    "token-classification",
    "question-answering",
    "multiple-choice",
    "dependency-parsing",
    "dialogue-state",
    "span-classification",
    "document-classification",
    "cloze",
    "triple-extraction",
    "term-normalization",
}


@pytest.mark.parametrize("suite", SUITES)
def test_an_exported_bundle_opens_and_is_measured(bundle_of: Callable[[str], Path], suite: str) -> None:
    runs: list[tuple[int, int, int]] = []
    bundle = Bundle(bundle_of(suite))
    task, session = open_bundle(bundle, "cpu", lambda *run: runs.append(run))
    assert type(task) is FAMILIES[bundle.manifest.family]
    assert session.cost != Cost(t0=1e-3, c=1e-4), "the cost of this machine was not measured"
    assert len(runs) == len(bundle.manifest.golden)


def change_golden(folder: Path, index: int, change: Callable[[dict[str, Any]], object]) -> None:
    golden = [record.model_dump() for record in Bundle(folder).manifest.golden]
    change(golden[index]["answer"])
    edit(folder, golden=golden)


def flip(answer: dict[str, Any]) -> None:
    answer["label"] = "세계" if answer["label"] != "세계" else "경제"


def drift(answer: dict[str, Any]) -> None:
    answer["score"] -= 0.01


def nudge(answer: dict[str, Any]) -> None:
    answer["score"] += 0.0005


@pytest.mark.parametrize("index", [0, 2])
@pytest.mark.parametrize(("change", "where"), [(flip, "answer.label"), (drift, "answer.score")])
def test_a_golden_record_that_differs_keeps_a_bundle_out(
    copy_of: Copy, index: int, change: Callable[[dict[str, Any]], object], where: str
) -> None:
    """The same graph is right on one machine and wrong on another (microsoft/onnxruntime#5849)."""
    folder = copy_of("klue/ynat")
    change_golden(folder, index, change)
    with pytest.raises(BundleError, match=f"golden record {index} differs at {where}") as refused:
        open_bundle(Bundle(folder), "cpu")
    assert str(folder) in str(refused.value)


def crowded(folder: Path) -> Path:
    """Make the logits grow with the rows of a run, as one scale for all of a batch's tokens would change them."""
    path = folder / "model.onnx"
    model = onnx.load(path)
    for node in model.graph.node:
        node.output[:] = ["own" if name == "logits" else name for name in node.output]
    model.graph.initializer.append(numpy_helper.from_array(np.array(0, np.int64), "first"))
    model.graph.node.extend(
        [
            helper.make_node("Shape", ["own"], ["sizes"]),
            helper.make_node("Gather", ["sizes", "first"], ["rows"]),
            helper.make_node("Cast", ["rows"], ["factor"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["own", "factor"], ["logits"]),
        ]
    )
    onnx.save(model, path)
    edit(folder, files={"model.onnx": sha256(path)})
    return folder


def test_a_graph_whose_answers_depend_on_company_is_refused(copy_of: Copy) -> None:
    """Alone every golden record is answered as it was: plain int8 has one scale for a whole batch."""
    with pytest.raises(BundleError, match=r"golden record \d differs beside the others at answer\.score"):
        open_bundle(Bundle(crowded(copy_of("klue/ynat"))), "cpu")


def test_a_golden_record_that_is_no_request_keeps_a_bundle_out(copy_of: Copy) -> None:
    folder = copy_of("klue/ynat")
    golden = [record.model_dump() for record in Bundle(folder).manifest.golden]
    golden[1]["item"] = {"txt": "a"}
    edit(folder, golden=golden)
    with pytest.raises(BundleError, match="golden record 1 is not a request"):
        open_bundle(Bundle(folder), "cpu")


def test_a_score_within_the_bundles_tolerance_is_no_difference(copy_of: Copy) -> None:
    folder = copy_of("klue/ynat")
    change_golden(folder, 0, nudge)
    open_bundle(Bundle(folder), "cpu")
    edit(folder, tolerance=1e-6)
    with pytest.raises(BundleError, match=r"golden record 0 differs at answer\.score"):
        open_bundle(Bundle(folder), "cpu")


def test_a_golden_record_that_cannot_be_answered_keeps_a_bundle_out(copy_of: Copy) -> None:
    folder = copy_of("klue/ynat")
    golden = Bundle(folder).manifest.golden[0].model_dump()
    edit(folder, golden=[golden | {"item": {"text": "\x07"}}])
    with pytest.raises(BundleError, match="golden record 0 fails: the text holds no characters"):
        open_bundle(Bundle(folder), "cpu")


@pytest.mark.parametrize(
    ("graph", "what"),
    [
        ({"outputs": {"logits": ["sequence_length", 7]}}, "the graph's outputs are"),
        ({"inputs": {"position_ids": ["sequence_length"]}}, "the graph's inputs are"),
        ({"inputs": {"input_ids": ["tokens"]}}, "the graph's inputs are"),
    ],
)
def test_a_graph_of_other_axes_than_its_bundle_says_is_refused(copy_of: Copy, graph: dict[str, Any], what: str) -> None:
    with pytest.raises(BundleError, match=what):
        open_bundle(Bundle(copy_of("klue/ynat", graph=graph)), "cpu")


def test_files_are_checked_before_anything_runs(copy_of: Copy) -> None:
    folder = copy_of("klue/ynat")
    (folder / "model.onnx.data").unlink()
    with pytest.raises(BundleError, match=r"model\.onnx\.data is listed in bundle\.json but missing"):
        open_bundle(Bundle(folder), "cpu")


def test_a_family_that_is_not_there_is_refused_with_the_nearest(copy_of: Copy) -> None:
    with pytest.raises(BundleError, match="unknown family 'token-clasification'; did you mean token-classification"):
        family(Bundle(copy_of("klue/ner", family="token-clasification")))
    with pytest.raises(BundleError, match="unknown family 'x'; there are cloze, dependency-parsing, dialogue-state, "):
        family(Bundle(copy_of("klue/ner", family="x")))


def test_every_family_registers_itself_by_being_there() -> None:
    assert FAMILIES.keys() == FAMILY_NAMES
    assert all(task.family == name for name, task in FAMILIES.items())


ANSWER = {"label": "a", "score": 0.5, "n": 3, "none": None, "flag": True, "scores": [{"label": "b", "score": 0.25}]}


def set_at(path: list[Any], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(ANSWER)
    target: Any = changed
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (["label"], "b", "answer.label"),
        (["score"], 0.502, "answer.score"),
        (["score"], None, "answer.score"),
        (["score"], True, "answer.score"),
        (["score"], "0.5", "answer.score"),
        (["score"], float("nan"), "answer.score"),
        (["n"], 4, "answer.n"),
        (["n"], 3.0, "answer.n"),
        (["none"], 0, "answer.none"),
        (["flag"], 1, "answer.flag"),
        (["scores"], [], "answer.scores"),
        (["scores", 0, "score"], 0.3, "answer.scores.0.score"),
        (["scores", 0], {"label": "b"}, "answer.scores.0"),
        (["more"], 1, "answer"),
    ],
)
def test_a_difference_is_named_by_its_path(path: list[Any], value: Any, where: str) -> None:
    problem = difference(ANSWER, set_at(path, value), 1e-3)
    assert problem is not None
    assert problem.split(":")[0] == where


@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(0, 1))
def test_numbers_may_differ_by_the_tolerance_and_no_more(a: float, b: float, tolerance: float) -> None:
    assert (difference({"x": a}, {"x": b}, tolerance) is None) == (abs(a - b) <= tolerance)


def test_equal_answers_do_not_differ() -> None:
    assert difference(ANSWER, copy.deepcopy(ANSWER), 0.0) is None
