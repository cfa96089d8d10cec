"""More training for single heads after the joint one. The trunk stays as it is: its states are computed only once."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoTokenizer, BertConfig, BertModel

from demo.recipe import batches, features, model, splits
from demo.recipe.batches import Batch
from demo.recipe.features import Feature
from demo.recipe.tasks import Task

TOKENS = 6000


def run(tasks: dict[str, Task], data: Path, trunk_folder: Path, state: Path, out: Path, epochs: int) -> None:
    """Train the heads of `tasks` on from the saved `state` for `epochs`; `out` gets the state with the new heads."""
    saved = torch.load(state, weights_only=True)
    tokenizer = AutoTokenizer.from_pretrained(trunk_folder)
    config = BertConfig.from_pretrained(trunk_folder)
    trunk = model.Trunk(BertModel(config, add_pooling_layer=False), len(saved["trunk"]["markers"])).eval()
    trunk.load_state_dict(saved["trunk"])
    heads = model.heads(tasks, config.hidden_size, tokenizer)
    heads.load_state_dict({key: value for key, value in saved["heads"].items() if key.split(".")[0] in heads})
    for task in tasks.values():
        made = features.encode(task, splits.split(task, data).used, tokenizer)
        numbered = [replace(f, y={**f.y, "number": number}) for number, f in enumerate(made)]
        tune(task, heads, trunk.table, numbered, states(trunk, numbered), epochs)
    saved["heads"].update(heads.state_dict())
    torch.save(saved, out)


def states(trunk: model.Trunk, made: list[Feature]) -> list[Tensor]:
    """States [T,H] of every feature, in half precision."""
    found: list[Tensor] = [torch.empty(0)] * len(made)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for batch in batches.in_order(made, TOKENS):
            rows = trunk(batch.ids, batch.types, batch.mask).to(torch.float16)
            for y, row, length in zip(batch.y, rows, batch.mask.sum(1).tolist(), strict=True):
                found[y["number"]] = row[:length].clone()
    return found


def tune(
    task: Task,
    heads: nn.ModuleDict,
    table: Tensor,
    made: list[Feature],
    known: list[Tensor],
    epochs: int,
    rate: float = 1e-3,
    dropout: float = 0.1,
    seed: int = 0,
) -> list[float]:
    """Train the task's heads over the known states; the rate falls to zero. Returns the mean loss of every epoch."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    names = [task.name, *([task.pointer["head"]] if task.pointer else [])]
    parameters = [p for name in names for p in heads[name].parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    means = []
    for epoch in range(epochs):
        rounds = batches.once(task, made, rng)
        total = 0.0
        for number, batch in enumerate(rounds):
            for group in optimizer.param_groups:
                group["lr"] = rate * (1.0 - (epoch + number / len(rounds)) / epochs)
            rows = functional.dropout(_padded(known, batch), dropout)
            value = model.loss(task, heads, rows, batch, table)
            value.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            total += value.item()
        means.append(total / len(rounds))
        print(f"{task.name}, epoch {epoch + 1}: {means[-1]:.3f}", flush=True)
    return means


def _padded(known: list[Tensor], batch: Batch) -> Tensor:
    return nn.utils.rnn.pad_sequence([known[y["number"]].float() for y in batch.y], batch_first=True)
