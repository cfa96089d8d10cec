"""The classifier over marker states: what it reads, that the graph reads it too, and whose checkpoints it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny import own_model_for, tiny_suite, tokenizer_for
from torch import Tensor

from exporters.errors import ExportError
from exporters.export import export
from exporters.heads import Encoded, heads
from service.bundle import Bundle

SUITE = tiny_suite("cblue/cmeie-relations")
Save = Callable[..., Path]


def official(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names of CBLUE's REModel, with what it saves beside."""
    names = {name.replace("trunk.", "encoder.", 1).replace("head.", ""): value for name, value in tensors.items()}
    return names | {
        "encoder.embeddings.position_ids": torch.arange(64)[None],
        "encoder.pooler.dense.weight": torch.zeros(32, 32),
        "encoder.pooler.dense.bias": torch.zeros(32),
    }


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Path:
    """The checkpoint with its tensors changed, as a pickled state dict."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(change(tensors), folder / "pytorch_model.bin")
    return folder


def test_the_states_at_both_markers_are_classified_the_subjects_first() -> None:
    head = heads()["marker-state"](own_model_for("bert", SUITE, tokenizer_for("bert", SUITE)).config, ["a", "b"])
    states = torch.arange(2 * 5 * 32, dtype=torch.float32).reshape(2, 5, 32)
    with torch.no_grad():
        head.classifier.weight.zero_()
        head.classifier.bias.copy_(torch.tensor([0.5, 0.0]))
        head.classifier.weight[0, 0] = 1  # the subject's first number
        head.classifier.weight[1, 32] = 1  # the object's
    out = head(Encoded(states, None, states, states), {"marker_pos": torch.tensor([[1, 3], [4, 0]])})
    assert out["logits"].tolist() == [[32.5, 96.0], [160 + 128 + 0.5, 160.0]]


@pytest.mark.parametrize("length", [1, 2, 30])
def test_made_up_positions_lie_in_the_row(length: int) -> None:
    head = own_model_for("bert", SUITE, tokenizer_for("bert", SUITE)).head
    drawn = [head.sample(length, np.random.default_rng(seed))["marker_pos"] for seed in range(50)]
    assert {tuple(d.shape) for d in drawn} == {(2,)}
    assert {int(i) for d in drawn for i in d} <= set(range(length))
    assert len({tuple(d) for d in drawn}) > length / 2


def test_the_bundle_says_what_the_graph_takes_and_gives(bundle_of: Callable[[str], Path]) -> None:
    bundle = Bundle(bundle_of("cblue/cmeie-relations"))
    assert bundle.graph.inputs["marker_pos"] == [2]
    assert bundle.graph.outputs == {"logits": [54]}
    assert bundle.manifest.labels == SUITE.labels
    parity = bundle.manifest.provenance["parity"]
    assert parity["shapes"] == 32
    assert parity["max_logit_delta"] < 1e-4 < parity["largest_logit"]


def test_the_baselines_own_tensors_make_the_same_bundle(
    bundle_of: Callable[[str], Path], save: Save, tmp_path: Path
) -> None:
    source = rewrite(save(SUITE), official)
    done = export(str(source), SUITE, name="tiny", out=tmp_path / "out")
    got, want = Bundle(Path(done.place)).manifest, Bundle(bundle_of("cblue/cmeie-relations")).manifest
    assert [golden.answer["label"] for golden in got.golden] == [golden.answer["label"] for golden in want.golden]
    assert got.provenance["architecture"] == "MarkerState"


def without(name: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda tensors: {k: v for k, v in official(tensors).items() if k != name}


def changed(**tensors: Tensor) -> Callable[[dict[str, Tensor]], dict[str, Any]]:
    return lambda old: official(old) | {k.replace("_", "."): v for k, v in tensors.items()}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (without("classifier.weight"), r"read as 'REModel' it lacks head\.classifier\.weight"),
        (without("encoder.encoder.layer.0.output.dense.bias"), r"lacks trunk\.encoder\.layer\.0\.output\.dense\.bias"),
        (changed(crf_start=torch.zeros(3)), r"does not know crf\.start"),
        (changed(classifier_bias=torch.zeros(53)), r"other shapes: head\.classifier\.bias is \[53\], not \[54\]"),
    ],
)
def test_a_checkpoint_that_is_not_one_is_refused_and_the_tensor_named(
    save: Save, tmp_path: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]], why: str
) -> None:
    source = rewrite(save(SUITE), change)
    with pytest.raises(ExportError, match=why):
        export(str(source), SUITE, name="tiny", out=tmp_path / "out")
    assert not (tmp_path / "out" / "tiny").exists()
