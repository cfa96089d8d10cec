"""Triples of subject, predicate and object: one model finds candidates, another classifies every pair of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field

from service.bundle import Bundle, Strict
from service.errors import BundleError, InvalidItem
from service.tasks.base import Reading
from service.tasks.chunks import in_chunks
from service.tasks.pipeline import Pipeline
from service.tasks.windowed import WindowedItem
from service.text import Offsets
from service.types import Answer, Run, Timing, rounded

ROWS = 64
"""Pairs of one run: a text's are one run as a rule, and those of many texts do not need memory without bounds."""


class Params(Strict):
    """`relations`: what may hold, in rows of subject type, predicate, object type. The label of a row is
    `predicate|object type`."""

    relations: Annotated[list[tuple[str, str, str]], Field(min_length=1)]


class PairParams(Params):
    """`roles`: the first step's labels for a subject and for an object. `max_pairs`: of more pairs in one text only the
    most probable ones are classified."""

    roles: tuple[str, str]
    max_pairs: Annotated[int, Field(ge=1)]


class Argument(BaseModel):
    text: str = Field(description="the caller's text from `start` to `end`")
    start: int
    end: int = Field(description="exclusive")
    type: str


class Triple(BaseModel):
    subject: Argument
    predicate: str
    object: Argument
    score: float = Field(description="the least of the probabilities of the subject, the object and the relation")


class Triples(Reading):
    triples: list[Triple] = Field(
        description="in order of the text; of triples that read the same only the first in the text"
    )


class Span(NamedTuple):
    """A mention, in code points of the caller's text."""

    start: int
    end: int


class Found(NamedTuple):
    """A triple; `relation` is its row."""

    subject: Span
    object: Span
    relation: tuple[str, str, str]
    score: float


def by_label(params: Params, folder: Path) -> Mapping[str, tuple[str, str, str]]:
    """The row of every label; BundleError if two rows have the same."""
    rows = {f"{predicate}|{kind}": (subject, predicate, kind) for subject, predicate, kind in params.relations}
    if len(rows) < len(params.relations):
        raise BundleError(f"{folder}: decoder.relations: rows repeat a predicate with an object type")
    return rows


def listed(item: WindowedItem, found: Iterable[Found]) -> list[dict[str, Any]]:
    """Triples as they are answered. Those of the same three strings are one, with the place of the first of them in the
    text and the best score: the benchmark counts strings."""
    merged: dict[tuple[str, str, str], tuple[Found, float]] = {}
    for one in sorted(found, key=lambda f: (f.subject, f.object, f.relation[1], -f.score)):
        key = (item.text[slice(*one.subject)], one.relation[1], item.text[slice(*one.object)])
        first, score = merged.get(key, (one, 0.0))
        merged[key] = first, max(score, one.score)
    offsets = Offsets(item.text, item.offset_unit)

    def argument(span: Span, kind: str) -> dict[str, Any]:
        start, end = map(offsets.outward, span)
        return {"text": item.text[slice(*span)], "start": start, "end": end, "type": kind}

    return [
        {
            "subject": argument(one.subject, one.relation[0]),
            "predicate": one.relation[1],
            "object": argument(one.object, one.relation[2]),
            "score": rounded(score),
        }
        for one, score in merged.values()
        if item.threshold is None or score >= item.threshold
    ]


class _Candidate(NamedTuple):
    span: Span
    score: float


class _Pair(NamedTuple):
    subject: _Candidate
    object: _Candidate

    @property
    def score(self) -> float:
        return min(self.subject.score, self.object.score)


