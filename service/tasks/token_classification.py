"""Entities as runs of token tags. Long text is read in overlapping windows and decoded once, as if it were one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, Field, PrivateAttr

from service.bundle import Bundle
from service.errors import BundleError
from service.tasks import viterbi
from service.tasks.base import Encoded, Reading
from service.tasks.encoder import Tokens
from service.tasks.windowed import Context, Windowed, WindowedItem, WindowParams
from service.text import Normalized, Offsets, owners
from service.types import Answer, Array, Outputs, rounded, softmax

# How each scheme's prefixes act; a BMES middle is an inside.
PREFIXES = {"B": "B", "I": "I", "M": "I", "E": "E", "S": "S"}


class Params(WindowParams):
    """`orphan_inside`: an I- that continues nothing opens an entity, is dropped and ends the open one as in strict
    IOB2, or is ignored and leaves the open one open as in CLUENER's script. `lone_begin`: an entity that is a B- and
    nothing more is kept, or dropped as that script does, because its models have an S- for it.
    `piece_begin`: a B- on a later piece of the same word opens a new entity (tags are by character), or continues
    the open one (tags are by word).
    `crf`: tags are the best sequence, not the best by themselves."""

    scheme: Literal["IOB2", "BIOS", "BMES"]
    orphan_inside: Literal["open", "drop", "ignore"]
    lone_begin: Literal["keep", "drop"] = "keep"
    piece_begin: Literal["open", "continue"]
    alignment: Literal["token", "char"]
    ignore_labels: list[str] = []
    crf: viterbi.Crf | None = None


class EntityItem(WindowedItem):
    tags: Annotated[bool, Field(description="also give the model's tag of every character")] = False
    _pieces: bool = PrivateAttr(False)

    def with_pieces(self) -> Self:
        """Have the answer hold `pieces`, the tokens with their tags. No request can ask for it: it is for protocols
        whose clients want tokens rather than entities."""
        self._pieces = True
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


class Tag(NamedTuple):
    prefix: str
    type: str | None


class Run(NamedTuple):
    """An entity in tokens: type, first token, token after the last, score."""

    type: str
    first: int
    last: int
    score: float


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
        entities = []
        behind = 0
        for run in self.runs(logits, c.tokens):
            if item.threshold is not None and run.score < item.threshold:
                continue
            if c.text.ends[c.tokens.spans[run.last - 1][1] - 1] <= behind:
                continue  # within a grapheme that the entity before has taken
            start, end = c.text.span(c.tokens.spans[run.first][0], c.tokens.spans[run.last - 1][1])
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
        tags = self.characters(logits, c.tokens, c.text) if item.tags else []
        answer = {"entities": entities, "tags": tags, "truncated": encoded.truncated, "tokens": encoded.tokens}
        return answer | {"pieces": list(self.pieces(logits, c, offsets))} if item._pieces else answer

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

    def runs(self, logits: Array, tokens: Tokens) -> list[Run]:
        """Entities of a token sequence."""
        steps = [(self._tags[tag], i, probability) for i, tag, probability in self._read(logits, tokens)]
        return group(steps, tokens.spans, self.params)

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


def parse(label: str, params: Params) -> Tag:
    """`B-PS` -> (B, PS); anything without a type is outside."""
    prefix, dash, kind = label.partition("-")
    if not dash or prefix not in PREFIXES or label in params.ignore_labels:
        return Tag("O", None)
    return Tag(PREFIXES[prefix], kind)


def group(steps: Sequence[tuple[Tag, int, float]], spans: Sequence[tuple[int, int]], params: Any) -> list[Run]:
    """Merge `(tag, token, score)` steps into entities by the bundle's policy."""
    found: list[Run] = []
    kind: str | None = None
    opening = ""
    members: list[tuple[int, float]] = []

    def close() -> None:
        nonlocal kind
        lone = opening == "B" and len(members) == 1
        if kind is not None and not (lone and params.lone_begin == "drop"):
            found.append(Run(kind, members[0][0], members[-1][0] + 1, sum(s for _, s in members) / len(members)))
        kind = None
        members.clear()

    for tag, token, score in steps:
        within = kind is not None and tag.type == kind
        if tag.prefix in "IE" and not within and params.orphan_inside == "ignore":
            continue
        if tag.prefix == "B" and within and params.piece_begin == "continue":
            within = spans[token][0] == spans[members[-1][0]][1]
        elif tag.prefix in "BSO":
            within = False
        if not within:
            close()
            if tag.type is None or (tag.prefix in "IE" and params.orphan_inside == "drop"):
                continue
            kind, opening = tag.type, tag.prefix
        members.append((token, score))
        if tag.prefix in "SE":
            close()
    close()
    return found
