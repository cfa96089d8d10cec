"""The span of a context that answers a question, or that there is none. Long contexts are read in windows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, Field, PrivateAttr, model_validator

from service.bundle import Bundle, Strict
from service.errors import BundleError, InvalidItem
from service.tasks.base import FRESH, Encoded, Head, Item, Reading, Text
from service.tasks.encoder import Tokens, refuse_overflow
from service.text import Normalized, Offsets, owners, windows
from service.types import Answer, Outputs, rounded, softmax


class Params(Strict):
    """`null_threshold`: no answer if the null score beats the best span by more (null: always answer).
    Windows advance by `doc_stride` tokens, or overlap by `stride`. `max_context`: a span counts only in the window
    that sees most around its first token."""

    max_question_tokens: Annotated[int, Field(gt=0)]
    max_answer_tokens: Annotated[int, Field(gt=0)]
    n_best: Annotated[int, Field(gt=0)]
    null_threshold: float | None
    doc_stride: Annotated[int, Field(gt=0)] | None = None
    stride: Annotated[int, Field(ge=0)] | None = None
    max_context: bool

    @model_validator(mode="after")
    def _one_stride(self) -> Params:
        if (self.doc_stride is None) == (self.stride is None):
            raise ValueError("give doc_stride (step of windows) or stride (their overlap), not both")
        return self


class Numbers(NamedTuple):
    """How a question is read, in tokens; None is as the bundle says. `stride`: what neighbouring windows share."""

    max_length: int | None = None
    max_question_tokens: int | None = None
    max_answer_tokens: int | None = None
    stride: int | None = None


class QuestionItem(Item):
    question: Text
    context: Text
    top_k: Annotated[int, Field(ge=1, le=100, description="how many spans to list in `answers`")] = 1
    on_overflow: Annotated[
        Literal["window", "truncate", "error"],
        Field(
            description="context past the model's limit: read it in windows, read what fits and say so, or answer 422"
        ),
    ] = "window"
    _numbers: Numbers = PrivateAttr(Numbers())
    _whole_words: bool = PrivateAttr(False)

    def read_by(self, numbers: Numbers, whole_words: bool) -> Self:
        """Have it read otherwise than the bundle says, and answers widened to whole words. No request can ask for it:
        it is for protocols whose clients do."""
        self._numbers, self._whole_words = numbers, whole_words
        return self


class AnswerSpan(BaseModel):
    text: str = Field(description="the caller's context from `start` to `end`")
    start: int
    end: int = Field(description="exclusive")
    score: float = Field(description="probability among the best spans and, where the bundle knows it, no answer")


class QuestionAnswer(Reading):
    answer: AnswerSpan | None = Field(description="null if the bundle can tell and the context holds no answer")
    null_score: float | None = Field(description="probability of no answer; null if the bundle always answers")
    answers: list[AnswerSpan] = Field(description="the best spans, best first, even if `answer` is null")


class _Context(NamedTuple):
    text: Normalized
    tokens: Tokens
    spans: list[tuple[int, int]]
    at: int


class _Candidate(NamedTuple):
    score: float
    first: int
    last: int


class QuestionAnswering(Head):
    family = "question-answering"
    Input = QuestionItem
    Output = QuestionAnswer
    Params = Params
    outputs = ("start_logits", "end_logits")
    text_fields = ("question", "context")

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        p, room = self.params, self.encoder.max_length - self.encoder.fixed - self.params.max_question_tokens
        if room < 1 or (p.stride is not None and p.stride >= room):
            raise BundleError(
                f"{bundle.folder}: max_length leaves {room} tokens of context beside the longest question"
            )

    def check(self, item: QuestionItem) -> None:
        super().check(item)
        p, numbers, length = self.params, item._numbers, self._length(item)
        own = {"stride": p.stride, "max_question_tokens": p.max_question_tokens}
        other = [name for name, mine in own.items() if getattr(numbers, name) not in (None, mine)]
        other += ["max_length"] if length < self.encoder.max_length else []
        room = length - self.encoder.fixed - (numbers.max_question_tokens or p.max_question_tokens)
        step, least = self._step(item, room), max(1, int(length * FRESH))
        if other and step < least:
            why = f"windows of {length} tokens with these numbers advance by {max(0, step)}, not by {least} at least"
            raise InvalidItem(why, field=other[0], code="unsupported_parameter")

    def _length(self, item: QuestionItem) -> int:
        """The longest row that is made of it."""
        return min(item._numbers.max_length or self.encoder.max_length, self.encoder.max_length)

    def _step(self, item: QuestionItem, room: int) -> int:
        """What windows of `room` tokens of context advance by."""
        p, stride = self.params, item._numbers.stride
        if stride is None and p.doc_stride is not None:
            return min(int(p.doc_stride), room)
        return room - int(p.stride if stride is None else stride)

    def encode(self, item: QuestionItem) -> Encoded:
        text = self.encoder.normalize(item.context)
        tokens = self.encoder.tokenize(text.text, "context")
        asked = self.encoder.tokenize(self.encoder.normalize(item.question.strip()).text, "question").ids
        question = asked[: item._numbers.max_question_tokens or self.params.max_question_tokens]
        room = self._length(item) - self.encoder.fixed - len(question)
        if item.on_overflow == "error":
            if len(question) < len(asked):
                raise refuse_overflow("question", len(asked), len(question))
            if len(tokens) > room:
                raise refuse_overflow("context", len(tokens), room)
        spans = windows(len(tokens), room, self._step(item, room))
        truncated = len(question) < len(asked)
        if item.on_overflow == "truncate" and len(spans) > 1:
            spans, truncated = spans[:1], True
        built = [self.encoder.row({"question": question, "context": tokens.ids[a:b]}) for a, b in spans]
        return Encoded([row for row, _ in built], truncated, _Context(text, tokens, spans, built[0][1]["context"]))

    def decode(self, item: QuestionItem, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        c: _Context = encoded.context
        best: dict[tuple[int, int], _Candidate] = {}
        longest = item._numbers.max_answer_tokens or self.params.max_answer_tokens
        candidates = list(self._candidates(c, outputs, self.params.n_best, longest))
        if not candidates and self.params.null_threshold is None:
            # No good start fits a good end, but this bundle always answers: look at all of them.
            candidates = list(self._candidates(c, outputs, self.encoder.max_length, longest))
        for found in candidates:
            key = (found.first, found.last)
            if key not in best or found.score > best[key].score:
                best[key] = found
        ranked = sorted(best.values(), key=lambda f: (-f.score, f.first, f.last))[: self.params.n_best]
        scores = [f.score for f in ranked]
        answerable, null_score = True, None
        threshold = self.params.null_threshold
        if threshold is not None:
            null = min(float(out["start_logits"][0] + out["end_logits"][0]) for out in outputs)
            answerable = bool(ranked) and null - scores[0] <= threshold
            scores.append(null)
        probabilities = softmax(np.array(scores)) if scores else np.zeros(0)
        if threshold is not None:
            null_score = rounded(probabilities[-1])
        offsets = Offsets(item.context, item.offset_unit)
        answers: list[dict[str, Any]] = []
        seen: set[tuple[int, int]] = set()
        words = c.tokens.words(c.text.text) if item._whole_words else []
        for f, p in zip(ranked, probabilities, strict=False):
            first, last = _widened(f.first, f.last, words) if words else (f.first, f.last)
            start, end = c.text.span(c.tokens.spans[first][0], c.tokens.spans[last][1])
            if (start, end) in seen or len(answers) == item.top_k:
                continue  # a lone word mark before a piece, or a part of a word, is other tokens at the same place
            seen.add((start, end))
            answers.append(
                {
                    "text": item.context[start:end],
                    "start": offsets.outward(start),
                    "end": offsets.outward(end),
                    "score": rounded(p),
                }
            )
        return {
            "answer": answers[0] if answerable and answers else None,
            "null_score": null_score,
            "answers": answers,
            "truncated": encoded.truncated,
            "tokens": encoded.tokens,
        }

    def _candidates(self, c: _Context, outputs: Sequence[Outputs], n: int, longest: int) -> Iterator[_Candidate]:
        """Spans from the `n` best starts and ends of each window, in tokens of the whole context."""
        for out, (begin, stop), (mine, others) in zip(outputs, c.spans, owners(c.spans), strict=True):
            start = out["start_logits"][c.at : c.at + stop - begin].astype(np.float64)
            end = out["end_logits"][c.at : c.at + stop - begin].astype(np.float64)
            firsts = np.argsort(-start, kind="stable")[:n]
            lasts = np.argsort(-end, kind="stable")[:n]
            width = lasts[None, :] - firsts[:, None]
            fits = (width >= 0) & (width < longest)
            if self.params.max_context:
                fits &= ((firsts + begin >= mine) & (firsts + begin < others))[:, None]
            for i, j in zip(*np.nonzero(fits), strict=True):
                u, v = int(firsts[i]), int(lasts[j])
                if c.tokens.spans[begin + u][0] < c.tokens.spans[begin + v][1]:
                    yield _Candidate(float(start[u] + end[v]), begin + u, begin + v)


def _widened(first: int, last: int, words: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Tokens from the beginning of the word of `first` to the end of that of `last`, both inclusive."""
    begins = [begin for begin, _ in words]
    return words[bisect_right(begins, first) - 1][0], words[bisect_right(begins, last) - 1][1] - 1
