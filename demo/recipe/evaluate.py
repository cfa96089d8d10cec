"""A quick look at staged heads: one or two scores a task on its held-out records, straight from torch.

Entities count by tokens and answers by characters, without the benchmarks' own normalisation: cards quote
`python -m benchmarks accuracy` instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

from demo.recipe import batches, features, model, splits, stage
from demo.recipe.batches import Batch
from demo.recipe.dialogue import Gates
from demo.recipe.features import Feature
from demo.recipe.tasks import Task

Scores = dict[str, float]
TOKENS = 6000
OVERLAP = 64
LONGEST_ANSWER = 50


class Judge:
    """Staged trunk and heads, ready to be scored."""

    def __init__(self, tasks: dict[str, Task], trunk_folder: Path, staged: Path) -> None:
        self.tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(trunk_folder)
        self.bert = BertModel(BertConfig.from_pretrained(trunk_folder), add_pooling_layer=False).eval()
        tensors = load_file(staged / stage.TRUNK / "model.safetensors")
        self.bert.load_state_dict({key: value.float() for key, value in tensors.items()})
        self.heads = model.heads(tasks, self.bert.config.hidden_size, self.tokenizer).eval()
        self.table: Tensor = self.bert.embeddings.word_embeddings.weight
        kinds = {task.name: task.kind for task in tasks.values()}
        for name, head in self.heads.items():
            head.load_state_dict(stage.read_head(staged / stage.HEADS / name, kinds.get(name, stage.POINTER)))

    def score(self, task: Task, data: Path, limit: int | None = None) -> Scores:
        """Scores, in percent, on the first `limit` held-out records."""
        records = splits.split(task, data).held[:limit]
        made = features.encode(task, records, self.tokenizer)
        if task.kind == "spans":
            made = list(_answer_windows(made, task.max_length))
        results: list[tuple[dict[str, Any], Any]] = []
        with torch.no_grad():
            for batch in batches.in_order(made, TOKENS):
                states = self.bert(batch.ids, token_type_ids=batch.types, attention_mask=batch.mask).last_hidden_state
                results += zip(batch.y, self._answers(task, states, batch), strict=True)
        scores = _SCORES[task.kind](results, task)
        return {"n": float(len(records)), **scores}

    def _answers(self, task: Task, states: Tensor, batch: Batch) -> Sequence[Any]:
        head = self.heads[task.name]
        lengths = batch.mask.sum(1).tolist()
        if task.kind == "tree":
            rows = [batches.pad([y[name] for y in batch.y], 0) for name in ("first", "last")]
            words = batches.pad([[1] * len(y["first"]) for y in batch.y], 0)
            arcs, relations = head(states, *rows, words)
            return list(zip(arcs.argmax(-1).tolist(), relations.argmax(-1).tolist(), strict=True))
        if task.kind == "dialogue":
            gates, ids = head(states, batch.ids, batch.mask, self.table)
            return [self._state(task, *row) for row in zip(gates.argmax(-1).tolist(), ids.tolist(), strict=True)]
        scores = head(states)
        if task.kind == "tokens":
            tags = [row[:length] for row, length in zip(scores.argmax(-1).tolist(), lengths, strict=True)]
            spans = self._pointer(task, states, batch) if task.pointer else [None] * len(tags)
            return list(zip(tags, spans, strict=True))
        return list(scores)

    def _pointer(self, task: Task, states: Tensor, batch: Batch) -> list[set[tuple[int, ...]]]:
        found = self.heads[task.pointer["head"]](states, batch.mask) > 0
        return [{tuple(place) for place in row.nonzero().tolist()} for row in found]

    def _state(self, task: Task, gates: list[int], ids: list[list[int]]) -> dict[str, str]:
        kinds, special = Gates.of(task.specification), set(self.tokenizer.all_special_ids)
        state = {}
        for slot, gate, pieces in zip(task.labels, gates, ids, strict=True):
            text = self.tokenizer.decode(list(takewhile(lambda piece: piece not in special, pieces)))
            for old, new in task.specification.decoder["replace"].items():
                text = text.replace(old, new)
            value = kinds.value(gate, text.strip())
            if value is not None:
                state[slot] = value
        return state


def _answer_windows(made: list[Feature], width: int) -> Iterator[Feature]:
    for number, feature in enumerate(made):
        room, start = width - len(feature.ids) - 4, 0
        while True:
            part = feature.y["context"][start : start + room]
            ids = [0, *feature.ids, 2, 2, *part, 2]
            first = len(feature.ids) + 3
            y = {"of": number, "first": first, "at": start, "length": len(part), "gold": feature.y["answer"]}
            yield Feature(ids, [0] * (first - 1) + [1] * (len(part) + 2), y)
            if start + room >= len(feature.y["context"]):
                break
            start += room - OVERLAP


def _f1(right: int, found: int, gold: int) -> float:
    return 200.0 * right / max(1, found + gold)


def _classes(results: list[tuple[dict[str, Any], Tensor]], task: Task) -> Scores:
    whole: dict[int, tuple[int, list[Tensor]]] = {}
    for number, (y, scores) in enumerate(results):
        whole.setdefault(y.get("of", number), (y["y"], []))[1].append(scores)
    pairs = [(gold, int(torch.stack(rows).mean(0).argmax())) for gold, rows in whole.values()]
    scores = {"accuracy": 100.0 * sum(a == b for a, b in pairs) / len(pairs)}
    classes = {gold for gold, _ in pairs}
    each = [_f1(*(sum(test) for test in _counts(pairs, kind))) for kind in classes]
    scores["macro_f1"] = sum(each) / len(each)
    if task.keep:
        rest = task.labels.index(task.keep["label"])
        right = sum(a == b != rest for a, b in pairs)
        scores["micro_f1"] = _f1(right, sum(b != rest for _, b in pairs), sum(a != rest for a, _ in pairs))
    return scores


def _counts(pairs: list[tuple[int, int]], kind: int) -> tuple[list[bool], list[bool], list[bool]]:
    return [a == b == kind for a, b in pairs], [b == kind for _, b in pairs], [a == kind for a, _ in pairs]


def _value(results: list[tuple[dict[str, Any], Tensor]], _: Task) -> Scores:
    pairs = torch.tensor([[y["y"], float(scores[0])] for y, scores in results])
    return {"pearson": 100.0 * float(torch.corrcoef(pairs.T)[0, 1])}


def _tokens(results: list[tuple[dict[str, Any], Any]], task: Task) -> Scores:
    counts, pointed = [0, 0, 0], [0, 0, 0]
    for y, (tags, spans) in results:
        # What a head says at special tokens covers no text: nobody taught it anything there.
        said = [tag if wanted >= 0 else wanted for tag, wanted in zip(tags, y["tags"], strict=True)]
        gold, found = _tag_spans(y["tags"], task), _tag_spans(said, task)
        for at, number in enumerate((len(gold & found), len(found), len(gold))):
            counts[at] += number
        if spans is not None:
            wanted = set(y["spans"])
            for at, number in enumerate((len(wanted & spans), len(spans), len(wanted))):
                pointed[at] += number
    return {"micro_f1": _f1(*counts)} | ({"pointer_micro_f1": _f1(*pointed)} if task.pointer else {})


def _tag_spans(tags: Sequence[int], task: Task) -> set[tuple[int, int, str]]:
    """Strict BIO spans of tag ids."""
    names = [task.labels[tag] if tag >= 0 else "" for tag in tags]
    spans: set[tuple[int, int, str]] = set()
    start, kind = -1, ""
    for at, name in enumerate([*names, ""]):
        if start >= 0 and name != f"I-{kind}":
            spans.add((start, at, kind))
            start = -1
        if name.startswith("B-"):
            start, kind = at, name[2:]
    return spans


def _spans(results: list[tuple[dict[str, Any], Tensor]], _: Task) -> Scores:
    """Exact match and token overlap; unanswerable questions are right when nothing beats their null score."""
    best: dict[int, tuple[float, int, int]] = {}
    null: dict[int, float] = {}
    gold: dict[int, tuple[int, int] | None] = {}
    for y, scores in results:
        of = y["of"]
        gold[of] = y["gold"]
        null[of] = min(null.get(of, 1e9), float(scores[0].sum()))
        inside = scores[y["first"] : y["first"] + y["length"]]
        table = inside[:, :1] + inside[:, 1]
        table = table.masked_fill(~torch.ones_like(table).tril(LONGEST_ANSWER - 1).triu().bool(), -1e9)
        score, place = table.flatten().max(0)
        if float(score) > best.get(of, (-1e9,))[0]:
            first, last = divmod(int(place), y["length"])
            best[of] = float(score), first + y["at"], last + y["at"]
    may_refuse = any(answer is None for answer in gold.values())
    exact = overlap = 0.0
    for of, answer in gold.items():
        score, first, last = best[of]
        if answer is None or (may_refuse and null[of] > score):
            right = float(answer is None and null[of] > score)
            exact, overlap = exact + right, overlap + right
            continue
        common = max(0, min(last, answer[1]) - max(first, answer[0]) + 1)
        exact += (first, last) == answer
        overlap += _f1(common, last - first + 1, answer[1] - answer[0] + 1) / 100
    return {"exact": 100 * exact / len(gold), "overlap": 100 * overlap / len(gold)}


def _tree(results: list[tuple[dict[str, Any], Any]], _: Task) -> Scores:
    rows = [
        (head == gold, head == gold and relation == name)
        for y, (heads, relations) in results
        for gold, name, head, relation in zip(y["heads"], y["relations"], heads, relations, strict=False)
    ]
    return {"uas": 100 * sum(a for a, _ in rows) / len(rows), "las": 100 * sum(b for _, b in rows) / len(rows)}


def _dialogue(results: list[tuple[dict[str, Any], dict[str, str]]], _: Task) -> Scores:
    exact, overlap = 0, 0.0
    for y, state in results:
        gold, found = set(y["state"].items()), set(state.items())
        exact += gold == found
        overlap += _f1(len(gold & found), len(found), len(gold)) if gold or found else 100.0
    return {"joint_goal_accuracy": 100 * exact / len(results), "slot_f1": overlap / len(results)}


_SCORES = {
    "classes": _classes,
    "value": _value,
    "tokens": _tokens,
    "spans": _spans,
    "tree": _tree,
    "dialogue": _dialogue,
}
