"""Entities, as spans or as runs of tags.

Gold is `[[start, end, type], ...]`, or `{"tags": [...]}` with a tag a character, or that and `"starts"` with a tag a
word. Where gold is tags, so is the prediction: the tags that the model gave the characters, or the words' first ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from benchmarks.metrics.base import Counts, Sum, confusion, macro_f1, micro_f1
from benchmarks.records import Record
from service.types import Answer
from suites import Suite

Entity = tuple[int, int, str]
SPACE = " "


def spans(tags: Sequence[str]) -> list[Entity]:
    """Entities of strict IOB2: a `B-`, then every `I-` of the same type; an `I-` that continues nothing is none."""
    found: list[Entity] = []
    start, kind = 0, ""
    for i, tag in enumerate([*tags, ""]):
        prefix, _, of = tag.partition("-")
        if kind and not (prefix == "I" and of == kind):
            found.append((start, i, kind))
            kind = ""
        if prefix == "B":
            start, kind = i, of
    return found


def _outside(suite: Suite) -> str:
    ignored = suite.decoder.get("ignore_labels", [])
    return next(label for label in suite.labels if "-" not in label and label not in ignored)


def _tags(record: Record, answer: Answer, suite: Suite) -> tuple[list[str], list[str]]:
    """Gold and predicted tags of the units that count: words, or characters other than spaces."""
    text = record.item["text"]
    predicted = answer["tags"] if answer else [_outside(suite)] * len(text)
    if "starts" in record.gold:
        return record.gold["tags"], [predicted[start] for start in record.gold["starts"]]
    kept = [i for i, character in enumerate(text) if character != SPACE]
    return [record.gold["tags"][i] for i in kept], [predicted[i] for i in kept]


def _entities(record: Record, answer: Answer, suite: Suite) -> tuple[list[Entity], list[Entity]]:
    if isinstance(record.gold, dict):
        gold, predicted = _tags(record, answer, suite)
        return spans(gold), spans(predicted)
    return [(s, e, t) for s, e, t in record.gold], [
        (e["start"], e["end"], e["type"]) for e in answer.get("entities", [])
    ]


def _by_type(record: Record, answer: Answer, suite: Suite) -> Counts:
    """Counts by type. Sentences are apart in the official flat sequence, so that no entity reaches across."""
    gold, predicted = map(set, _entities(record, answer, suite))
    counts: dict[Hashable, float] = {}
    for name, found in (("gold", gold), ("predicted", predicted), ("both", gold & predicted)):
        for _, _, kind in found:
            counts[name, kind] = counts.get((name, kind), 0) + 1
    return counts


def _by_tag(record: Record, answer: Answer, suite: Suite) -> Counts:
    """The official sequence also holds the first and the last special token of each sentence, tagged as outside."""
    gold, predicted = _tags(record, answer, suite)
    outside = [(_outside(suite), _outside(suite))] * 2
    return confusion([*outside, *zip(gold, predicted, strict=True)])


METRICS = {
    # seqeval in strict mode: the mean over the types that occur.
    "entity_macro_f1": Sum(_by_type, lambda totals, _: macro_f1(totals)),
    # Over every tag, the outside one too, although KLUE's own docstring says otherwise; one that never occurs counts 1.
    "char_macro_f1": Sum(_by_tag, lambda totals, suite: macro_f1(totals, suite.labels, absent=1.0)),
    "entity_micro_f1": micro_f1(_entities),
}
