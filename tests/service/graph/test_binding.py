"""Models on a device answer as on the CPU, and what one computes for the next stays there.

The CPU stands in for a device: its arrays are bound in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from service.bundle import Bundle
from service.graph.binding import DeviceModel, open_model
from service.graph.session import Model, Session
from service.loading import open_graph
from service.types import Row

RNG = np.random.default_rng(11)
BundleOf = Callable[..., Path]


def row(length: int) -> Row:
    return {
        "input_ids": RNG.integers(5, 200, length),
        "attention_mask": np.ones(length, np.int64),
        "token_type_ids": np.zeros(length, np.int64),
    }


def bound(folder: Path) -> Session:
    """The bundle's graph, bound to a device."""
    graph = Bundle(folder).graph
    assert graph.encoder
    encoder, head = (DeviceModel(folder / file, "cpu") for file in (graph.encoder, graph.file))
    return Session(head, encoder=encoder, pads=graph.pads)


@pytest.mark.parametrize("suite", ["klue/ynat", "klue/ner", "klue/mrc"])
def test_answers_are_those_of_the_plain_run(bundle_of: BundleOf, suite: str) -> None:
    rows = [row(n) for n in (5, 64, 1, 17, 17)]
    plain, device = open_graph(Bundle(bundle_of(suite))), bound(bundle_of(suite))
    for want, got in zip(plain.run_together(rows), device.run_together(rows), strict=True):
        assert got.keys() == want.keys()
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])


def test_threads_do_not_see_each_others_arrays(bundle_of: BundleOf) -> None:
    session = bound(bundle_of("klue/ner"))
    takes = [[row(n) for n in RNG.integers(1, 64, 3)] for _ in range(32)]
    want = [session.run(take) for take in takes]
    with ThreadPoolExecutor(8) as executor:
        for got, expected in zip(executor.map(session.run, takes), want, strict=True):
            for g, e in zip(got, expected, strict=True):
                np.testing.assert_array_equal(g["logits"], e["logits"])


def test_hidden_states_are_not_fetched(bundle_of: BundleOf, monkeypatch: pytest.MonkeyPatch) -> None:
    session = bound(bundle_of("klue/ner"))
    read: list[str] = []
    head = session._models[-1]
    call = DeviceModel.__call__

    def watched(self: DeviceModel, arrays: dict) -> dict:
        read.extend(type(arrays[name]).__name__ for name in self.inputs)
        return call(self, arrays)

    monkeypatch.setattr(DeviceModel, "__call__", watched)
    (answer,) = session.run([row(9)])
    assert read == ["OrtValue"] * len(head.inputs)
    assert isinstance(answer["logits"], np.ndarray)


def test_arrays_and_values_of_a_device_are_inputs_alike(bundle_of: BundleOf) -> None:
    model = DeviceModel(bundle_of("klue/ner") / "encoder.onnx", "cpu")
    arrays = {name: array[None] for name, array in row(7).items()}
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}
    (want,) = model(arrays).values()
    (got,) = model(values).values()
    np.testing.assert_array_equal(got, want)


def test_its_cost_is_measured_in_runs_that_fill_a_device(bundle_of: BundleOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU takes as long for 8 tokens as for 2000; a cost from short runs alone would be off many times over."""
    seen: list[tuple[int, ...]] = []
    hidden = DeviceModel.hidden

    def watched(self: DeviceModel, arrays: dict) -> dict:
        seen.append(tuple(arrays["input_ids"].shape()))
        return hidden(self, arrays)

    monkeypatch.setattr(DeviceModel, "hidden", watched)
    model = DeviceModel(bundle_of("klue/ner") / "encoder.onnx", "cpu")
    cost = model.measure("sequence_length", 60)
    shapes = [(1, 8), (1, 32), (1, 60), (8, 16), (32, 60)]
    assert list(dict.fromkeys(seen)) == shapes
    assert seen[: len(shapes)] == shapes, "a kernel's first run, which loads it, is not one that counts"
    assert cost.of(32, 60) > cost.of(1, 60) > 0


def test_a_cpu_runs_plainly(bundle_of: BundleOf) -> None:
    assert type(open_model(bundle_of("klue/ner") / "model.onnx", "cpu")) is Model
