"""What each family answers, as dataclasses. Fields that a newer server adds are in `raw` only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


@dataclass(frozen=True)
class Timing:
    """Where the time of an answer went at the server, in milliseconds, and the rows of the run that it was part of."""

    queue_ms: float
    tokenize_ms: float
    inference_ms: float
    batch_rows: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What every answer tells. `raw` is the server's JSON; `timing` is known of single answers, not of batches."""

    truncated: bool
    tokens: int
    raw: dict[str, Any] = field(repr=False, compare=False)
    timing: Timing | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class LabelScore:
    label: str
    score: float


@dataclass(frozen=True)
class Span:
    """A part of the caller's own string; `end` is exclusive."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Entity(Span):
    type: str
    score: float


@dataclass(frozen=True)
class AnswerSpan(Span):
    score: float


@dataclass(frozen=True)
class Argument(Span):
    type: str


@dataclass(frozen=True, kw_only=True)
class Classification(Answer):
    """One of many: `label`, `score`, `scores`. Several of many: `labels`. A number: `value`."""

    label: str | None
    score: float | None
    scores: list[LabelScore]
    labels: list[LabelScore]
    value: float | None


@dataclass(frozen=True)
class Window:
    """A part of a document: `start` to `end` of the note with this index."""

    note: int
    start: int
    end: int
    scores: list[LabelScore]
    value: float | None


@dataclass(frozen=True, kw_only=True)
class DocumentClasses(Classification):
    windows: list[Window]


@dataclass(frozen=True, kw_only=True)
class Entities(Answer):
    """`tags`: the tag of every character, if they were asked for."""

    entities: list[Entity]
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class QuestionAnswer(Answer):
    """`answer` is None where the model can tell that there is none."""

    answer: AnswerSpan | None
    null_score: float | None
    answers: list[AnswerSpan]


@dataclass(frozen=True)
class ChoiceScore:
    choice: int
    text: str
    score: float


@dataclass(frozen=True, kw_only=True)
class Choice(Answer):
    choice: int
    text: str
    score: float
    scores: list[ChoiceScore]


@dataclass(frozen=True)
class Blank:
    """A blank, where it is (`passage` is an index), and the candidate that fills it; `scores` are of all candidates."""

    blank: str
    passage: int
    start: int
    end: int
    choice: int
    text: str
    scores: list[float]


@dataclass(frozen=True, kw_only=True)
class Cloze(Answer):
    blanks: list[Blank]


@dataclass(frozen=True)
class Word:
    """`head` is the index of another word, from 1, or 0 for the root."""

    index: int
    form: str
    start: int
    end: int
    head: int
    relation: str
    score: float


@dataclass(frozen=True, kw_only=True)
class Tree(Answer):
    words: list[Word]


@dataclass(frozen=True)
class Slot:
    slot: str
    value: str
    score: float


@dataclass(frozen=True, kw_only=True)
class DialogueState(Answer):
    state: dict[str, str]
    slots: list[Slot]


@dataclass(frozen=True)
class Triple:
    subject: Argument
    predicate: str
    object: Argument
    score: float


@dataclass(frozen=True, kw_only=True)
class Triples(Answer):
    triples: list[Triple]


@dataclass(frozen=True)
class Term:
    """`score` is None where no term of the catalogue was found: the name is then the text itself."""

    name: str
    code: str | None
    score: float | None


@dataclass(frozen=True, kw_only=True)
class Terms(Answer):
    terms: list[Term]
    candidates: list[Term]


FAMILIES: Mapping[str, type[Answer]] = {
    "text-classification": Classification,
    "pair-classification": Classification,
    "span-pair-classification": Classification,
    "document-classification": DocumentClasses,
    "token-classification": Entities,
    "span-classification": Entities,
    "question-answering": QuestionAnswer,
    "multiple-choice": Choice,
    "cloze": Cloze,
    "dependency-parsing": Tree,
    "dialogue-state": DialogueState,
    "triple-extraction": Triples,
    "term-normalization": Terms,
}


def answer(family: str, raw: dict[str, Any], timing: Timing | None = None) -> Answer:
    """An answer of this family; of one that this client does not know, an `Answer` with `raw`. KeyError or TypeError
    if it is of another shape."""
    return build(FAMILIES.get(family, Answer), {**raw, "raw": raw, "timing": timing})


def build(cls: type[T], data: Mapping[str, Any]) -> T:
    """A dataclass from its JSON, dataclasses within it likewise. KeyError if a field without a default is missing."""
    given = {}
    for name, (hint, needed) in _fields(cls).items():  # type: ignore[arg-type]
        if needed or name in data:
            given[name] = _value(hint, data[name])
    return cls(**given)


@cache
def _fields(cls: type[Any]) -> Mapping[str, tuple[Any, bool]]:
    hints = get_type_hints(cls)
    return {f.name: (hints[f.name], f.default is f.default_factory) for f in fields(cls)}  # both MISSING: it is needed


def _value(hint: Any, value: Any) -> Any:
    if get_origin(hint) is UnionType:
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
        return None if value is None else _value(hint, value)
    if get_origin(hint) is list:
        (of,) = get_args(hint)
        return [_value(of, one) for one in value]
    if is_dataclass(hint) and not isinstance(value, Timing):
        return build(hint, value)  # type: ignore[arg-type]
    return value
