"""A graph that runs lists of unpadded rows: padding is invisible, order is kept, runs are as cheap as they can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import gather, load, write
from onnx import TensorProto, helper, numpy_helper

from service.bundle import Bundle
from service.errors import InternalError
from service.graph.binding import DeviceModel
from service.graph.session import MOST_TOKENS, Cost, Model, Session
from service.loading import open_graph
from service.types import Row

RNG = np.random.default_rng(7)
LENGTHS = [5, 64, 1, 17, 3, 64, 40, 2, 9, 33, 12, 1]


def row(length: int) -> Row:
    ids = RNG.integers(5, 200, length)
    return {
        "input_ids": ids,
        "attention_mask": np.ones(length, np.int64),
        "token_type_ids": (np.arange(length) > length // 2).astype(np.int64),
    }


def close(got: Sequence[dict], want: Sequence[dict]) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.keys() == w.keys()
        for name in w:
            assert g[name].shape == w[name].shape
            np.testing.assert_allclose(g[name], w[name], atol=1e-5, rtol=0)


@pytest.fixture(params=["klue/ynat", "klue/ner", "klue/mrc"])
def session(request: pytest.FixtureRequest, loaded: Callable) -> Iterator[Session]:
    found: Session = loaded(request.param).session
    cost = found.cost
    yield found
    found.cost = cost


@pytest.mark.parametrize("t0", [0.0, 1e-3, 1e3])
def test_an_answer_is_the_same_alone_and_in_any_mix(session: Session, t0: float) -> None:
    rows = [row(n) for n in LENGTHS]
    alone = [session.run_together([r])[0] for r in rows]
    session.cost = Cost(t0=t0, c=1e-4)  # one run a length, some runs, one run for all
    close(session.run(rows), alone)
    close(session.run(rows[::-1]), alone[::-1])
    close(session.run_together(rows), alone)


def test_outputs_by_token_are_trimmed_to_their_row_and_others_are_whole(loaded: Callable) -> None:
    rows = [row(n) for n in LENGTHS]
    assert [o["logits"].shape for o in loaded("klue/ner").session.run(rows)] == [(n, 13) for n in LENGTHS]
    assert [o["logits"].shape for o in loaded("klue/ynat").session.run(rows)] == [(7,)] * len(rows)
    assert [o["end_logits"].shape for o in loaded("klue/mrc").session.run(rows)] == [(n,) for n in LENGTHS]


def test_an_axis_of_choices_is_stacked_and_trimmed_like_any_other(loaded: Callable) -> None:
    session = loaded("clue/c3").session
    rows = [{name: np.stack([array] * n) for name, array in row(length).items()} for n, length in [(1, 9), (3, 30)]]
    got = session.run_together(rows)
    assert [o["logits"].shape for o in got] == [(1,), (3,)]
    close(got, [session.run_together([r])[0] for r in rows])


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_no_answer(copy_of: Callable[..., Path], number: float) -> None:
    """An fp16 graph overflows for some text; a softmax of that would be NaN, in JSON that nobody can read."""
    folder = copy_of("klue/ner")
    table = np.zeros((200, 13), np.float32)
    table[7, 3] = number
    gather(folder / "model.onnx", {"logits": table})
    session = load(folder).session
    rows = [row(5), row(9)]
    for ids in (r["input_ids"] for r in rows):
        ids[ids == 7] = 8
    assert len(session.run(rows)) == 2
    rows[1]["input_ids"][3] = 7
    with pytest.raises(InternalError, match="not finite"):
        session.run(rows)
    assert len(session.run(rows[:1])) == 1


def test_a_later_bundle_that_reads_more_with_the_same_encoder_is_warmed_up_too(
    bundle_of: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_graph(Bundle(bundle_of("klue/ynat")))
    (model,) = session._models[-1:]
    ran: list[tuple[int, ...]] = []
    hidden = model.hidden
    monkeypatch.setattr(model, "hidden", lambda arrays: ran.append(arrays[name].shape) or hidden(arrays))
    name = next(iter(model.inputs))
    first = model.measure("sequence_length", 16)
    ran.clear()
    assert model.measure("sequence_length", 40) == first
    assert model.measure("sequence_length", 16) == first
    assert [shape[:2] for shape in ran] == [(1, 40)]


def test_no_rows_are_no_runs(session: Session) -> None:
    assert session.run([]) == []


def test_every_run_is_reported_with_its_real_and_its_padded_tokens(bundle_of: Callable) -> None:
    seen: list[tuple[int, int, int]] = []
    session = open_graph(Bundle(bundle_of("klue/ynat")), on_run=lambda *run: seen.append(run))
    session.cost = Cost(t0=1e3, c=1e-4)
    session.run([row(3), row(10), row(7)])
    session.cost = Cost(t0=0, c=1e-4)
    session.run([row(3), row(10)])
    assert seen == [(3, 20, 30), (1, 3, 3), (1, 10, 10)]


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    for rest in partitions(items[1:]):
        yield [[items[0]], *rest]
        for i, group in enumerate(rest):
            yield [*rest[:i], [items[0], *group], *rest[i + 1 :]]


@given(
    st.lists(st.integers(1, 512), max_size=6),
    st.floats(0, 1, allow_subnormal=False),
    st.floats(1e-7, 1, allow_subnormal=False),
    st.floats(0, 1, allow_subnormal=False),
)
def test_no_grouping_is_predicted_to_be_cheaper(lengths: list[int], t0: float, c: float, r: float) -> None:
    cost = Cost(t0, c, r)

    def total(groups: list[list[int]]) -> float:
        return sum(cost.of(len(group), max(lengths[i] for i in group)) for group in groups)

    groups = cost.split(lengths)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    assert all(groups)
    assert total(groups) <= min(map(total, partitions(list(range(len(lengths)))))) * (1 + 1e-9)


@pytest.mark.parametrize("lengths", [[512] * 780, [1] * 40_000, [*range(1, 513)] * 3, [20_000, 5, 20_000, 512]])
@pytest.mark.parametrize("t0", [0.0, 1e-3, 1e3])
def test_no_run_is_larger_however_many_rows_there_are(lengths: list[int], t0: float) -> None:
    """All windows of a document were one run of as many gigabytes as it had pages."""
    groups = Cost(t0, 1e-4).split(lengths)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= MOST_TOKENS


@given(
    st.lists(st.sampled_from([1, 3000, 5000, 6000, 9000, 17_000]), max_size=6),
    st.floats(0, 1, allow_subnormal=False),
    st.floats(1e-7, 1, allow_subnormal=False),
)
def test_of_runs_that_are_not_too_large_no_grouping_is_cheaper(lengths: list[int], t0: float, c: float) -> None:
    cost = Cost(t0, c)

    def total(groups: list[list[int]]) -> float:
        return sum(cost.of(len(group), max(lengths[i] for i in group)) for group in groups)

    def fits(group: list[int]) -> bool:
        return len(group) == 1 or len(group) * max(lengths[i] for i in group) <= MOST_TOKENS

    allowed = [groups for groups in partitions(list(range(len(lengths)))) if all(map(fits, groups))]
    assert total(cost.split(lengths)) <= min(map(total, allowed)) * (1 + 1e-9)


def test_a_device_gets_the_largest_batches_that_are_measured() -> None:
    for rows, length in DeviceModel.batches:
        assert Cost(1e3, 1e-6).split([length] * rows) == [list(range(rows))]


def test_a_dear_start_makes_one_group_and_a_free_one_a_group_a_length() -> None:
    lengths = [9, 300, 8, 301, 9]
    assert Cost(10, 1e-6).split(lengths) == [[2, 0, 4, 1, 3]]
    assert Cost(0, 1e-3).split(lengths) == [[2], [0, 4], [1], [3]]


def test_a_run_costs_its_start_its_rows_and_its_padded_tokens() -> None:
    assert Cost(t0=1.0, c=0.1, r=0.5).of(rows=3, longest=20) == pytest.approx(1.0 + 3 * 0.5 + 3 * 20 * 0.1)
    assert Cost(1.0, 0.1, 0.5) + Cost(2.0, 0.2, 0.25) == Cost(3.0, pytest.approx(0.3), 0.75)


def test_measuring_fits_a_cost_that_grows_with_tokens(session: Session) -> None:
    cost = session.measure(64)
    assert session.cost is cost
    assert cost.t0 > 0
    assert cost.of(8, 64) > cost.of(1, 64) > cost.of(1, 8) > 0


@pytest.mark.parametrize("longest", [3, 8, 40])
def test_measuring_stays_within_the_models_length(bundle_of: Callable, longest: int) -> None:
    """A graph of few positions must not be warmed up past them."""
    assert open_graph(Bundle(bundle_of("klue/ynat"))).measure(longest).c > 0


def summing(path: Path, ids: int, mask: int) -> Session:
    """A graph with inputs of these types that answers the sums of ids, of the mask, and of the ids under the mask."""
    axes = ["batch", "tokens"]
    types = {"input_ids": ids, "attention_mask": mask}
    nodes = [helper.make_node("Cast", [name], [f"{name}_f"], to=TensorProto.FLOAT) for name in types]
    nodes.append(helper.make_node("Mul", ["input_ids_f", "attention_mask_f"], ["masked_f"]))
    sums = ["input_ids", "attention_mask", "masked"]
    nodes += [helper.make_node("ReduceSum", [f"{n}_f", "last"], [f"{n}_sum"], keepdims=0) for n in sums]
    inputs = [helper.make_tensor_value_info(name, kind, axes) for name, kind in types.items()]
    outputs = [helper.make_tensor_value_info(f"{name}_sum", TensorProto.FLOAT, ["batch"]) for name in sums]
    write(path, nodes, inputs, outputs, [numpy_helper.from_array(np.array([1]), "last")])
    return Session(Model(path), pads={"input_ids": 50})


@pytest.mark.parametrize("ids", [TensorProto.INT64, TensorProto.INT32])
@pytest.mark.parametrize("mask", [TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL, TensorProto.FLOAT16])
def test_rows_are_cast_to_the_types_that_the_graph_declares(tmp_path: Path, ids: int, mask: int) -> None:
    """Feeds of the platform's integer fail at the first request otherwise (huggingface/transformers#15575)."""
    session = summing(tmp_path / "model.onnx", ids, mask)
    rows = [{"input_ids": np.arange(n), "attention_mask": np.ones(n, np.int64)} for n in (3, 5, 2)]
    for got in (session.run(rows), session.run_together(rows)):
        assert [float(o["masked_sum"]) for o in got] == [3.0, 10.0, 1.0]
    assert session.measure(16).t0 > 0


def test_each_input_is_padded_with_its_own_value(tmp_path: Path) -> None:
    """Zeros are not padding to every model, and a mask padded with the ids' value would let the padding in."""
    session = summing(tmp_path / "model.onnx", TensorProto.INT64, TensorProto.INT64)
    rows = [{"input_ids": np.arange(n), "attention_mask": np.ones(n, np.int64)} for n in (2, 4)]
    got = session.run_together(rows)
    assert [float(o["input_ids_sum"]) for o in got] == [0 + 1 + 50 + 50, 0 + 1 + 2 + 3]
    assert [float(o["attention_mask_sum"]) for o in got] == [2, 4]
    assert [float(o["masked_sum"]) for o in got] == [1, 6]


def test_many_threads_with_mixed_lengths_get_what_one_thread_gets(session: Session) -> None:
    """Shared buffers showed requests each other's shapes (microsoft/onnxruntime#14998)."""
    takes = [[row(n) for n in RNG.integers(1, 64, 4)] for _ in range(96)]
    want = [session.run(take) for take in takes]
    with ThreadPoolExecutor(32) as executor:
        for got, expected in zip(executor.map(session.run, takes), want, strict=True):
            close(got, expected)
