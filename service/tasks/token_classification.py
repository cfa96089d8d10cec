"""Entities as runs of token tags. Long text is read in overlapping windows and decoded once, as if it were one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, PrivateAttr, model_validator

from service.bundle import Bundle
from service.errors import BundleError
from service.tasks import viterbi
from service.tasks.base import Encoded, Reading
from service.tasks.encoder import Tokens
from service.tasks.schemes import Run, Scheme, group, parse
from service.tasks.windowed import Context, Windowed, WindowedItem, WindowParams
from service.text import Normalized, Offsets, owners
from service.types import Answer, Array, Outputs, rounded, softmax

WordTag = Literal["first", "average", "max"]


class Params(WindowParams, Scheme):
    """`word_tag`: a word has one tag, that of its first piece (as models have it that were trained on first pieces
    alone), of the mean of its pieces or of the surest of them; null: each piece has its own.
    `crf`: tags are the best sequence, not the best by themselves."""

    alignment: Literal["token", "char"]
    word_tag: WordTag | None = None
    crf: viterbi.Crf | None = None

    @model_validator(mode="after")
    def _one_reading(self) -> Self:
        if self.word_tag is not None and (self.crf is not None or self.alignment == "char"):
            raise ValueError("word_tag is for pieces of words that are tagged one by one: neither for crf nor for char")
        return self


class EntityItem(WindowedItem):
    tags: Annotated[bool, Field(description="also give the model's tag of every character")] = False
    _pieces: bool = PrivateAttr(False)
    _word_tag: WordTag | None = PrivateAttr(None)

    def with_pieces(self) -> Self:
        """Have the answer hold `pieces`, the tokens with their tags. No request can ask for it: it is for protocols
        whose clients want tokens rather than entities."""
        self._pieces = True
        return self

    def with_word_tag(self, word_tag: WordTag) -> Self:
        """Have words tagged otherwise than the bundle says. No request can ask for it: it is for protocols whose
        clients choose among strategies."""
        self._word_tag = word_tag
        return self


class Entity(BaseModel):
    type: str
    text: str = Field(description="the caller's text from `start` to `end`")
    start: int
    end: int = Field(description="exclusive")
    score: float = Field(description="mean probability of its tokens' tags")


class Entities(Reading):
    entities: list[Entity] = Field(description="in order of the text, never overlapping")
    tags: list[str] = Field(description="the tag of every character of the text, if they were asked for; else empty")


class TokenClassification(Windowed):
    family = "token-classification"
    Input = EntityItem
    Output = Entities
    Params = Params
    outputs = ("logits",)

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        labels = self.manifest.labels
        classes = bundle.graph.outputs["logits"][-1]
        if isinstance(classes, int) and classes != len(labels):
            raise BundleError(f"{bundle.folder}: the graph has {classes} tags, the bundle names {len(labels)}")
        self._tags = [parse(label, self.params) for label in labels]
        self._inside = {tag.type: label for tag, label in zip(self._tags, labels, strict=True) if tag.prefix == "I"}
        untyped = (t for t, tag in zip(labels, self._tags, strict=True) if tag.type is None)
        self._outside = next((label for label in untyped if label not in self.params.ignore_labels), "O")
        crf: viterbi.Crf | None = self.params.crf
        if crf is not None and len(crf.start) != len(labels):
            raise BundleError(f"{bundle.folder}: the CRF has {len(crf.start)} tags, the bundle names {len(labels)}")
        # Special tokens before and behind the text that the chain runs over as well.
        before = next(i for i, part in enumerate(self.manifest.template) if part.field is not None)
        chained = crf is not None and crf.span == "all"
        self._special = (before, self.encoder.fixed - before) if chained else (0, 0)
        self._unk = bundle.tokenizer.unk_id

    def decode(self, item: EntityItem, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        c: Context = encoded.context
        parts = [
            out["logits"][c.at + start - begin : c.at + end - begin]
            for out, (begin, _), (start, end) in zip(outputs, c.windows, owners(c.windows), strict=True)
        ]
        if self._special != (0, 0):
            last = c.windows[-1][1] - c.windows[-1][0]
            parts = [outputs[0]["logits"][: c.at], *parts, outputs[-1]["logits"][c.at + last :]]
        logits = np.concatenate(parts)
        offsets = Offsets(item.text, item.offset_unit)
        pieces = list(self.pieces(logits, c, offsets)) if item._pieces else None
        tokens, scheme = c.tokens, self.params
        if word_tag := item._word_tag or self.params.word_tag:
            logits, tokens = words(logits, tokens, c.text.text, word_tag)
        if item._word_tag:  # as the pipeline has it: the bundle's policy is for the tags of its pieces
            scheme = scheme.model_copy(update={"orphan_inside": "open"})
        entities = []
        behind = 0
        for run in self.runs(logits, tokens, scheme):
            if item.threshold is not None and run.score < item.threshold:
                continue
            if c.text.ends[tokens.spans[run.last - 1][1] - 1] <= behind:
                continue  # within a grapheme that the entity before has taken
            start, end = c.text.span(tokens.spans[run.first][0], tokens.spans[run.last - 1][1])
            start, behind = max(start, behind), end  # two entities may share a grapheme: it belongs to the first
            if start == end:
                continue
            entities.append(
                {
                    "type": run.type,
                    "text": item.text[start:end],
                    "start": offsets.outward(start),
                    "end": offsets.outward(end),
                    "score": rounded(run.score),
                }
            )
        tags = self.characters(logits, tokens, c.text) if item.tags else []
        answer = {"entities": entities, "tags": tags, "truncated": encoded.truncated, "tokens": encoded.tokens}
        return answer if pieces is None else answer | {"pieces": pieces}

    def pieces(self, logits: Array, c: Context, offsets: Offsets) -> Iterator[Answer]:
        """Every token that stands for characters: its place in the sequence, its piece, its tag."""
        for i, chosen, probability in self._read(logits, c.tokens):
            start, end = c.text.span(*c.tokens.spans[i])
            known = c.tokens.ids[i] != self._unk
            yield {
                "index": c.at + i,
                "piece": self.encoder.token(c.tokens.ids[i]) if known else c.text.original[start:end],
                "tag": self.manifest.labels[chosen],
                "start": offsets.outward(start),
                "end": offsets.outward(end),
                "score": rounded(probability),
            }

    def characters(self, logits: Array, tokens: Tokens, text: Normalized) -> list[str]:
        """The tag of each character of the caller's text, projected as KLUE scores it: a token's first character takes
        the token's tag, its others are inside the same entity, and what no token stands for is outside."""
        found = [self._outside] * len(text.original)
        behind = 0
        for i, chosen, _ in self._read(logits, tokens):
            tag, label = self._tags[chosen], self.manifest.labels[chosen]
            inside = self._outside if tag.type is None else self._inside.get(tag.type, label)
            start, end = max(text.starts[tokens.spans[i][0]], behind), text.ends[tokens.spans[i][1] - 1]
            if start < end:  # two tokens of one composed character: it has the tag of the first
                found[start:end] = [label, *[inside] * (end - start - 1)]
                behind = end
        return found

    def runs(self, logits: Array, tokens: Tokens, scheme: Scheme | None = None) -> list[Run]:
        """Entities of a token sequence, by the bundle's scheme or another."""
        steps = [(self._tags[tag], i, probability) for i, tag, probability in self._read(logits, tokens)]
        return group(steps, tokens.spans, scheme or self.params)

    def _read(self, logits: Array, tokens: Tokens) -> Iterator[tuple[int, int, float]]:
        """`(token, class, probability)` of each token that stands for characters; lone word marks stand for none."""
        if self.params.crf is None:
            chosen = logits.argmax(axis=-1)
            probabilities = softmax(logits)[np.arange(len(chosen)), chosen]
        else:
            before, behind = self._special
            inner = slice(before, len(logits) - behind)
            chosen, probabilities = (a[inner] for a in viterbi.decode(logits, self.params.crf))
        for i, (tag, probability) in enumerate(zip(chosen.tolist(), probabilities.tolist(), strict=True)):
            if tokens.ids[i] != self.encoder.word_mark_id and tokens.spans[i][0] < tokens.spans[i][1]:
                yield i, tag, probability


def words(logits: Array, tokens: Tokens, text: str, word_tag: WordTag) -> tuple[Array, Tokens]:
    """Words as if they were tokens: a row of logits for each, and the characters that it stands for."""
    read = len(logits)  # fewer than there are of a text that was cut
    parts = [(first, min(last, read)) for first, last in tokens.words(text) if first < read]
    probabilities = softmax(logits)
    if word_tag == "average":
        sums = np.add.reduceat(probabilities, [first for first, _ in parts], axis=0)
        mean = sums / np.array([last - first for first, last in parts])[:, None]
        rows = np.log(np.maximum(mean, np.finfo(mean.dtype).tiny))
    else:
        surest = probabilities.max(axis=-1)
        rows = logits[[a if word_tag == "first" else a + int(surest[a:b].argmax()) for a, b in parts]]
    spans = []
    for first, last in parts:
        own = [span for span in tokens.spans[first:last] if span[0] < span[1]] or [tokens.spans[first]]
        spans.append((own[0][0], own[-1][1]))
    # A word is known by its last piece: one that is a lone mark stands before the others.
    return rows, Tokens([tokens.ids[last - 1] for _, last in parts], spans)