class TripleExtraction(Pipeline):
    """One label of the second stage is no relation.

    A string that was found more than once is one candidate, where it was found first: in training, too, it was marked
    once.
    """

    family = "triple-extraction"
    stages = {"entities": "span-classification", "relations": "span-pair-classification"}
    Input = WindowedItem
    Output = Triples
    Params = PairParams

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self._rows = by_label(self.params, bundle.folder)
        roles, labels = (self.tasks[stage].manifest.labels for stage in ("entities", "relations"))
        if set(roles) != set(self.params.roles):
            raise BundleError(f"{bundle.folder}: stage entities finds {roles}, not {list(self.params.roles)}")
        if lost := self._rows.keys() - set(labels):
            raise BundleError(f"{bundle.folder}: stage relations has no labels {sorted(lost)}")
        if len(labels) != len(self._rows) + 1:
            strange = sorted(set(labels) - self._rows.keys())
            raise BundleError(f"{bundle.folder}: one label of stage relations is no relation, of {strange} which?")

    def limit(self, item: WindowedItem) -> float:
        # Of a token a character, which windows read twice where they overlap.
        read = 2 * len(item.text) if item.on_overflow == "window" else 0
        return float(read + self.longest["entities"] + self.params.max_pairs * self.longest["relations"])

    def predict(self, items: Sequence[Any], run: Run, timings: Sequence[Timing]) -> list[Answer | Exception]:
        results = self.ask("entities", [{"text": i.text, "on_overflow": i.on_overflow} for i in items], run, timings)
        pairs: list[list[_Pair]] = []
        cut: set[int] = set()
        for i, answer in enumerate(results):
            of, some = ([], False) if isinstance(answer, Exception) else self._pairs(answer)
            pairs.append(of)
            cut |= {i} if some else set()
        asked = [(i, pair) for i, of in enumerate(pairs) for pair in of]
        requests = [_request(items[i], pair) for i, pair in asked]
        answers = self.ask("relations", requests, in_chunks(run, size=ROWS), [timings[i] for i, _ in asked])
        found: list[list[Found]] = [[] for _ in items]
        tokens = [0 if isinstance(answer, Exception) else answer["tokens"] for answer in results]
        for (i, pair), answer in zip(asked, answers, strict=True):
            if isinstance(answer, InvalidItem):
                cut.add(i)  # too far apart to be read at once
            elif isinstance(answer, Exception):
                results[i] = answer
            else:
                tokens[i] += answer["tokens"]
                if (row := self._rows.get(answer["label"])) is not None:
                    score = min(pair.score, answer["score"])
                    found[i].append(Found(pair.subject.span, pair.object.span, row, score))
        for i, answer in enumerate(results):
            if not isinstance(answer, Exception):
                truncated = answer["truncated"] or i in cut
                results[i] = {"triples": listed(items[i], found[i]), "truncated": truncated, "tokens": tokens[i]}
        return results

    def _pairs(self, answer: Answer) -> tuple[list[_Pair], bool]:
        """Subjects with objects that read otherwise, and whether some of these pairs were left out."""
        subjects: dict[str, _Candidate] = {}
        objects: dict[str, _Candidate] = {}
        by_role = dict(zip(self.params.roles, (subjects, objects), strict=True))
        for e in answer["entities"]:
            by_role[e["type"]].setdefault(e["text"], _Candidate(Span(e["start"], e["end"]), e["score"]))
        most = self.params.max_pairs
        cut = len(subjects) * len(objects) - len(subjects.keys() & objects.keys()) > most
        if cut:
            # The best pairs are among the best of either (one of which may read as its partner does).
            subjects, objects = (dict(sorted(c.items(), key=_rank)[: most + 1]) for c in (subjects, objects))
        found = [_Pair(subjects[s], objects[o]) for s, o in product(subjects, objects) if s != o]
        return sorted(found, key=lambda pair: -pair.score)[:most] if cut else found, cut


def _rank(named: tuple[str, _Candidate]) -> float:
    return -named[1].score


def _request(item: WindowedItem, pair: _Pair) -> dict[str, Any]:
    spans = {"subject": pair.subject.span, "object": pair.object.span}
    return {"text": item.text, "top_k": 1} | {role: span._asdict() for role, span in spans.items()}
