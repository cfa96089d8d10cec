"""The standard terms that a text means (CHIP-CDN): recalled from a catalogue, ranked in pairs with it, and counted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from service.bundle import Bundle, Strict
from service.errors import BundleError, InvalidItem
from service.tasks.base import Item, Reading, Text
from service.tasks.chunks import in_chunks
from service.tasks.pipeline import Pipeline
from service.tasks.recall import Recall
from service.text import normalize
from service.types import Answer, Array, Run, Timing, rounded

CATALOGUE = "catalogue.tsv"
ROWS = 256
"""Pairs of one run: all of one text's, and those of many texts without memory without bounds."""


class Params(Strict):
    """`candidates`: terms that are recalled and ranked. `match`: the ranker's label that says they mean the same, in
    truth from `threshold` on. `joints`: what joins several terms in a text as it was written. `strip`: characters that
    are left out at either end of it before anything else reads it."""

    candidates: Annotated[int, Field(ge=1)]
    match: str
    threshold: Annotated[float, Field(gt=0, lt=1)]
    joints: list[str]
    strip: str = ""


class TermItem(Item):
    text: Text
    top_k: (
        Annotated[int, Field(ge=1, description="how many terms of the ranking to list in `candidates`; none if absent")]
        | None
    ) = None


class Named(BaseModel):
    name: str
    code: str | None = Field(description="the catalogue's code, if it has one")


class Candidate(Named):
    score: float = Field(description="mean of half the likeness of the strings and the ranker's probability")


class Term(Named):
    score: float | None = Field(description="as in `candidates`; null where no term was found")


class Terms(Reading):
    terms: list[Term] = Field(description="best first; the text itself, without a code, where no term was found")
    candidates: list[Candidate] = Field(description="the ranking, whether or not a term is an answer")


class Ranking(NamedTuple):
    """Terms by their number in the catalogue, best first: the fused scores and the ranker's probabilities."""

    terms: Array
    scores: Array
    probabilities: Array


class TermNormalization(Pipeline):
    """Labels of the counter begin with the number of terms they mean; a text has at least one more than its joints.
    Names are recalled and ranked in half width, as CHIP-CDN's targets are, and answered as the catalogue has them."""

    family = "term-normalization"
    stages = {"ranker": "pair-classification", "counter": "text-classification"}
    Input = TermItem
    Output = Terms
    Params = Params

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        ranked, counted = (self.tasks[stage].manifest.labels for stage in ("ranker", "counter"))
        if self.params.match not in ranked:
            raise BundleError(f"{bundle.folder}: stage ranker has no label {self.params.match!r}, but {ranked}")
        self._numbers = {label: int(begin[0]) for label in counted if (begin := re.match(r"\d+", label))}
        if lost := set(counted) - self._numbers.keys():
            raise BundleError(f"{bundle.folder}: labels of stage counter begin with no number: {sorted(lost)}")
        n = self.manifest.normalization
        self._normalization = n.form, n.lowercase, {ord(k): v for k, v in n.replace.items()}
        self._catalogue = read_catalogue(bundle.asset(CATALOGUE))
        # Of what is replaced in a text, names have half width only: their separators are their own.
        half = {ord(k): narrow for k in n.replace if (narrow := unicodedata.normalize("NFKC", k)) != k}
        self._names = [name.translate(half).strip(self.params.strip) or name for name, _ in self._catalogue]
        self._recall = Recall(self._names)
        self._ranked: int = min(self.params.candidates, len(self._names))
        self._length = sum(map(len, self._names)) / len(self._names)

    def prepared(self, text: str) -> str:
        """A text as recall and both models read it."""
        return normalize(text, *self._normalization).text.strip(self.params.strip)

    def weight(self, item: TermItem) -> int:
        return len(item.text) + round(self._ranked * (len(item.text) + self._length))

    def limit(self, item: TermItem) -> float:
        return float(self.longest["counter"] + self._ranked * self.longest["ranker"])

    def predict(self, items: Sequence[Any], run: Run, timings: Sequence[Timing]) -> list[Answer | Exception]:
        texts = [self.prepared(item.text) for item in items]
        results = self.ask("counter", [{"text": text} for text in texts], run, timings)
        recalled: dict[int, tuple[Array, Array]] = {}
        for i, answer in enumerate(results):
            if not isinstance(answer, Exception):
                start = perf_counter()
                recalled[i] = self._recall.top(texts[i], self.params.candidates)
                timings[i].tokenize += perf_counter() - start
        asked = [(i, term) for i, (terms, _) in recalled.items() for term in terms.tolist()]
        requests = [{"text": texts[i], "text_pair": self._names[term]} for i, term in asked]
        ranked = self.ask("ranker", requests, in_chunks(run, size=ROWS), [timings[i] for i, _ in asked])
        answers = iter(ranked)
        for i, (terms, likeness) in recalled.items():
            results[i] = self._decided(items[i], results[i], terms, likeness, [next(answers) for _ in terms])
        return results

    def _decided(
        self, item: TermItem, counted: Any, terms: Array, likeness: Array, ranked: Sequence[Answer | Exception]
    ) -> Answer | Exception:
        # A name that the ranker cannot read means nothing to it.
        for answer in ranked:
            if isinstance(answer, Exception) and not isinstance(answer, InvalidItem):
                return answer
        read = [None if isinstance(answer, Exception) else answer for answer in ranked]
        ranking = fused(terms, likeness, np.array([0.0 if a is None else self._probability(a) for a in read]))
        number = max(self._numbers[counted["label"]], 1 + sum(item.text.count(joint) for joint in self.params.joints))
        kept = np.flatnonzero(ranking.probabilities >= self.params.threshold)[:number]
        return {
            "terms": self._listed(ranking, kept) or [{"name": item.text, "code": None, "score": None}],
            "candidates": self._listed(ranking, np.arange(min(item.top_k or 0, len(terms)))),
            "truncated": any(a["truncated"] for a in [counted, *read] if a is not None),
            "tokens": sum(a["tokens"] for a in [counted, *read] if a is not None),
        }

    def _probability(self, answer: Answer) -> float:
        return next(float(s["score"]) for s in answer["scores"] if s["label"] == self.params.match)

    def _listed(self, ranking: Ranking, places: Array) -> list[dict[str, Any]]:
        named = ((*self._catalogue[ranking.terms[i]], ranking.scores[i]) for i in places)
        return [{"name": name, "code": code, "score": rounded(score)} for name, code, score in named]


def fused(terms: Array, likeness: Array, probabilities: Array) -> Ranking:
    """Terms [N] by the mean of half their likeness and their probability, of equals the likelier first."""
    scores = (likeness / 2 + probabilities) / 2
    order = np.argsort(-scores, kind="stable")
    return Ranking(terms[order], scores[order], probabilities[order])


def read_catalogue(path: Path) -> list[tuple[str, str | None]]:
    """Terms with their codes from lines `name` or `name<TAB>code`; a name that comes again keeps its first code.

    BundleError if a line has no name or more than two fields.
    """
    terms: dict[str, str | None] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n"), 1):
        name, *codes = line.split("\t")
        if not name.strip() or len(codes) > 1:
            raise BundleError(f"{path}: line {number} is not a name, or a name, a tab and a code")
        terms.setdefault(name, codes[0] or None if codes else None)
    return list(terms.items())
