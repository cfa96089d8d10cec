"""Training of small heads on kept states of the trunk: minutes of encoding, seconds of learning."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from demo.recipe.batches import pad


@dataclass(frozen=True)
class Plan:
    """How a head learns; of all epochs the one with the best score on the tuning part is kept."""

    epochs: int = 20
    batch: int = 64
    rate: float = 1e-3
    decay: float = 0.05
    dropout: float = 0.1
    seed: int = 0


Loss = Callable[[list[int]], Tensor]
Score = Callable[[], float]


def fit(head: nn.Module, count: int, loss: Loss, score: Score, plan: Plan) -> float:
    """Train on `count` examples by their numbers; returns the best score, whose weights the head has then."""
    torch.manual_seed(plan.seed)
    optimizer = torch.optim.AdamW(head.parameters(), lr=plan.rate, weight_decay=plan.decay)
    steps = plan.epochs * -(-count // plan.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1.0 - step / steps))
    best, kept = -1.0, copy.deepcopy(head.state_dict())
    for _ in range(plan.epochs):
        for indices in torch.randperm(count).split(plan.batch):
            optimizer.zero_grad()
            loss(indices.tolist()).backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            found = score()
        if found > best:
            best, kept = found, copy.deepcopy(head.state_dict())
    head.load_state_dict(kept)
    return best


def fit_choice(head: nn.Module, groups: Sequence[Tensor], gold: Sequence[int], tuning: int, plan: Plan) -> float:
    """`groups[i]` are the first states [C,H] of one question's choices; the last `tuning` groups choose the epoch."""
    train = len(groups) - tuning

    def logits(indices: Sequence[int], dropout: float) -> Tensor:
        sizes = [len(groups[i]) for i in indices]
        states = functional.dropout(torch.cat([groups[i] for i in indices]), dropout)
        flat = head(states.unsqueeze(1))[:, 0]
        rows = [functional.pad(row, (0, max(sizes) - len(row)), value=-1e4) for row in flat.split(sizes)]
        return torch.stack(rows)

    def loss(indices: list[int]) -> Tensor:
        return functional.cross_entropy(logits(indices, plan.dropout), torch.tensor([gold[i] for i in indices]))

    def score() -> float:
        chosen = logits(range(train, len(groups)), 0.0).argmax(-1)
        return float((chosen == torch.tensor(gold[train:])).float().mean())

    return fit(head, train, loss, score, plan)


def fit_classes(head: nn.Module, states: Tensor, gold: Sequence[int], tuning: int, plan: Plan) -> float:
    """States [N,...] with one class each, of which the last `tuning` choose the epoch by accuracy."""
    train, classes = len(states) - tuning, torch.tensor(gold)

    def loss(indices: list[int]) -> Tensor:
        logits = head(functional.dropout(states[indices], plan.dropout))
        return functional.cross_entropy(logits, classes[indices], label_smoothing=0.02)

    def score() -> float:
        return float((head(states[train:]).argmax(-1) == classes[train:]).float().mean())

    return fit(head, train, loss, score, plan)


def fit_ends(
    head: nn.Module, states: Sequence[Tensor], gold: Sequence[Tensor], tuning: int, plan: Plan, weight: float = 3.0
) -> float:
    """Token states [T,H] with 0/1 starts and ends [T,2E] of every row; `weight` is that of a 1.

    `head` gives logits [B,T,2E]. The score is the negative loss on the last `tuning` rows.
    """
    train = len(states) - tuning

    def value(indices: Sequence[int], dropout: float) -> Tensor:
        lengths = [len(states[i]) for i in indices]
        batch = nn.utils.rnn.pad_sequence([states[i].float() for i in indices], batch_first=True)
        target = nn.utils.rnn.pad_sequence([gold[i] for i in indices], batch_first=True)
        real = pad([[1] * length for length in lengths], 0).unsqueeze(-1)
        logits = head(functional.dropout(batch, dropout))
        each = functional.binary_cross_entropy_with_logits(
            logits, target, reduction="none", pos_weight=torch.tensor(weight)
        )
        return (each * real).sum() / real.sum()

    def loss(indices: list[int]) -> Tensor:
        return value(indices, plan.dropout)

    def score() -> float:
        return 1.0 / (1.0 + float(value(range(train, len(states)), 0.0)))

    return fit(head, train, loss, score, plan)
