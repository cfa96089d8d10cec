"""What an answer says in one glance, for every family alike: which labels it gives, and how sure the model is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from pydantic import BaseModel

from service.types import Answer

Glance = tuple[Mapping[str, int], float | None]
"""How often the answer gives each label, and its score: of several findings the mean, None where there is none."""

FINDINGS = {"entities": "type", "triples": "predicate", "words": "relation", "slots": "slot", "terms": None}
"""Field of an answer that lists what was found -> the findings' field that is a label of the bundle."""


def reader(output: type[BaseModel]) -> Callable[[Answer], Glance]:
    """How answers of this model are read. Labels are the bundle's own, so that there are finitely many."""
    fields = output.model_fields
    for field, key in FINDINGS.items():
        if field in fields:
            return lambda answer: _findings(answer[field], key)
    if "labels" in fields:
        return _classes
    if "answers" in fields:
        return _spans
    if "blanks" in fields:
        return _blanks
    return lambda answer: ({}, answer.get("score"))


def _findings(found: list[Answer], key: str | None) -> Glance:
    scores = [one["score"] for one in found if one["score"] is not None]
    mean = sum(scores) / len(scores) if scores else None
    return Counter(one[key] for one in found) if key else {}, mean


def _classes(answer: Answer) -> Glance:
    """One of many, several of many, or a number, which has no score and perhaps no label."""
    if answer["labels"]:
        return _findings(answer["labels"], "label")
    label = answer["label"]
    return {} if label is None else {label: 1}, answer["score"]


def _spans(answer: Answer) -> Glance:
    """Whether there is an answer is all that a reading model labels."""
    best = answer["answer"]
    return {"answer" if best else "null": 1}, best["score"] if best else answer["null_score"]


def _blanks(answer: Answer) -> Glance:
    """A blank's score is that of the candidate it got."""
    scores = [blank["scores"][blank["choice"]] for blank in answer["blanks"]]
    return {}, sum(scores) / len(scores) if scores else None
