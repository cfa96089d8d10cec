"""Joint training of the trunk and all heads: the next batch is always of the task furthest behind its token budget."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from transformers import AutoTokenizer, BertConfig

from demo.recipe import batches, features, model, splits, start
from demo.recipe.tasks import Task

MARKERS = 4
STATE = "state.pt"
MEETING = "meeting"


@dataclass(frozen=True)
class Plan:
    """How long and how fast. `deadline` and `save_every` are seconds; `warm` counts steps with the trunk frozen.

    `share` is the part of every task's token budget that this round may use; `begin` a state whose weights, but nothing
    else, the round starts from.

    `workers` processes of one thread each share the batches of a step: threads that meet at every matrix product lose
    most of their time as soon as anything else runs on the machine.
    """

    deadline: float
    share: float = 1.0
    begin: Path | None = None
    save_every: float = 300.0
    warm: int = 120
    trunk_rate: float = 2.5e-4
    head_rate: float = 1e-3
    rise: float = 0.06
    together: int = 2
    workers: int = 2
    clip: float = 1.0
    dropout: float = 0.1
    seed: int = 0


def build(tasks: dict[str, Task], trunk_folder: Path, weights: Path) -> tuple[model.Trunk, nn.ModuleDict, Any]:
    """Start weights under the trunk folder's configuration and tokenizer, fresh heads, and the tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(trunk_folder)
    config = BertConfig.from_pretrained(trunk_folder)
    # Few epochs: dropout on the output is enough.
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    bert = start.trunk(start.read(weights), config, tokenizer)
    return model.Trunk(bert, MARKERS), model.heads(tasks, config.hidden_size, tokenizer), tokenizer


