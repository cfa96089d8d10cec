"""Triples in two steps, from sentences with one annotated pair each: a head for the places, one for the relation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from demo.recipe.extra_fit import Plan, fit_classes, fit_ends
from demo.recipe.extra_records import Example
from demo.recipe.extra_rows import Frozen, everything, markers
from exporters.heads import Encoded, Head
from service.types import Row
from suites import Suite

ROLES = ("subject", "object")
SHIFTS = [0.25 * step for step in range(-8, 17)]
BETA = 2.0
"""Of candidates, finding counts more than precision: the second step turns most of them down."""


@dataclass
class _Sentence:
    """A sentence, its encoding by the first stage and the states of its only window; the places it annotates."""

    example: Example
    encoded: Any
    states: Tensor
    gold: set[tuple[str, int, int]]


class _Ends(nn.Module):
    """Starts and ends of all roles side by side: [B,T,H] -> [B,T,2E]."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, states: Tensor) -> Tensor:
        out = self.head(Encoded(states, None, states, states), {})
        return torch.cat([out["start"], out["end"]], -1)


class Maker:
    """Both heads of a triple-extraction suite, whose first relation label is that of no relation."""

    def __init__(self, frozen: Frozen, suite: Suite, tuning: float, seed: int) -> None:
        torch.manual_seed(seed)
        self.frozen, self.suite, self.tuning = frozen, suite, tuning
        self.rng = random.Random(seed)
        first, second = suite.stages["entities"], suite.stages["relations"]
        self.finder, self.classifier = frozen.task(first), frozen.task(second)
        self.entities, self.relations = frozen.head(first), frozen.head(second)
        self.labels = {label: index for index, label in enumerate(second.labels)}
        self.none = second.labels[0]

    def train(self, examples: Sequence[Example]) -> list[str]:
        """Train both steps; the last part of the examples tunes epochs and thresholds."""
        sentences = self._sentences(self.rng.sample(list(examples), len(examples)))
        tuning = int(self.tuning * len(sentences))
        states, targets = [s.states for s in sentences], [_target(s) for s in sentences]
        fit_ends(_Ends(self.entities), states, targets, tuning, Plan(batch=32, rate=1e-2))
        found = self._shift_ends(sentences[-tuning:])
        rows, gold = self._pairs(sentences[:-tuning])
        vectors = torch.stack(self.frozen.states(rows, markers))
        layer = self.relations.classifier
        assert isinstance(layer, nn.Linear)
        few = int(self.tuning * len(gold))
        tuned = fit_classes(nn.Sequential(nn.Flatten(1), layer), vectors, gold, few, Plan(rate=5e-3))
        score = self._shift_none(sentences[-tuning:], layer)
        return [
            f"entities: {len(sentences)} sentences, recall {100 * found:.1f} % in the tuning part",
            f"relations: {len(gold)} pairs, {100 * tuned:.1f} % right in the tuning part",
            f"triples: F1 {100 * score:.1f} in the tuning part",
        ]

    def _sentences(self, examples: Sequence[Example]) -> list[_Sentence]:
        """Sentences that fit one window, and whose annotated places are tokens."""
        kept, rows = [], []
        for example in examples:
            encoded = self.finder.encode(self.finder.Input(text=example.item["text"]))
            if len(encoded.rows) == 1:
                kept.append((example, encoded))
                rows.append(encoded.rows[0])
        states = self.frozen.states(rows, everything)
        return [_Sentence(e, c, s, _places(e)) for (e, c), s in zip(kept, states, strict=True)]

    def _found(self, sentence: _Sentence) -> list[dict[str, Any]]:
        """The first step's answer, decoded as the service does."""
        with torch.no_grad():
            out = _Ends(self.entities)(sentence.states.float().unsqueeze(0))[0].numpy()
        half = out.shape[-1] // 2
        outputs = [{"start": out[:, :half], "end": out[:, half:]}]
        item = self.finder.Input(text=sentence.example.item["text"])
        entities: list[dict[str, Any]] = self.finder.decode(item, sentence.encoded, outputs)["entities"]
        return entities

    def _shift_ends(self, sentences: Sequence[_Sentence]) -> float:
        """Move all biases by what gives the best F-beta of annotated places; returns their recall."""
        biases = [p for name, p in self.entities.named_parameters() if name.endswith("bias")]
        best, recall, chosen, at = -1.0, 0.0, 0.0, 0.0
        for shift in SHIFTS:
            _move(biases, shift - at)
            at = shift
            right = found = gold = 0
            for sentence in sentences:
                places = {(e["text"], e["type"]) for e in self._found(sentence)}
                wanted = {(sentence.example.item["text"][a:b], role) for role, a, b in sentence.gold}
                right, found, gold = right + len(places & wanted), found + len(places), gold + len(wanted)
            score = (1 + BETA**2) * right / (BETA**2 * gold + found)
            if score > best:
                best, recall, chosen = score, right / gold, shift
        _move(biases, chosen - at)
        return recall

    def _candidates(self, sentence: _Sentence) -> list[dict[str, Any]]:
        """Requests to the second step, for every subject with every object that reads otherwise."""
        text = sentence.example.item["text"]
        seen: dict[str, dict[str, tuple[int, int]]] = {role: {} for role in ROLES}
        for entity in self._found(sentence):
            seen[entity["type"]].setdefault(entity["text"], (entity["start"], entity["end"]))
        return [
            {"text": text, "subject": {"start": a[0], "end": a[1]}, "object": {"start": b[0], "end": b[1]}}
            for s, a in seen["subject"].items()
            for o, b in seen["object"].items()
            if s != o
        ]

    def _pairs(self, sentences: Sequence[_Sentence]) -> tuple[list[Row], list[int]]:
        """Annotated pairs with their relation, and of every sentence one candidate that is not the annotated pair."""
        items: list[tuple[dict[str, Any], int]] = []
        for sentence in sentences:
            item, (relation, kind) = sentence.example.item, sentence.example.gold
            label = relation if relation == self.none else f"{relation}|{kind}"
            if label in self.labels:
                items.append((item, self.labels[label]))
            others = [c for c in self._candidates(sentence) if _strings(c) != _strings(item)]
            items += [(other, self.labels[self.none]) for other in self.rng.sample(others, min(1, len(others)))]
        self.rng.shuffle(items)
        rows = [self._row(item) for item, _ in items]
        return rows, [label for _, label in items]

    def _row(self, item: dict[str, Any]) -> Row:
        encoded: Row = self.classifier.encode(self.classifier.Input.model_validate(item)).rows[0]
        return encoded

    def _shift_none(self, sentences: Sequence[_Sentence], layer: nn.Linear) -> float:
        """Move the bias of no relation by what gives the best F1 of triples; returns it."""
        asked = [(i, c) for i, sentence in enumerate(sentences) for c in self._candidates(sentence)]
        if not asked:
            return 0.0
        vectors = torch.stack(self.frozen.states([self._row(c) for _, c in asked], markers))
        with torch.no_grad():
            logits = layer(vectors.flatten(1))
        names = list(self.labels)
        gold = {
            (i, *_strings(s.example.item), s.example.gold[0])
            for i, s in enumerate(sentences)
            if s.example.gold[0] != self.none
        }
        best, chosen = -1.0, 0.0
        for shift in SHIFTS:
            moved = logits.clone()
            moved[:, 0] += shift
            said = [names[index] for index in moved.argmax(-1).tolist()]
            found = {
                (i, *_strings(c), label.rpartition("|")[0])
                for (i, c), label in zip(asked, said, strict=True)
                if label != self.none
            }
            score = 2 * len(found & gold) / max(1, len(found) + len(gold))
            if score > best:
                best, chosen = score, shift
        with torch.no_grad():
            layer.bias[0] += chosen
        return best


def _strings(item: dict[str, Any]) -> tuple[str, str]:
    subject, obj = (item["text"][item[role]["start"] : item[role]["end"]] for role in ROLES)
    return subject, obj


def _places(example: Example) -> set[tuple[str, int, int]]:
    return {(role, example.item[role]["start"], example.item[role]["end"]) for role in ROLES}


def _target(sentence: _Sentence) -> Tensor:
    """0/1 of starts and ends [T,2E] at the tokens that hold a place's first and last character."""
    context = sentence.encoded.context
    target = torch.zeros(len(sentence.states), 2 * len(ROLES))
    for role, start, end in sentence.gold:
        first, last = context.text.position(start), context.text.position(end)
        inside = [i for i, (a, b) in enumerate(context.tokens.spans) if a < last and b > first]
        if inside:
            target[context.at + inside[0], ROLES.index(role)] = 1
            target[context.at + inside[-1], len(ROLES) + ROLES.index(role)] = 1
    return target


def _move(biases: Sequence[nn.Parameter], by: float) -> None:
    with torch.no_grad():
        for bias in biases:
            bias.add_(by)
