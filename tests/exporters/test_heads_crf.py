"""Taggers with a CRF, under our names and under those of others; in either convention the decoder gets one."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_suite
from transformers import BertConfig

from exporters.errors import ExportError
from exporters.heads import Encoded
from exporters.heads.crf import Crf
from service.tasks.viterbi import Crf as Chain
from service.tasks.viterbi import best_path

SUITE = tiny_suite("clue/cluener-crf")
CONFIG = BertConfig(hidden_size=8)


def rename(folder: Path, names: dict[str, str], **more: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write the checkpoint's tensors as another project would: prefixes replaced, in a pickled state dict."""
    ours = load_file(folder / "model.safetensors")
    theirs = {}
    for name, tensor in ours.items():
        old, new = next((o, n) for o, n in names.items() if name.startswith(o))
        theirs[new + name.removeprefix(old)] = tensor
    (folder / "model.safetensors").unlink()
    torch.save(theirs | more, folder / "pytorch_model.bin")
    return ours


def golden(place: str) -> Any:
    return json.loads((Path(place) / "bundle.json").read_text(encoding="utf-8"))["golden"]


BERT_CRF = {
    "trunk.": "bert.",
    "head.classifier.": "classifier.",
    "head.start": "crf.start_transitions",
    "head.end": "crf.end_transitions",
    "head.transitions": "crf.transitions",
}


def test_the_bundle_has_the_checkpoints_numbers(save, export_to) -> None:
    source = save(SUITE)
    done = export_to(source, SUITE)
    tensors = load_file(source / "model.safetensors")
    crf = json.loads((Path(done.place) / "bundle.json").read_text(encoding="utf-8"))["decoder"]["crf"]
    for name in ("transitions", "start", "end"):
        assert np.array_equal(np.array(crf[name], np.float32), tensors[f"head.{name}"].numpy())
    assert crf["span"] == "all"


def test_a_checkpoint_with_the_names_of_pytorch_crf_is_the_same_bundle(save, export_to) -> None:
    source = save(SUITE)
    ours = golden(export_to(source, SUITE).place)
    pooler = {f"bert.pooler.dense.{name}": torch.ones(1) for name in ("weight", "bias")}
    rename(source, BERT_CRF, **{"bert.embeddings.position_ids": torch.arange(64)}, **pooler)
    assert golden(export_to(source, SUITE).place) == ours


@pytest.mark.parametrize("lost", ["crf.end_transitions", "classifier.bias", "bert.embeddings.LayerNorm.weight"])
def test_a_tensor_that_is_missing_is_named(save, export_to, lost: str) -> None:
    source = save(SUITE)
    rename(source, BERT_CRF)
    tensors = torch.load(source / "pytorch_model.bin", weights_only=True)
    del tensors[lost]
    torch.save(tensors, source / "pytorch_model.bin")
    ours = {"crf.end_transitions": "head.end", "classifier.bias": "head.classifier.bias"}.get(lost, "trunk.embeddings")
    with pytest.raises(ExportError, match=rf"not a crf checkpoint; read as 'BertCrfForNer' it lacks {ours}"):
        export_to(source, SUITE)


def test_a_tagger_of_other_labels_is_refused_by_its_shapes(save, export_to) -> None:
    source = save(SUITE.model_copy(update={"labels": SUITE.labels[:5]}))
    with pytest.raises(ExportError, match=r"head\.classifier\.bias is \[5\], not \[34\]"):
        export_to(source, SUITE, declared_labels=["suite"])


def best_of_flair(emissions: Any, transitions: Any, start: int, stop: int) -> list[int]:
    """The best sequence where `transitions[i, j]` is tag i behind tag j, and two tags are the boundaries."""
    tags = [t for t in range(len(transitions)) if t not in (start, stop)]

    def score(path: tuple[int, ...]) -> float:
        steps = itertools.pairwise((start, *path, stop))
        return sum(transitions[b, a] for a, b in steps) + sum(emissions[t, c] for t, c in enumerate(path))

    return list(max(itertools.product(tags, repeat=len(emissions)), key=score))


@pytest.mark.parametrize("seed", range(8))
def test_transitions_by_column_with_boundary_tags_become_ours(seed: int) -> None:
    head = Crf(CONFIG, list("abcde"), convention="to-from", boundaries=(3, 4))
    assert {name for name, _ in head.named_parameters()} == {"transitions", "classifier.weight", "classifier.bias"}
    rng = np.random.default_rng(seed)
    matrix = rng.normal(scale=2, size=(5, 5))
    matrix[3, :] = matrix[:, 4] = -1e4  # nothing leads to the start, the stop leads nowhere
    head.transitions.data = torch.tensor(matrix, dtype=torch.float32)
    chain = Chain.model_validate(head.decoder()["crf"])
    emissions = rng.normal(scale=2, size=(4, 5)).astype(np.float32)
    assert best_path(emissions, *chain.arrays).tolist() == best_of_flair(emissions, matrix, 3, 4)


def test_a_checkpoint_with_boundary_tags_is_read_by_its_own_names(save, export_to) -> None:
    head = {"type": "crf", "span": "text", "convention": "to-from", "boundaries": [32, 33]}
    suite = SUITE.model_copy(update={"head": head})
    source = save(suite)
    tensors = load_file(source / "model.safetensors")
    save_file(
        {n.replace("head.transitions", "crf.transitions"): t for n, t in tensors.items()}, source / "model.safetensors"
    )
    rename(source, {"trunk.": "bert.", "head.classifier.": "classifier.", "crf.": "crf."})
    crf = json.loads((Path(export_to(source, suite).place) / "bundle.json").read_text(encoding="utf-8"))["decoder"][
        "crf"
    ]
    matrix = tensors["head.transitions"].numpy()
    assert np.array_equal(np.array(crf["transitions"], np.float32), matrix.T)
    assert np.array_equal(np.array(crf["start"], np.float32), matrix[:, 32])
    assert np.array_equal(np.array(crf["end"], np.float32)[:32], matrix[33, :32])
    assert crf["end"][32:] == [-1e4, -1e4]


@pytest.mark.parametrize(
    "sizes", [{"convention": "to-from"}, {"boundaries": [0, 1]}, {"span": "some"}, {"convention": "?", "colour": 1}]
)
def test_sizes_that_make_no_sense_are_refused(save, export_to, sizes: dict[str, Any]) -> None:
    with pytest.raises(ExportError, match="clue/cluener-crf: head"):
        export_to(save(SUITE), SUITE.model_copy(update={"head": {"type": "crf"} | sizes}))


def test_scores_of_tags_are_the_classifiers() -> None:
    head = Crf(CONFIG, list("ab"))
    states = torch.randn(2, 3, 8)
    empty = torch.zeros(0)
    got = head(Encoded(states, None, empty, empty), {})["logits"]
    assert torch.equal(got, states @ head.classifier.weight.T + head.classifier.bias)