class Trainer:
    """Trunk, heads, optimizer and where the training stands."""

    def __init__(
        self, tasks: dict[str, Task], trunk: model.Trunk, heads: nn.ModuleDict, plan: Plan, rank: int = 0
    ) -> None:
        self.tasks, self.trunk, self.heads, self.plan, self.rank = tasks, trunk, heads, plan, rank
        layers = list(trunk.bert.encoder.parameters())
        embeddings = [p for p in trunk.bert.embeddings.parameters() if p.requires_grad]
        self.trunk_parameters = [*layers, *embeddings]
        groups = [
            ([p for p in layers if p.dim() > 1], plan.trunk_rate, 0.01),
            ([p for p in layers if p.dim() == 1] + embeddings, plan.trunk_rate, 0.0),
            ([trunk.markers], plan.head_rate, 0.0),
            (list(heads.parameters()), plan.head_rate, 0.01),
        ]
        self.optimizer = torch.optim.AdamW(
            [{"params": params, "base": rate, "weight_decay": decay} for params, rate, decay in groups],
            betas=(0.9, 0.98),
        )
        self.done: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.losses: dict[str, float] = {}
        self.steps = 0
        self.elapsed = 0.0

    @property
    def progress(self) -> float:
        """0 to 1: by tokens or by time, whichever is further."""
        budget = self.plan.share * sum(task.tokens for task in self.tasks.values())
        return min(1.0, max(sum(self.done.values()) / budget, self.elapsed / self.plan.deadline))

    def step(self, streams: dict[str, Any], elapsed: float) -> None:
        """One optimizer step over batches of `together` different tasks, each computed by one of the workers.

        All workers draw all batches, so that they agree on everything but the clock: the first one's counts.
        """
        frozen = self.steps < self.plan.warm
        self._set_rates(frozen)
        chosen: list[str] = []
        values = torch.zeros(self.plan.together)
        for place in range(min(self.plan.together, len(self.tasks))):
            name = min((n for n in self.tasks if n not in chosen), key=lambda n: self._share(n, frozen))
            chosen.append(name)
            batch = next(streams[name])
            if place % self.plan.workers == self.rank:
                value = self._loss(self.tasks[name], batch, frozen)
                (value / self.plan.together).backward()
                values[place] = value.detach()
            self.seen[name] += 1
            self.done[name] += 0 if frozen else batch.ids.numel()
        groups = [[] if frozen else self.trunk_parameters, [] if frozen else [self.trunk.markers]]
        for name in chosen:
            pointer = self.tasks[name].pointer
            groups += [list(self.heads[key].parameters()) for key in [name, *([pointer["head"]] if pointer else [])]]
        facts = torch.cat([values, torch.tensor([elapsed if self.rank == 0 else 0.0])])
        facts = self._exchange([p for group in groups for p in group], facts)
        self.elapsed = float(facts[-1])
        for name, number in zip(chosen, facts.tolist(), strict=False):
            self.losses[name] = 0.95 * self.losses.get(name, number) + 0.05 * number
        for group in groups:
            nn.utils.clip_grad_norm_(group, self.plan.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.steps += 1

    def _exchange(self, parameters: list[nn.Parameter], facts: Tensor) -> Tensor:
        """Sum gradients and facts over the workers; the gradients are put back, the facts returned."""
        if self.plan.workers == 1:
            return facts
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([facts, *[part.flatten() for part in parts]])
        distributed.all_reduce(flat)
        at = len(facts)
        for parameter in parameters:
            parameter.grad = flat[at : at + parameter.numel()].view_as(parameter)
            at += parameter.numel()
        return flat[: len(facts)]

    def _share(self, name: str, frozen: bool) -> float:
        return self.seen[name] if frozen else self.done[name] / self.tasks[name].tokens

    def _set_rates(self, frozen: bool) -> None:
        left = 1.0 - self.progress
        rise = min(1.0, self.progress / self.plan.rise + 0.02)
        for index, group in enumerate(self.optimizer.param_groups):
            is_heads = index == len(self.optimizer.param_groups) - 1
            group["lr"] = group["base"] * (1.0 if frozen else max(0.02, left) if is_heads else rise * left)

    def _loss(self, task: Task, batch: batches.Batch, frozen: bool) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.set_grad_enabled(not frozen):
            states = self.trunk(batch.ids, batch.types, batch.mask)
        states = states.float()
        if not frozen:
            states = functional.dropout(states, self.plan.dropout)
        return model.loss(task, self.heads, states, batch, self.trunk.table)

    def save(self, path: Path) -> None:
        """Write everything that a later run needs to go on from here."""
        state = {
            "trunk": self.trunk.state_dict(),
            "heads": self.heads.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "counts": {"done": dict(self.done), "seen": dict(self.seen)},
            "steps": self.steps,
            "elapsed": self.elapsed,
        }
        torch.save(state, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)

    def begin(self, path: Path) -> None:
        """Take the weights of a saved state, and nothing else of it."""
        state = torch.load(path, weights_only=True)
        self.trunk.load_state_dict(state["trunk"])
        self.heads.load_state_dict(state["heads"])

    def resume(self, path: Path) -> None:
        """Go on from a saved state."""
        state = torch.load(path, weights_only=True)
        self.trunk.load_state_dict(state["trunk"])
        self.heads.load_state_dict(state["heads"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.done, self.seen = Counter(state["counts"]["done"]), Counter(state["counts"]["seen"])
        self.steps, self.elapsed = state["steps"], state["elapsed"]


def run(tasks: dict[str, Task], data: Path, trunk_folder: Path, weights: Path, out: Path, plan: Plan) -> None:
    """Train until the token budget or the deadline; `out` gets a state, from which an earlier run goes on."""
    out.mkdir(parents=True, exist_ok=True)
    (out / MEETING).unlink(missing_ok=True)
    arguments = (tasks, data, trunk_folder, weights, out, plan)
    if plan.workers == 1:
        _work(0, *arguments)
    else:
        torch.multiprocessing.spawn(_work, arguments, nprocs=plan.workers)


def _work(
    rank: int, tasks: dict[str, Task], data: Path, trunk_folder: Path, weights: Path, out: Path, plan: Plan
) -> None:
    if plan.workers > 1:
        torch.set_num_threads(1)
        meeting = f"file://{(out / MEETING).resolve()}"
        distributed.init_process_group("gloo", meeting, rank=rank, world_size=plan.workers)
    torch.manual_seed(plan.seed)  # the same heads in every worker
    trunk, heads, tokenizer = build(tasks, trunk_folder, weights)
    trunk.eval()
    trainer = Trainer(tasks, trunk, heads, plan, rank)
    state = out / STATE
    if state.exists():
        trainer.resume(state)
    elif plan.begin:
        trainer.begin(plan.begin)
    rng = random.Random(plan.seed + trainer.steps)
    streams = {}
    for task in tasks.values():
        made = features.encode(task, splits.split(task, data).used, tokenizer)
        streams[task.name] = batches.endless(task, made, random.Random(rng.random()))
    before = trainer.elapsed
    began = saved = time.monotonic()
    while trainer.progress < 1.0:
        now = time.monotonic()
        trainer.step(streams, before + now - began)
        if rank == 0 and trainer.steps % 50 == 0:
            report = " ".join(f"{name}:{value:.3f}" for name, value in trainer.losses.items())
            done = sum(trainer.done.values()) // 1000
            print(f"{trainer.elapsed:.0f} s, step {trainer.steps}, {done}k tokens: {report}", flush=True)
        if rank == 0 and now - saved > plan.save_every:
            trainer.save(state)
            saved = now
    if rank == 0:
        trainer.save(state)
    if plan.workers > 1:
        distributed.destroy_process_group()
