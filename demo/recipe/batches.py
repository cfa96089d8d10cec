"""Features -> endless shuffled batches of padded tensors."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from demo.recipe.features import Feature
from demo.recipe.tasks import Task

PAD_ID = 1
TOKENS = 1800
MOST = 48
SORTED = 600
"""Examples that are sorted by length together: little padding, and still random batches."""
WINDOWS = (128, 160, 192, 224, 256)
MARGIN = 40
"""A window keeps at least so many tokens for the context."""


@dataclass(frozen=True)
class Batch:
    """Ids, segments and mask [B,T], and the targets of every example."""

    ids: Tensor
    types: Tensor
    mask: Tensor
    y: list[dict[str, Any]]


def pad(rows: Sequence[Sequence[int]], value: int, length: int | None = None) -> Tensor:
    """Rows of different lengths -> one int64 tensor."""
    width = length or max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])


def collate(features: Sequence[Feature]) -> Batch:
    """Stack features into a batch."""
    return Batch(
        pad([f.ids for f in features], PAD_ID),
        pad([f.types for f in features], 0),
        pad([[1] * len(f.ids) for f in features], 0),
        [f.y for f in features],
    )


def endless(task: Task, features: list[Feature], rng: random.Random) -> Iterator[Batch]:
    """Shuffled batches for ever."""
    while True:
        yield from once(task, features, rng)


def once(task: Task, features: list[Feature], rng: random.Random) -> list[Batch]:
    """Every feature once, in shuffled batches of about TOKENS padded tokens and at most MOST examples."""
    order = rng.sample(features, len(features))
    if task.kind == "spans":
        return list(_windows(task, order, rng))
    found: list[Batch] = []
    for start in range(0, len(order), SORTED):
        groups = list(in_order(order[start : start + SORTED], TOKENS, MOST))
        rng.shuffle(groups)
        found += groups
    return found


def in_order(features: Sequence[Feature], tokens: int, most: int | None = None) -> Iterator[Batch]:
    """Batches from short to long, of at most `tokens` padded tokens and `most` examples each."""
    group: list[Feature] = []
    for feature in sorted(features, key=lambda f: len(f.ids)):
        if group and (len(group) == most or (len(group) + 1) * len(feature.ids) > tokens):
            yield collate(group)
            group = []
        group.append(feature)
    if group:
        yield collate(group)


def _windows(task: Task, order: list[Feature], rng: random.Random) -> Iterator[Batch]:
    at = 0
    while at < len(order):
        width = rng.choice([size for size in WINDOWS if size <= task.max_length])
        count = max(4, TOKENS // width)
        chosen = [f for f in order[at : at + count] if _fits(f, width)]
        at += count
        if chosen:
            yield collate([window(f, rng, width, task.away) for f in chosen])


def _fits(feature: Feature, width: int) -> bool:
    first, last = feature.y["answer"] or (0, 0)
    return len(feature.ids) < width - MARGIN and last - first < width - len(feature.ids) - 8


def window(feature: Feature, rng: random.Random, width: int, away: float) -> Feature:
    """`<s> question </s></s> part of the context </s>`; with chance `away` a part that lacks the answer.

    Targets are the answer's first and last token, or 0 and 0 where the part does not hold it.
    """
    context, answer = feature.y["context"], feature.y["answer"]
    room = width - len(feature.ids) - 4
    latest = max(0, len(context) - room)
    if answer is None or (rng.random() < away and latest > 30):
        start = rng.randint(0, latest)
        for _ in range(4):
            if answer is None or answer[1] < start or answer[0] >= start + room:
                break
            start = rng.randint(0, latest)
    else:
        low, high = max(0, answer[1] - room + 1), min(answer[0], latest)
        start = rng.randint(low, high) if low <= high else max(0, answer[0] - 10)
    part = context[start : start + room]
    before = len(feature.ids) + 3
    y = {"start": 0, "end": 0}
    if answer is not None and start <= answer[0] and answer[1] < start + len(part):
        y = {"start": answer[0] - start + before, "end": answer[1] - start + before}
    ids = [0, *feature.ids, 2, 2, *part, 2]
    types = [0] * (len(feature.ids) + 2) + [1] * (len(part) + 2)
    return Feature(ids, types, y)
