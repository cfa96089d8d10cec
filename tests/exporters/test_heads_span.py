"""Heads of nested entities: what they compute, and checkpoints under our names and under those of others."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny import tiny_suite
from transformers import BertConfig

from exporters.errors import ExportError
from exporters.heads import Encoded
from exporters.heads.span_classification import GlobalPointerHead, StartEndHead

CMEEE, CMEDQANER = tiny_suite("cblue/cmeee-nested"), tiny_suite("chineseblue/cmedqaner-nested")
ENDS = CMEEE.model_copy(
    update={
        "labels": ["subject", "object"],
        "label_names": {},
        "head": {"type": "start-end"},
        "decoder": {"form": "ends", "alignment": "token", "stride": 16},
    }
)
ENCODER = {"trunk.": "encoder."}


def rename(folder: Path, names: dict[str, str], lost: str = "") -> None:
    """Write the checkpoint's tensors as another project would: prefixes replaced, in a pickled state dict."""
    theirs = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        old, new = next((o, n) for o, n in names.items() if name.startswith(o))
        theirs[new + name.removeprefix(old)] = tensor
    theirs.pop(lost, None)
    (folder / "model.safetensors").unlink()
    torch.save(theirs, folder / "pytorch_model.pt")


def manifest(place: str) -> Any:
    return json.loads((Path(place) / "bundle.json").read_text(encoding="utf-8"))


def encoded(states: torch.Tensor) -> Encoded:
    return Encoded(states, None, states, torch.zeros(0))


@pytest.mark.parametrize(
    ("suite", "names"),
    [
        (CMEEE, ENCODER | {"head.pointer.dense.": "dense."}),
        (CMEEE, {"trunk.": "bert.", "head.pointer.": "head."}),
        (CMEDQANER, {"trunk.": "bert.", "head.pointer.": "head."}),
        (
            ENDS,
            ENCODER
            | {
                f"head.{side}.{i}.": f"{role}_{side}layer."
                for side in ("start", "end")
                for i, role in enumerate(("sub", "obj"))
            },
        ),
    ],
    ids=["GlobalPointer_torch", "ours", "ours with a bias", "CMeIE's ERModel"],
)
def test_a_checkpoint_under_other_names_is_the_same_bundle(save, export_to, suite, names: dict[str, str]) -> None:
    source = save(suite)
    ours = manifest(export_to(source, suite).place)
    rename(source, names)
    theirs = manifest(export_to(source, suite).place)
    assert theirs["golden"] == ours["golden"]
    assert theirs["graph"] == ours["graph"]


@pytest.mark.parametrize(
    ("suite", "names", "lost", "complaint"),
    [
        (CMEEE, ENCODER | {"head.pointer.dense.": "dense."}, "dense.bias", r"lacks head\.pointer\.dense\.bias"),
        (CMEDQANER, {"trunk.": "bert.", "head.pointer.": "head."}, "head.bias", r"lacks head\.pointer\.bias$"),
        (ENDS, ENCODER | {"head.start.": "a.", "head.end.": "b."}, "a.1.weight", r"lacks .*head\.start\.1\.weight"),
    ],
)
def test_a_tensor_that_is_missing_is_named(save, export_to, suite, names, lost: str, complaint: str) -> None:
    source = save(suite)
    rename(source, names, lost)
    with pytest.raises(ExportError, match=complaint):
        export_to(source, suite)


def test_a_pointer_of_another_size_is_refused_with_both_shapes(save, export_to) -> None:
    source = save(CMEEE.model_copy(update={"head": {"type": "global-pointer", "size": 32}}))
    with pytest.raises(ExportError, match=r"head\.pointer\.dense\.bias is \[576\], not \[1152\]"):
        export_to(source, CMEEE)


def test_an_odd_size_is_refused(save, export_to) -> None:
    with pytest.raises(ExportError, match=r"cblue/cmeee-nested: head .* need an even one"):
        export_to(save(CMEEE), CMEEE.model_copy(update={"head": {"type": "global-pointer", "size": 7}}))


def test_labels_in_the_checkpoints_order_are_those_of_the_bundle(save, export_to) -> None:
    other = list(reversed(CMEEE.labels))
    source = save(CMEEE.model_copy(update={"labels": other}))
    assert manifest(export_to(source, CMEEE).place)["labels"] == other
    unnamed = save(CMEEE, id2label={i: f"LABEL_{i}" for i in range(9)}, label2id={f"LABEL_{i}": i for i in range(9)})
    with pytest.raises(ExportError, match="does not name its classes"):
        export_to(unnamed, CMEEE)
    assert manifest(export_to(unnamed, CMEEE, declared_labels=other).place)["labels"] == other


@pytest.mark.parametrize("architecture", ["bert", "xlm-roberta", "distilbert"])
@pytest.mark.parametrize("suite", [CMEEE, ENDS], ids=["matrix", "ends"])
def test_graph_and_torch_agree_in_every_shape(save, export_to, architecture: str, suite) -> None:
    done = export_to(save(suite, architecture), suite)
    assert done.parity.logit_delta < 1e-4
    assert done.parity.shapes == 32
    outputs = manifest(done.place)["graph"]["outputs"]
    length = "sequence_length"
    assert outputs == (
        {"scores": [9, length, length]} if suite is CMEEE else {"start": [length, 2], "end": [length, 2]}
    )


def test_scores_of_spans_are_turned_products_of_their_ends() -> None:
    torch.manual_seed(0)
    head = GlobalPointerHead(BertConfig(hidden_size=6), ["a", "b"], size=4)
    states, mask = torch.randn(1, 7, 6), torch.tensor([[1, 1, 1, 1, 1, 1, 0]])
    got = head(encoded(states), {"attention_mask": mask})["scores"][0].detach().numpy()
    made = head.pointer.dense(states)[0].detach().numpy().reshape(7, 2, 2, 4)

    def turned(vector: Any, place: int) -> Any:
        z = vector[::2] + 1j * vector[1::2]
        return z * np.exp(1j * place * np.array([1.0, 10000.0**-0.5]))

    for kind in range(2):
        for i in range(7):
            for j in range(7):
                inner = 1 <= i <= j <= 4
                product = turned(made[i, kind, 0], i) @ turned(made[j, kind, 1], j).conj()
                want = product.real / math.sqrt(4) if inner else -1e4
                assert got[kind, i, j] == pytest.approx(want, abs=1e-4), (kind, i, j)


def test_starts_and_ends_have_a_layer_a_type_and_side() -> None:
    head = StartEndHead(BertConfig(hidden_size=6), ["a", "b"])
    states = torch.randn(2, 3, 6)
    got = head(encoded(states), {})
    for side, layers in (("start", head.start), ("end", head.end)):
        for kind, layer in enumerate(layers):
            assert torch.allclose(got[side][..., kind], (states @ layer.weight.T + layer.bias)[..., 0])
