"""What the extra heads leave behind: weights in the demo's layout, held-out examples in the benchmarks' formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from demo.recipe.extra_records import Example
from demo.recipe.model import SequenceHead
from exporters.heads import Head


def stock(folder: Path, architecture: str, head: SequenceHead) -> None:
    """A pooler and a classifier under the names of transformers."""
    names = {"pooler": "bert.pooler.dense", "classifier": "classifier"}
    tensors = {}
    for key, value in head.state_dict().items():
        module, _, kind = key.partition(".")
        tensors[f"{names[module]}.{kind}"] = value
    _head(folder, architecture, tensors)


def own(folder: Path, head: Head) -> None:
    """A head that transformers lacks."""
    _head(folder, type(head).__name__, {f"head.{key}": value for key, value in head.state_dict().items()})


def _head(folder: Path, architecture: str, tensors: dict[str, Tensor]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    halves = {key: value.to(torch.float16).contiguous() for key, value in tensors.items()}
    save_file(halves, folder / "head.safetensors", metadata={"format": "pt"})
    config: dict[str, Any] = {"architectures": [architecture]}
    if architecture.endswith("SequenceClassification"):
        config["problem_type"] = "single_label_classification"
    _write(folder / "config.json", json.dumps(config, indent=2) + "\n")


def choices(path: Path, examples: Sequence[Example]) -> None:
    """C3: a text, its questions, an id."""
    entries = []
    for number, example in enumerate(examples):
        item = example.item
        question = {"question": item["question"], "choice": item["choices"], "answer": item["choices"][example.gold]}
        entries.append([[item["context"]], [question], str(number)])
    _write(path, _dump(entries))


def cloze(path: Path, examples: Sequence[Example]) -> None:
    """ChID: a line a record, and the answers of all blanks in a file beside it."""
    lines = [{"content": e.item["passages"], "candidates": e.item["candidates"]} for e in examples]
    _write(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    answers = {blank: choice for example in examples for blank, choice in example.gold.items()}
    _write(path.with_name(f"{path.stem}_answer{path.suffix}"), _dump(answers))


def triples(path: Path, examples: Sequence[Example], none: str) -> None:
    """CMeIE: a line a sentence; the one whose annotated pair has the relation `none` has no triple."""
    lines = []
    for example in examples:
        text, (relation, kind) = example.item["text"], example.gold
        subject, obj = (text[example.item[role]["start"] : example.item[role]["end"]] for role in ("subject", "object"))
        triple = {"predicate": relation, "subject": subject, "object": {"@value": obj}, "object_type": {"@value": kind}}
        lines.append({"text": text, "spo_list": [] if relation == none else [triple]})
    _write(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def terms(path: Path, examples: Sequence[Example]) -> None:
    """CHIP-CDN: a text and its terms."""
    _write(path, _dump([{"text": e.item["text"], "normalized_result": "##".join(e.gold)} for e in examples]))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
