"""Rows as the service makes them of requests, and what the frozen trunk makes of rows.

A head that is trained on them reads the same in training as in service: template, truncation, windows and markers are
the suite's, applied by the family's own encoder.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer, BertConfig, BertModel

from demo.recipe.batches import pad
from exporters import manifests
from exporters.checkpoint import Checkpoint, capacity
from exporters.graph import FILE, inputs
from exporters.heads import Head, Model, heads
from service.bundle import FILE as MANIFEST
from service.bundle import Bundle, sha256
from service.graph.session import Session
from service.tasks import family
from service.types import Row
from suites import Suite

TOKENS = 6000
Pick = Callable[[Tensor, Row], Tensor]
"""What is kept of a row: its states [T,H] and the row itself -> a tensor."""


class Frozen:
    """A trunk that does not train, and its tokenizer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.config = BertConfig.from_pretrained(folder)
        self.bert = BertModel(self.config, add_pooling_layer=False).eval()
        tensors = load_file(folder / "model.safetensors")
        self.bert.load_state_dict({key: value.float() for key, value in tensors.items()})

    def head(self, suite: Suite) -> Head:
        """A fresh head of the suite's own type."""
        about = dict(suite.head or {})
        return heads()[about.pop("type")](self.config, suite.labels, **about)

    def task(self, suite: Suite) -> Any:
        """The suite's family, ready to encode and to decode: its bundle has everything but a graph."""
        head = self.head(suite) if suite.head else None
        model = Model(self.bert, head) if head else self.bert
        loaded = Checkpoint(str(self.folder), model, self.tokenizer, capacity(self.bert), segments=True)
        axes = SimpleNamespace(
            inputs=dict.fromkeys(inputs(loaded), ("batch", "tokens")) | (dict(head.inputs) if head else {}),
            outputs=dict(head.outputs) if head else {"logits": ("classes",)},
        )
        session = cast(Session, axes)  # nothing but its axes is read
        manifest = manifests.of_suite(suite, "extra") | manifests.of_checkpoint(loaded, suite, "fp32", session)
        manifest |= {"labels": suite.labels, "golden": [{"item": {}, "answer": {}}]}
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            (folder / "tokenizer.json").write_text(manifests.tokenizer(loaded, suite), encoding="utf-8")
            manifest["files"] = {FILE: "", "tokenizer.json": sha256(folder / "tokenizer.json")}
            (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
            bundle = Bundle(folder)
            return family(bundle)(bundle)

    def states(self, rows: Sequence[Row], pick: Pick) -> list[Tensor]:
        """What `pick` keeps of every row, in order."""
        kept: dict[int, Tensor] = {}
        group: list[int] = []
        lengths = [row["input_ids"].shape[-1] for row in rows]
        for index in sorted(range(len(rows)), key=lambda i: -lengths[i]):
            group.append(index)
            if (len(group) + 1) * lengths[group[0]] > TOKENS:
                self._run(rows, group, pick, kept)
                group = []
        if group:
            self._run(rows, group, pick, kept)
        return [kept[index] for index in range(len(rows))]

    def _run(self, rows: Sequence[Row], group: Sequence[int], pick: Pick, kept: dict[int, Tensor]) -> None:
        # A row of a family with choices has an axis of choices, of length one.
        ids, types = ([rows[i][name].reshape(-1).tolist() for i in group] for name in ("input_ids", "token_type_ids"))
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            states = self.bert(
                pad(ids, self.tokenizer.pad_token_id),
                token_type_ids=pad(types, 0),
                attention_mask=pad([[1] * len(row) for row in ids], 0),
            ).last_hidden_state.float()
        for index, row, state in zip(group, ids, states, strict=True):
            kept[index] = pick(state[: len(row)], rows[index]).clone()


def first(states: Tensor, row: Row) -> Tensor:
    """The first token's state [H]."""
    return states[0]


def everything(states: Tensor, row: Row) -> Tensor:
    """All states [T,H], in half precision: there are many."""
    return states.half()


def markers(states: Tensor, row: Row) -> Tensor:
    """States [2,H] of the two opening markers."""
    return states[torch.from_numpy(row["marker_pos"])]
