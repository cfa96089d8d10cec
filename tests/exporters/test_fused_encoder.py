"""An encoder for CUDA is fused, in float16 and feedable as before; packed, it reads real tokens alone.

Fused graphs run on a CPU too, with casts around what has no float16 kernel there. The kernels of packed ones are
CUDA's alone, so that those are computed in numpy here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import packed_reference
import pytest
from tiny import SIZES, checkpoint, tiny_suite

from exporters import checkpoint as checkpoints
from exporters import graph
from exporters.errors import ExportError
from exporters.export import _Builder
from exporters.fused import fused
from exporters.split import FILE, HIDDEN, save
from service.bundle import Bundle
from service.graph.session import Model

LAYERS = SIZES["num_hidden_layers"]
CONFIG = SimpleNamespace(**SIZES)
FUSED = {"Attention": LAYERS, "SkipLayerNormalization": 2 * LAYERS, "BiasGelu": LAYERS}
KNOWN = [("klue/ynat", "bert"), ("klue/ynat", "roberta"), ("klue/ynat", "xlm-roberta"), ("klue/ynat", "electra")]
KNOWN += [("clue/c3", "bert"), ("clue/c3", "roberta"), ("klue/dp", "bert"), ("clue/cluener-crf", "roberta")]
CELLS = pytest.mark.parametrize(("suite", "architecture"), KNOWN)
BundleOf = Callable[..., Path]


def encoder(bundle_of: BundleOf, suite: str = "klue/ynat", architecture: str = "bert") -> onnx.ModelProto:
    return onnx.load(bundle_of(suite, architecture) / FILE)


def kinds(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def signature(model: onnx.ModelProto) -> list[Any]:
    return [(v.name, v.type.tensor_type) for v in (*model.graph.input, *model.graph.output)]


def batch(model: onnx.ModelProto, lengths: tuple[int, ...]) -> dict[str, Any]:
    """Rows of these lengths, padded behind; of multiple choice, the choices of one question."""
    rng = np.random.default_rng(3)
    real = np.arange(max(lengths)) < np.array(lengths)[:, None]
    values = {"input_ids": np.where(real, rng.integers(5, 60, real.shape), 1), "attention_mask": real.astype(np.int64)}
    values["token_type_ids"] = (np.arange(max(lengths)) > 3) * real.astype(np.int64)
    ranks = {i.name: len(i.type.tensor_type.shape.dim) for i in model.graph.input}
    return {name: values[name][None] if rank == 3 else values[name] for name, rank in ranks.items()}


def near(got: Any, want: Any, lengths: tuple[int, ...]) -> None:
    """Equal at real tokens, within what float16 rounds."""
    for i, length in enumerate(lengths):
        np.testing.assert_allclose(got[i, :length], want[i, :length], atol=2e-2)


@CELLS
def test_every_layer_is_fused_and_everything_else_as_it_was(
    bundle_of: BundleOf, tmp_path: Path, suite: str, architecture: str
) -> None:
    raw = encoder(bundle_of, suite, architecture)
    model = fused(encoder(bundle_of, suite, architecture), CONFIG, packed=False)
    assert kinds(model) >= Counter(FUSED)
    assert not kinds(model)["Softmax"]
    assert signature(model) == signature(raw)
    weights = {w.data_type for w in model.graph.initializer if len(w.dims) == 2}
    assert weights == {onnx.TensorProto.FLOAT16}
    onnx.checker.check_model(model)
    lengths = (9, 4, 1)
    arrays = batch(model, lengths)
    want = Model(bundle_of(suite, architecture) / FILE)(arrays)[HIDDEN]
    near(Model(save(model, tmp_path / FILE))(arrays)[HIDDEN], want, lengths)


@CELLS
def test_a_packed_encoder_leaves_padding_out(bundle_of: BundleOf, suite: str, architecture: str) -> None:
    raw = encoder(bundle_of, suite, architecture)
    model = fused(encoder(bundle_of, suite, architecture), CONFIG, packed=True)
    found = kinds(model)
    assert found["PackedAttention"] == LAYERS
    assert (found["Attention"], found["RemovePadding"], found["RestorePadding"]) == (0, 1, 1)
    assert signature(model) == signature(raw)
    onnx.checker.check_model(model)
    lengths = (4, 9, 1)
    arrays = batch(model, lengths)
    got = packed_reference.run(model, arrays)[HIDDEN]
    near(got, Model(bundle_of(suite, architecture) / FILE)(arrays)[HIDDEN], lengths)
    assert not got[0, 4:].any(), "padding is not computed"


@pytest.mark.parametrize("packed", [False, True])
def test_equal_encoders_are_equal_after_fusion(bundle_of: BundleOf, packed: bool) -> None:
    """So that bundles of one trunk share it on a GPU as well."""
    one, two = (fused(encoder(bundle_of), CONFIG, packed).SerializeToString() for _ in range(2))
    assert one == two


@pytest.mark.parametrize("architecture", ["distilbert", "albert", "modernbert"])
def test_an_architecture_that_is_not_fused_is_refused(bundle_of: BundleOf, architecture: str) -> None:
    with pytest.raises(ExportError, match=r"\d Attention nodes after fusion .* 2 layers; .* --precision fp32"):
        fused(encoder(bundle_of, architecture=architecture), CONFIG, packed=False)


@pytest.mark.parametrize("precision", ["fp16", "fp16-packed"])
def test_a_graph_without_an_encoder_apart_is_refused(tmp_path: Path, precision: graph.Precision) -> None:
    suite = tiny_suite("klue/ynat")
    for name in ("checkpoint", "out", "scratch"):
        (tmp_path / name).mkdir()
    loaded = checkpoints.load(str(checkpoint("deberta-v2", suite, tmp_path / "checkpoint")), suite)
    with pytest.raises(ExportError, match=f"{precision} is for encoders, and DebertaV2For.* has none"):
        graph.export(loaded, suite.family, precision, tmp_path / "out", tmp_path / "scratch")


@pytest.mark.parametrize("name", ["klue/ner", "klue/dp"])
def test_a_fused_bundle_passes_the_gate_of_every_export(tmp_path: Path, name: str) -> None:
    """Verified on this CPU: its casts do not change what the weights were rounded to, nor how the graph was fused."""
    suite = tiny_suite(name)
    (tmp_path / "checkpoint").mkdir()
    source = checkpoint("bert", suite, tmp_path / "checkpoint")
    _Builder("fp16", "cpu", None, lambda _: None).build(str(source), suite, "tiny", tmp_path / "tiny")
    bundle = Bundle(tmp_path / "tiny")
    assert (bundle.graph.precision, bundle.manifest.tolerance) == ("fp16", 2e-2)
    assert bundle.graph.encoder == FILE
    assert 0 < bundle.manifest.provenance["parity"]["max_logit_delta"] < 5e-2
    weights = {w.data_type for w in onnx.load(bundle.folder / graph.FILE).graph.initializer}
    assert onnx.TensorProto.FLOAT16 not in weights, "heads are small, and stay in float32"
