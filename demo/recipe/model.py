"""Trunk with trainable markers, one head a task, and every kind's loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertModel, PreTrainedTokenizerFast

from demo.recipe import dialogue
from demo.recipe.batches import Batch, pad
from demo.recipe.features import IGNORED
from demo.recipe.tasks import Task
from exporters.heads.biaffine import Biaffine
from exporters.heads.global_pointer import GlobalPointer
from exporters.heads.trade import Trade

MASKED = -1e4
POINTER_WEIGHT = 0.25
VALUE_WEIGHT = 0.3
SMOOTHING = 0.02


class Trunk(nn.Module):
    """The encoder. Its word embeddings stay as they are, but for the markers that the tokenizer added at the end."""

    def __init__(self, bert: BertModel, markers: int) -> None:
        super().__init__()
        self.bert = bert
        self.bert.embeddings.word_embeddings.weight.requires_grad_(False)
        self.first_marker = len(self.table) - markers
        self.markers = nn.Parameter(self.table[self.first_marker :].clone())

    @property
    def table(self) -> Tensor:
        """The word embeddings [V,H]."""
        return torch.as_tensor(self.bert.embeddings.word_embeddings.weight)

    def forward(self, ids: Tensor, types: Tensor, mask: Tensor) -> Tensor:
        """Ids, segments and mask [B,T] -> states [B,T,H]."""
        embedded = self.bert.embeddings.word_embeddings(ids)
        marked = ids >= self.first_marker
        if marked.any():
            rows = self.markers[(ids - self.first_marker).clamp(min=0)]
            embedded = torch.where(marked.unsqueeze(-1), rows, embedded)
        states = self.bert(inputs_embeds=embedded, token_type_ids=types, attention_mask=mask)
        return torch.as_tensor(states.last_hidden_state)


class SequenceHead(nn.Module):
    """Pooler over the first token and a classifier, as in BertForSequenceClassification."""

    def __init__(self, hidden: int, labels: int) -> None:
        super().__init__()
        self.pooler = _linear(hidden, hidden)
        self.classifier = _linear(hidden, labels)

    def forward(self, states: Tensor) -> Tensor:
        """States [B,T,H] -> logits [B,labels]."""
        return torch.as_tensor(self.classifier(torch.tanh(self.pooler(states[:, 0]))))


def _linear(size: int, out: int) -> nn.Linear:
    layer = nn.Linear(size, out)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def heads(tasks: dict[str, Task], hidden: int, tokenizer: PreTrainedTokenizerFast) -> nn.ModuleDict:
    """A fresh head for every task, and for every task that trains a global pointer beside its own."""
    made: dict[str, nn.Module] = {}
    for task in tasks.values():
        if task.kind == "classes":
            made[task.name] = SequenceHead(hidden, len(task.labels))
        elif task.kind == "value":
            made[task.name] = head = SequenceHead(hidden, 1)
            nn.init.constant_(head.classifier.bias, 2.5)  # the middle of the scale
        elif task.kind == "tokens":
            made[task.name] = _linear(hidden, len(task.labels))
        elif task.kind == "spans":
            made[task.name] = _linear(hidden, 2)
        elif task.kind == "tree":
            sizes = task.head["arc_size"], task.head["relation_size"]
            made[task.name] = Biaffine(hidden, len(task.labels), *sizes)
        else:
            slots = dialogue.slot_pieces(task.labels, tokenizer)
            gates, steps = len(task.head["gates"]), task.head["steps"]
            made[task.name] = Trade(hidden, slots, gates, steps, tokenizer.pad_token_id)
        if task.nested:
            size = (task.nested.head or {})["size"]
            made[task.pointer["head"]] = GlobalPointer(hidden, len(task.nested.labels), size)
    return nn.ModuleDict(made)


def loss(task: Task, made: nn.ModuleDict, states: Tensor, batch: Batch, table: Tensor) -> Tensor:
    """Loss of one batch of a task; `table` are the word embeddings."""
    head = made[task.name]
    if task.kind == "classes":
        return functional.cross_entropy(head(states), _ids(batch, "y"), label_smoothing=SMOOTHING)
    if task.kind == "value":
        gold = torch.tensor([y["y"] for y in batch.y])
        return VALUE_WEIGHT * functional.mse_loss(head(states)[:, 0], gold)
    if task.kind == "spans":
        scores = head(states).masked_fill(batch.mask.unsqueeze(-1) == 0, MASKED)
        first = functional.cross_entropy(scores[..., 0], _ids(batch, "start"))
        return (first + functional.cross_entropy(scores[..., 1], _ids(batch, "end"))) / 2
    if task.kind == "tokens":
        value = _entropy(head(states), pad([y["tags"] for y in batch.y], IGNORED))
        if task.pointer:
            scores = made[task.pointer["head"]](states, batch.mask)
            value = value + POINTER_WEIGHT * _pointer_loss(scores, batch)
        return value
    if task.kind == "tree":
        return _tree_loss(head, states, batch)
    return _dialogue_loss(head, states, batch, table, torch.tensor(task.gate_weights))


def _ids(batch: Batch, name: str) -> Tensor:
    return torch.tensor([y[name] for y in batch.y])


def _entropy(scores: Tensor, gold: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), gold.flatten(), ignore_index=IGNORED)


def _pointer_loss(scores: Tensor, batch: Batch) -> Tensor:
    """Softmax over all pairs of a type and a threshold of zero, for any number of right pairs (Su et al., 2022)."""
    gold = torch.zeros_like(scores)
    for index, y in enumerate(batch.y):
        for kind, first, last in y["spans"]:
            gold[index, kind, first, last] = 1
    scores, gold = scores.flatten(2), gold.flatten(2)
    zero = torch.zeros_like(scores[..., :1])
    wrong = torch.cat([scores - gold * 1e5, zero], -1).logsumexp(-1)
    right = torch.cat([-scores - (1 - gold) * 1e5, zero], -1).logsumexp(-1)
    return (wrong + right).mean()


def _tree_loss(head: nn.Module, states: Tensor, batch: Batch) -> Tensor:
    assert isinstance(head, Biaffine)
    first, last = pad([y["first"] for y in batch.y], 0), pad([y["last"] for y in batch.y], 0)
    words = pad([[1] * len(y["first"]) for y in batch.y], 0)
    gold = pad([y["heads"] for y in batch.y], IGNORED)
    vectors = head.words(states, first, last)
    relations = head.relations_at(vectors, gold.clamp(min=0))
    arcs = _entropy(head.arcs(vectors, words), gold)
    return arcs + _entropy(relations, pad([y["relations"] for y in batch.y], IGNORED))


def _dialogue_loss(head: nn.Module, states: Tensor, batch: Batch, table: Tensor, weights: Tensor) -> Tensor:
    """Gates of all slots, and the value's pieces of the pointer slots, each step given the right piece before it."""
    assert isinstance(head, Trade)
    queries, start = head.queries(table), head.start(states).unsqueeze(1)
    count = len(queries)
    inputs = queries.unsqueeze(0).expand(len(states), -1, -1)
    _, _, context, _ = head.step(inputs, start.expand(-1, count, -1), states, batch.mask)
    gates = pad([y["gates"] for y in batch.y], 0)
    value = functional.cross_entropy(head.w_gate(context).flatten(0, 1), gates.flatten(), weight=weights)
    most = max(len(y["slots"]) for y in batch.y)
    if most == 0:
        return value
    slots = pad([y["slots"] for y in batch.y], 0, most)
    empty: list[int] = []
    spoken = [[*y["values"], *[empty] * (most - len(y["values"]))] for y in batch.y]
    longest = max(len(ids) for row in spoken for ids in row)
    gold = torch.stack([pad(row, IGNORED, longest) for row in spoken])  # [B,P,K]
    hidden, inputs = start.expand(-1, most, -1), queries[slots]
    kept: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for step in range(longest):
        target = gold[..., step]
        hidden, attention, context, generate = head.step(inputs, hidden, states, batch.mask)
        copied = (attention * (batch.ids.unsqueeze(1) == target.unsqueeze(-1))).sum(-1)
        real = target != IGNORED
        kept.append((hidden[real], generate[real].squeeze(-1), copied[real], target[real]))
        inputs = table[target.clamp(min=0)]
    states_, generates, copies, targets = (torch.cat(part) for part in zip(*kept, strict=True))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = torch.matmul(states_, table.t())
    chance = torch.exp(-functional.cross_entropy(logits.float(), targets, reduction="none"))
    mixed = generates * chance + (1 - generates) * copies
    return value - torch.log(mixed + 1e-8).mean()
