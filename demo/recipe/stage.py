"""A trained state -> the demo's layout: the trunk once, a folder a head, everything in float16."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from demo.recipe.tasks import Task

TRUNK = "trunk"
HEADS = "heads"
FILE = "head.safetensors"
PLAIN = {
    "classes": ("BertForSequenceClassification", {"pooler.": "bert.pooler.dense.", "classifier.": "classifier."}),
    "value": ("BertForSequenceClassification", {"pooler.": "bert.pooler.dense.", "classifier.": "classifier."}),
    "tokens": ("BertForTokenClassification", {"": "classifier."}),
    "spans": ("BertForQuestionAnswering", {"": "qa_outputs."}),
}
OWN = {"tree": "DependencyParser", "dialogue": "DialogueState"}
POINTER = "GlobalPointer"


def write(tasks: dict[str, Task], state: Path, out: Path) -> list[Path]:
    """Write trunk and heads of a saved state under `out`; returns the folders. Cards and suites are written by hand."""
    saved = torch.load(state, weights_only=True)
    folders = [out / TRUNK]
    trunk = {key.removeprefix("bert."): value for key, value in saved["trunk"].items() if key.startswith("bert.")}
    markers = saved["trunk"]["markers"]
    trunk["embeddings.word_embeddings.weight"][-len(markers) :] = markers
    _save(trunk, folders[0] / "model.safetensors")
    for task in tasks.values():
        folders.append(_head(out / HEADS / task.name, task.kind, task.output, _part(saved["heads"], task.name)))
        if task.pointer:
            name = task.pointer["head"]
            folders.append(_head(out / HEADS / name, POINTER, "", _part(saved["heads"], name)))
    return folders


def _part(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    start = name + "."
    return {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}


def _head(folder: Path, kind: str, output: str, tensors: dict[str, Tensor]) -> Path:
    config: dict[str, Any] = {}
    if kind in PLAIN:
        architecture, names = PLAIN[kind]
        old, new = zip(*names.items(), strict=True)
        tensors = {_renamed(key, old, new): value for key, value in tensors.items()}
    else:
        architecture = OWN.get(kind, kind)
        tensors = {f"head.{key}": value for key, value in tensors.items()}
    config["architectures"] = [architecture]
    if kind == "classes":
        config["problem_type"] = "single_label_classification"
    elif kind == "value":
        config |= {"problem_type": "regression", "id2label": {"0": output}, "label2id": {output: 0}}
    _save(tensors, folder / FILE)
    (folder / "config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return folder


def _renamed(key: str, old: tuple[str, ...], new: tuple[str, ...]) -> str:
    for start, replacement in zip(old, new, strict=True):
        if key.startswith(start):
            return replacement + key.removeprefix(start)
    raise ValueError(f"{key} belongs to no head of this kind")


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    halves = {key: value.to(torch.float16).contiguous() for key, value in tensors.items()}
    save_file(halves, path, metadata={"format": "pt"})


def read_head(folder: Path, kind: str) -> dict[str, Tensor]:
    """The tensors of a head folder under the names of the recipe's module, in float32."""
    tensors = {key: value.float() for key, value in load_file(folder / FILE).items()}
    if kind not in PLAIN:
        return {key.removeprefix("head."): value for key, value in tensors.items()}
    new, old = zip(*PLAIN[kind][1].items(), strict=True)
    return {_renamed(key, old, new): value for key, value in tensors.items()}
