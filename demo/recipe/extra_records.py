"""Examples for families without a data set of their own here, made from the data sets of others.

An example is a request and what is right. What is held out is written in the official format of the family's benchmark.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from demo.recipe.records import Record

CHOICES = 4
CANDIDATES = 6
BLANKS = range(2, 5)
JOINTS = frozenset("、，,；;和及与伴并或兼 +")
LONGEST_JOINT = 2
SLIP_FROM = 4
"""Characters of the shortest name that loses one."""


@dataclass(frozen=True)
class Example:
    """A request item, and its gold answer in the form of the benchmark's reader."""

    item: dict[str, Any]
    gold: Any


def choices(records: Sequence[Record], rng: random.Random) -> list[Example]:
    """Questions with four choices: the answer, other answers of the paragraph, then other answers of the article."""
    near, far = _answers(records, paragraph=True), _answers(records, paragraph=False)
    found = []
    for record in records:
        if not record.spans:
            continue
        context, question = record.texts
        answer = _text(record)
        offered = [answer]
        for pool in (near[context], far[record.key]):
            for other in rng.sample(pool, len(pool)):
                if len(offered) < CHOICES and not any(_alike(other, one) for one in offered):
                    offered.append(other)
        if len(offered) == CHOICES:
            rng.shuffle(offered)
            item = {"context": context, "question": question, "choices": offered}
            found.append(Example(item, offered.index(answer)))
    return found


def cloze(records: Sequence[Record], rng: random.Random) -> list[Example]:
    """Paragraphs with two to four answers blanked; candidates are these and others of the article, six in all."""
    pools = _answers(records, paragraph=False)
    paragraphs: dict[str, list[Record]] = {}
    for record in records:
        if record.spans:
            paragraphs.setdefault(record.texts[0], []).append(record)
    found, number = [], 0
    for text, asked in paragraphs.items():
        spans: list[tuple[int, int]] = []
        for start, end, _ in sorted(record.spans[0] for record in asked):
            new = not any(_alike(text[start:end], text[a:b]) for a, b in spans)
            if new and (not spans or spans[-1][1] <= start):
                spans.append((start, end))
        spans = spans[: BLANKS.stop - 1]
        words = [text[a:b] for a, b in spans]
        others = [word for word in pools[asked[0].key] if not any(_alike(word, one) for one in words)]
        wanted = CANDIDATES - len(words)
        if len(words) not in BLANKS or len(others) < wanted:
            continue
        candidates = [*words, *rng.sample(others, wanted)]
        rng.shuffle(candidates)
        gold, passage, at = {}, "", 0
        for (start, end), word in zip(spans, words, strict=True):
            number += 1
            blank = f"#idiom{number:06d}#"
            gold[blank] = candidates.index(word)
            passage += text[at:start] + blank
            at = end
        found.append(Example({"passages": [passage + text[at:]], "candidates": candidates}, gold))
    return found


def _alike(a: str, b: str) -> bool:
    """Whether one holds the other, so that both may be right."""
    return a in b or b in a


def _text(record: Record) -> str:
    start, end, _ = record.spans[0]
    return record.texts[0][start:end]


def _answers(records: Sequence[Record], paragraph: bool) -> dict[str, list[str]]:
    """Different answers of every paragraph, or of every article."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        if record.spans:
            found.setdefault(record.texts[0] if paragraph else record.key, {})[_text(record)] = None
    return {key: list(words) for key, words in found.items()}


def pairs(records: Sequence[Record]) -> list[Example]:
    """Sentences with the one annotated pair of each; gold is its relation and the type of its object."""
    found = []
    for record in records:
        item: dict[str, Any] = {"text": record.raw["sentence"]}
        for role in ("subject", "object"):
            entity = record.raw[f"{role}_entity"]  # its last index is inclusive
            item[role] = {"start": entity["start_idx"], "end": entity["end_idx"] + 1}
        found.append(Example(item, (record.label, record.raw["object_entity"]["type"])))
    return found


@dataclass(frozen=True)
class Mentions:
    """Names that were written one after the other: the stretch of text that holds them, and the place of each in it."""

    text: str
    spans: list[tuple[int, int]]

    @property
    def names(self) -> list[str]:
        return [self.text[a:b] for a, b in self.spans]


def mentions(records: Sequence[Record], kind: str) -> Iterator[Mentions]:
    """Names of one type as they stand in the texts: single ones, and enumerations with nothing but a joint between."""
    for record in records:
        text, run = record.texts[0], list[tuple[int, int]]()
        for start, end, other in [*record.spans, (len(text), len(text), kind)]:
            if other != kind or (run and start < run[-1][1]):
                continue
            between = text[run[-1][1] : start] if run else ""
            if run and (len(between) > LONGEST_JOINT or not JOINTS.issuperset(between) or start == end):
                first = run[0][0]
                yield Mentions(text[first : run[-1][1]], [(a - first, b - first) for a, b in run])
                run = []
            run.append((start, end))


def slip(found: Mentions, names: Sequence[str], rng: random.Random) -> str:
    """The text as a hasty writer would have it: every longer name lost a character, and became no other name."""
    text, at = "", 0
    for start, end in found.spans:
        name = found.text[start:end]
        places = [i for i in range(len(name)) if name[:i] + name[i + 1 :] not in names]
        if len(name) >= SLIP_FROM and places:
            place = rng.choice(places)
            name = name[:place] + name[place + 1 :]
        text += found.text[at:start] + name
        at = end
    return text
