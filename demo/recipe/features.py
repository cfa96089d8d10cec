"""Records -> token ids and targets, one function a kind of task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedTokenizerFast

from demo.recipe import dialogue
from demo.recipe.records import Record, Span
from demo.recipe.splits import held_out
from demo.recipe.tasks import Task

IGNORED = -100
WORD_MARK = "▁"
PART = 110
"""Longest part, in characters, of a text that is cut for training on entities."""
TIGHT_PERCENT = 75
NO_SPACE_BEFORE = frozenset(".,;:)]}%!?'/-")
NO_SPACE_AFTER = frozenset("([{'/-")


@dataclass(frozen=True)
class Feature:
    """One training example: token ids, segments, and the targets of its kind in `y`."""

    ids: list[int]
    types: list[int]
    y: dict[str, Any] = field(default_factory=dict)


def encode(task: Task, records: list[Record], tokenizer: PreTrainedTokenizerFast) -> list[Feature]:
    """Features of a task's records; records that cannot be expressed within the task's length are left out."""
    if task.kind == "classes" and task.windows:
        return _windows(task, records, tokenizer)
    return _ENCODERS[task.kind](task, records, tokenizer)


def _sequences(task: Task, records: list[Record], tokenizer: PreTrainedTokenizerFast) -> list[Feature]:
    pair = len(records[0].texts) == 2
    second = [record.texts[1] for record in records] if pair else None
    encoded = tokenizer(
        [record.texts[0] for record in records],
        second,
        truncation="longest_first" if pair else True,
        max_length=task.max_length,
        return_token_type_ids=True,
    )
    ids = {label: index for index, label in enumerate(task.labels)}
    targets = [{"y": float(r.label) if task.kind == "value" else ids[r.label]} for r in records]
    return [Feature(*row) for row in zip(encoded["input_ids"], encoded["token_type_ids"], targets, strict=True)]


def _windows(task: Task, records: list[Record], tokenizer: PreTrainedTokenizerFast) -> list[Feature]:
    """Overlapping windows of long texts, each with the label of its text."""
    encoded = tokenizer(
        [record.texts[0] for record in records],
        truncation=True,
        max_length=task.max_length,
        stride=task.windows,
        return_overflowing_tokens=True,
        return_token_type_ids=True,
    )
    ids = {label: index for index, label in enumerate(task.labels)}
    rows = zip(encoded["input_ids"], encoded["token_type_ids"], encoded["overflow_to_sample_mapping"], strict=True)
    return [Feature(a, b, {"y": ids[records[of].label], "of": of}) for a, b, of in rows]


def parts(text: str, limit: int = PART) -> list[tuple[int, str]]:
    """Cut a long text behind its last sentence mark, else comma, within `limit` characters; offset and part."""
    found, start = [], 0
    while len(text) - start > limit:
        window = text[start : start + limit]
        cut = next(
            (at for marks in ("。；;！？!?\n", "，,、 ") if (at := max(map(window.rfind, marks))) > limit // 3),
            limit - 1,
        )
        found.append((start, window[: cut + 1]))
        start += cut + 1
    return [*found, (start, text[start:])] if start < len(text) else found


def join_words(words: list[str], tight: bool) -> tuple[str, list[int]]:
    """English words as running text and where each starts; `tight` glues punctuation as print does."""
    text, starts = "", []
    for index, word in enumerate(words):
        glued = tight and (word[0] in NO_SPACE_BEFORE or (index > 0 and words[index - 1][-1] in NO_SPACE_AFTER))
        text += "" if index == 0 or glued else " "
        starts.append(len(text))
        text += word
    return text, starts


def word_spans(words: list[str], starts: list[int], tags: list[str]) -> list[Span]:
    """IOB tags of words -> spans of the joined text."""
    spans: list[Span] = []
    previous = False
    for word, start, tag in zip(words, starts, tags, strict=True):
        if tag.startswith("I-") and previous:
            spans[-1] = (spans[-1][0], start + len(word), tag[2:])
        elif tag[1:2] == "-":
            spans.append((start, start + len(word), tag[2:]))
        previous = tag[1:2] == "-"
    return spans


def character_tags(length: int, spans: list[Span], outside: str) -> list[str]:
    """Spans -> one BIO tag a character."""
    tags = [outside] * length
    for start, end, kind in spans:
        tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return tags


def _tokens(task: Task, records: list[Record], tokenizer: PreTrainedTokenizerFast) -> list[Feature]:
    labels = {label: index for index, label in enumerate(task.labels)}
    types = {kind: index for index, kind in enumerate(task.nested.labels)} if task.nested else {}
    outside = next(label for label in task.labels if label[1:2] != "-")
    rows: list[tuple[str, list[str], list[Span]]] = []
    for record in records:
        if record.words:
            tight = held_out(record.texts[0] + "tight", TIGHT_PERCENT)
            text, starts = join_words(record.words, tight)
            rows.append((text, character_tags(len(text), word_spans(record.words, starts, record.tags), outside), []))
        elif record.tags:
            rows.append((record.texts[0], record.tags, []))
        else:
            tags = character_tags(len(record.texts[0]), record.spans, outside)
            for at, part in parts(record.texts[0]):
                end = at + len(part)
                inside = [(a - at, b - at, kind) for a, b, kind in record.spans if at <= a and b <= end]
                rows.append((part, tags[at:end], inside))
    encoded = tokenizer(
        [row[0] for row in rows],
        truncation=True,
        max_length=task.max_length,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    mark = tokenizer.convert_tokens_to_ids(WORD_MARK)
    features = []
    for index, (_, tags, spans) in enumerate(rows):
        ids, offsets = encoded["input_ids"][index], encoded["offset_mapping"][index]
        y: dict[str, Any] = {
            "tags": [
                IGNORED if a == b else labels[outside if piece == mark and tags[a].startswith("B-") else tags[a]]
                for piece, (a, b) in zip(ids, offsets, strict=True)
            ]
        }
        if task.nested:
            # The last token that starts at a character is its own: a lone word mark has the offsets of what follows.
            first = {a: at for at, (a, b) in enumerate(offsets) if b > a}
            last = {b: at for at, (a, b) in enumerate(offsets) if b > a}
            y["spans"] = [
                (types[kind], first[a], last[b])
                for a, b, kind in spans
                if a in first and b in last and first[a] <= last[b]
            ]
        features.append(Feature(ids, encoded["token_type_ids"][index], y))
    return features


def tree_words(words: list[str], tokenizer: PreTrainedTokenizerFast, max_length: int) -> Feature | None:
    """First and last token of every word; None where a word is cut off."""
    encoded = tokenizer(
        " ".join(words),
        truncation=True,
        max_length=max_length,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    first, last, at = [], [], 0
    for word in words:
        inside = [i for i, (a, b) in enumerate(encoded["offset_mapping"]) if b > a and at <= a < at + len(word)]
        if not inside:
            return None
        first.append(inside[0])
        last.append(inside[-1])
        at += len(word) + 1
    return Feature(encoded["input_ids"], encoded["token_type_ids"], {"first": first, "last": last})


def _tree(task: Task, records: list[Record], tokenizer: PreTrainedTokenizerFast) -> list[Feature]:
    labels = {label: index for index, label in enumerate(task.labels)}
    features = []
    for record in records:
        feature = tree_words(record.words, tokenizer, task.max_length)
        if feature is not None:
            feature.y.update(heads=record.heads, relations=[labels[name] for name in record.tags])
            features.append(feature)
    return features


def _spans(task: Task, records: list[Record], tokenizer: PreTrainedTokenizerFast) -> list[Feature]:
    """Question in `ids`; the whole context and the answer's tokens in `y`: windows are drawn while training."""
    questions = tokenizer([r.texts[1] for r in records], add_special_tokens=False, truncation=True, max_length=64)
    seen: dict[str, tuple[list[int], list[tuple[int, int]]]] = {}
    features = []
    for record, question in zip(records, questions["input_ids"], strict=True):
        context = record.texts[0]
        if context not in seen:
            encoded = tokenizer(context, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            seen[context] = encoded["input_ids"], encoded["offset_mapping"]
        ids, offsets = seen[context]
        y: dict[str, Any] = {"context": ids, "offsets": offsets, "answer": None}
        if record.spans:
            start, end, _ = record.spans[0]
            first = [at for at, (a, b) in enumerate(offsets) if a <= start < b]
            last = [at for at, (a, b) in enumerate(offsets) if a < end <= b]
            if not first or not last or first[-1] > last[-1]:
                continue
            y["answer"] = (first[-1], last[-1])
        features.append(Feature(question, [], y))
    return features


def _dialogue(task: Task, records: list[Record], tokenizer: PreTrainedTokenizerFast) -> list[Feature]:
    gates = dialogue.Gates.of(task.specification)
    features = []
    for record in records:
        for turn in dialogue.turns(record.raw["dialogue"], tokenizer, task.max_length):
            y = dialogue.targets(turn.state, task.labels, gates, tokenizer, task.head["steps"])
            features.append(Feature(turn.ids, [0] * len(turn.ids), {**y, "state": turn.state}))
    return features


_ENCODERS = {
    "classes": _sequences,
    "value": _sequences,
    "tokens": _tokens,
    "tree": _tree,
    "spans": _spans,
    "dialogue": _dialogue,
}
