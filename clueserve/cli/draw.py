"""Answers as people read them in a terminal, by kind."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Any

from clueserve.answers import (
    Answer,
    Choice,
    Classification,
    Cloze,
    DialogueState,
    Entities,
    LabelScore,
    QuestionAnswer,
    Terms,
    Tree,
    Triples,
    Word,
)
from clueserve.cli.paper import Paper, bar, table

MOST = 10
"""Classes that are listed; more are counted."""
AROUND = 120
"""Characters of a long context that are shown on each side of an answer."""

Item = Mapping[str, Any]


def page(answer: Answer, item: Item, paper: Paper) -> str:
    """An answer to a request."""
    return "\n".join(lines(answer, item, paper))


def note(answer: Answer) -> str:
    """How much was read, and how long it took."""
    parts = [f"{answer.tokens} tokens"]
    if answer.truncated:
        parts.append("the rest of the text is past the model's limit and was not read")
    if t := answer.timing:
        parts.append(f"queue {t.queue_ms:.1f} ms, tokenize {t.tokenize_ms:.1f} ms, inference {t.inference_ms:.1f} ms")
    return ", ".join(parts)


@singledispatch
def lines(answer: Answer, item: Item, paper: Paper) -> Sequence[str]:
    return [json.dumps(answer.raw, ensure_ascii=False, indent=2)]


@lines.register
def _(answer: Classification, item: Item, paper: Paper) -> Sequence[str]:
    if answer.value is not None:
        return [f"{paper.bold(f'{answer.value:g}')}" + (f"  {answer.label}" if answer.label else "")]
    scores = answer.scores or answer.labels
    if not scores:
        return ["no label past the threshold"]
    return _bars(scores, answer.label, paper)


def _bars(scores: Sequence[LabelScore], chosen: str | None, paper: Paper) -> list[str]:
    rows = [
        [paper.bold(s.label) if s.label == chosen else s.label, paper.tint(bar(s.score), s.label), f"{s.score:.3f}"]
        for s in scores[:MOST]
    ]
    more = [paper.dim(f"and {len(scores) - MOST} more; --json lists them")] if len(scores) > MOST else []
    return [*table(rows), *more]


@lines.register
def _(answer: Entities, item: Item, paper: Paper) -> Sequence[str]:
    found = answer.entities
    shown = [_marked(item["text"], [(e.start, e.end, e.type) for e in found], paper)] if _in_characters(item) else []
    if not found:
        return [*shown, "", "no entities"]
    rows = [[paper.tint(e.type, e.type), e.text, paper.dim(f"{e.start}-{e.end}"), f"{e.score:.3f}"] for e in found]
    return [*shown, "", *table(rows)]


def _in_characters(item: Item) -> bool:
    return "text" in item and item.get("offset_unit", "codepoint") == "codepoint"


def _marked(text: str, spans: Sequence[tuple[int, int, str]], paper: Paper) -> str:
    """The text with its spans in brackets that name them: `[여수 LC]에`. Spans may lie within each other."""
    opened: dict[int, list[str]] = defaultdict(list)
    closed: dict[int, list[str]] = defaultdict(list)
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        opened[start].append(paper.tint("[", kind))
        closed[end].insert(0, paper.tint(f" {kind}]" if kind else "]", kind))
    parts = []
    for i, character in enumerate(text):
        parts += [*closed[i], *opened[i], character]
    return "".join([*parts, *closed[len(text)]])


@lines.register
def _(answer: QuestionAnswer, item: Item, paper: Paper) -> Sequence[str]:
    null = f"  {answer.null_score:.3f}" if answer.null_score is not None else ""
    best = answer.answer
    said = [f"{paper.bold(best.text)}  {best.score:.3f}"] if best else [f"no answer in the context{null}"]
    if best and item.get("offset_unit", "codepoint") == "codepoint":
        context: str = item["context"]
        start, end = max(0, best.start - AROUND), min(len(context), best.end + AROUND)
        part = _marked(context[start:end], [(best.start - start, best.end - start, "")], paper)
        said += ["", f"{'… ' if start else ''}{part}{' …' if end < len(context) else ''}"]
    others = [a for a in answer.answers if a != best]
    return [*said, *([""] if others else []), *table([[a.text, f"{a.score:.3f}"] for a in others])]


@lines.register
def _(answer: Choice, item: Item, paper: Paper) -> Sequence[str]:
    rows = [
        [
            ">" if s.choice == answer.choice else " ",
            paper.bold(s.text) if s.choice == answer.choice else s.text,
            bar(s.score),
            f"{s.score:.3f}",
        ]
        for s in answer.scores
    ]
    return table(rows)


@lines.register
def _(answer: Cloze, item: Item, paper: Paper) -> Sequence[str]:
    return table([[paper.dim(b.blank), paper.bold(b.text), f"{b.scores[b.choice]:.3f}"] for b in answer.blanks])


@lines.register
def _(answer: Tree, item: Item, paper: Paper) -> Sequence[str]:
    below: dict[int, list[Word]] = defaultdict(list)
    for word in answer.words:
        below[word.head].append(word)
    return list(_branches(below, 0, "", paper))


def _branches(below: Mapping[int, list[Word]], head: int, margin: str, paper: Paper) -> Iterator[str]:
    words = below.get(head, [])
    for i, word in enumerate(words):
        last = i == len(words) - 1
        arm, further = ("", "") if not head else ("└── ", "    ") if last else ("├── ", "│   ")
        yield f"{margin}{arm}{word.form}  {paper.tint(word.relation, word.relation)}"
        yield from _branches(below, word.index, margin + further, paper)


@lines.register
def _(answer: DialogueState, item: Item, paper: Paper) -> Sequence[str]:
    if not answer.slots:
        return ["no slot is filled"]
    return table([[paper.tint(s.slot, s.slot), paper.bold(s.value), f"{s.score:.3f}"] for s in answer.slots])


@lines.register
def _(answer: Triples, item: Item, paper: Paper) -> Sequence[str]:
    if not answer.triples:
        return ["no triples"]
    rows = [
        [
            f"{t.subject.text} {paper.tint(t.subject.type, t.subject.type)}",
            f"── {t.predicate} →",
            f"{t.object.text} {paper.tint(t.object.type, t.object.type)}",
            f"{t.score:.3f}",
        ]
        for t in answer.triples
    ]
    return table(rows)


@lines.register
def _(answer: Terms, item: Item, paper: Paper) -> Sequence[str]:
    chosen = {term.name for term in answer.terms}
    rows = [
        [paper.bold(t.name) if t.name in chosen else t.name, t.code or "", "" if t.score is None else f"{t.score:.3f}"]
        for t in [*answer.terms, *(c for c in answer.candidates if c.name not in chosen)]
    ]
    return table(rows)
