"""The dependency tree of a sentence: one row, in which a word is its first and its last piece."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from service.bundle import Bundle, Strict
from service.errors import BundleError, InvalidItem
from service.tasks import trees
from service.tasks.base import Encoded, Head, Item, Overflow, Reading, Text
from service.tasks.encoder import refuse_overflow
from service.text import Offsets, is_blank
from service.types import Answer, Array, Outputs, rounded, softmax

_WORD = re.compile(r"\S+")


class Params(Strict):
    """`tree`: how heads are chosen, see `trees.decode`; only `argmax` may answer what is no tree. `pos_tags`:
    part-of-speech tags in the order of their ids, for models that read one a word."""

    tree: trees.Method
    pos_tags: list[str] = []


class DependencyItem(Item):
    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["words"]}, {"required": ["text"]}]})

    words: Annotated[list[Text], Field(fail_fast=True)] | None = Field(
        None, description="the words (eojeol) of one sentence, read with one space between; give these or `text`"
    )
    text: Text | None = Field(None, description="the sentence; white space of any kind and length parts its words")
    pos: Annotated[list[str], Field(fail_fast=True)] | None = Field(
        None,
        description="tags of each word's morphemes, `A+B+C`: for models that read parts of speech, and only for these",
    )
    on_overflow: Overflow = "truncate"


class Arc(BaseModel):
    index: int = Field(description="place in the sentence, from 1")
    form: str = Field(description="the word as the caller wrote it")
    start: int = Field(description="offset in `text` or, if words were given, in these joined by one space")
    end: int = Field(description="exclusive")
    head: int = Field(description="index of the word that this one depends on; 0 for the root of the sentence")
    relation: str
    score: float = Field(description="probability of `head` among all words and the root, before a tree was made")


class Tree(Reading):
    words: list[Arc] = Field(description="every word that was read; those past the model's limit are not listed")


class _Word(NamedTuple):
    """A word and where it lies in the caller's sentence."""

    form: str
    start: int


class DependencyParsing(Head):
    family = "dependency-parsing"
    Input = DependencyItem
    Output = Tree
    Params = Params
    outputs = ("arc", "rel")
    text_fields = ("words", "text")

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        labels, relations = self.manifest.labels, bundle.graph.outputs["rel"][-1]
        if isinstance(relations, int) and relations != len(labels):
            raise BundleError(f"{bundle.folder}: the graph has {relations} relations, the bundle names {len(labels)}")
        self._pos_ids = {tag: i for i, tag in enumerate(self.params.pos_tags)}
        if ("pos_ids" in bundle.graph.inputs) != bool(self._pos_ids):
            raise BundleError(
                f"{bundle.folder}: decoder.pos_tags belongs to a graph that reads pos_ids, and only there"
            )

    def check(self, item: DependencyItem) -> None:
        if item.words is None and item.text is None:
            raise InvalidItem("give words or text", field="words")
        if item.words is not None and item.text is not None:
            raise InvalidItem("give words or text, not both", field="text")
        if item.words == []:
            raise InvalidItem("the sentence has no words", field="words", code="empty_text")
        super().check(item)
        if item.pos is None:
            if self._pos_ids:
                raise InvalidItem("this model reads part-of-speech tags: give those of each word", field="pos")
            return
        if not self._pos_ids:
            raise InvalidItem("this model reads no part-of-speech tags", field="pos")
        words = len(_words(item))
        if len(item.pos) != words:
            raise InvalidItem(f"the sentence has {words} words, pos has {len(item.pos)}", field="pos")
        for i, chain in enumerate(item.pos):
            if _last(chain) not in self._pos_ids:
                raise InvalidItem("the last tag is none of this model's part-of-speech tags", field=f"pos.{i}")

    def encode(self, item: DependencyItem) -> Encoded:
        words = _words(item)
        source = "words.{}" if item.words is not None else "text"
        # Each word by itself: what stands before a space must not change with what stands behind it.
        forms = [self.encoder.normalize(word.form).text for word in words]
        ids, first, last = self._pieces(forms, source)
        room = self.encoder.max_length - self.encoder.fixed
        fits = int(np.searchsorted(last, room))
        if fits < len(words) and (item.on_overflow == "error" or not fits):
            raise refuse_overflow(source.format(fits), len(ids), room)
        row, at = self.encoder.row({"words": ids[: last[fits - 1] + 1]})
        row["head_idx"], row["tail_idx"] = first[:fits] + at["words"], last[:fits] + at["words"]
        row["word_mask"] = np.ones(fits, dtype=np.int64)
        if item.pos is not None:
            row["pos_ids"] = np.array([self._pos_ids[_last(chain)] for chain in item.pos[:fits]], dtype=np.int64)
        return Encoded([row], fits < len(words), words[:fits])

    def _pieces(self, forms: list[str], source: str) -> tuple[list[int], Array, Array]:
        """Ids of the sentence, and the first and the last piece of each word; the mere mark of a word is no piece."""
        tokens = self.encoder.tokenize(" ".join(forms), source.format(0))
        ends = np.cumsum([len(form) + 1 for form in forms])
        own = [i for i, id_ in enumerate(tokens.ids) if id_ != self.encoder.word_mark_id]
        of = np.searchsorted(ends, [tokens.spans[i][0] for i in own], side="right")
        first, last = (np.searchsorted(of, np.arange(len(forms)), side=side) for side in ("left", "right"))
        empty = np.flatnonzero(first == last)
        if empty.size:
            where = int(empty[0])
            raise InvalidItem(
                f"word {where + 1} holds no characters that the model knows",
                field=source.format(where),
                code="no_tokens",
            )
        places = np.array(own, dtype=np.int64)
        return tokens.ids, places[first], places[last - 1]

    def decode(self, item: DependencyItem, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        words: list[_Word] = encoded.context
        # Without pos_ids no input has the root's place, and the session leaves the padding of that axis to us.
        arc, rel = outputs[0]["arc"][:, : len(words) + 1], outputs[0]["rel"][:, : len(words) + 1]
        heads = trees.decode(arc, self.params.tree)
        probabilities = softmax(arc)
        sentence = item.text if item.text is not None else " ".join(item.words or [])
        offsets = Offsets(sentence, item.offset_unit)
        found = [
            {
                "index": i + 1,
                "form": word.form,
                "start": offsets.outward(word.start),
                "end": offsets.outward(word.start + len(word.form)),
                "head": head,
                "relation": self.manifest.labels[int(rel[i, head].argmax())],
                "score": rounded(probabilities[i, head]),
            }
            for i, (word, head) in enumerate(zip(words, heads, strict=True))
        ]
        return {"words": found, "truncated": encoded.truncated, "tokens": encoded.tokens}


def _words(item: DependencyItem) -> list[_Word]:
    """The words of a request and where they start; what nobody can see is no word of a text."""
    if item.text is not None:
        return [_Word(m[0], m.start()) for m in _WORD.finditer(item.text) if not is_blank(m[0])]
    found, start = [], 0
    for form in item.words or []:
        found.append(_Word(form, start))
        start += len(form) + 1
    return found


def _last(chain: str) -> str:
    """The tag of a word's last morpheme, the only one that is read."""
    return chain.rpartition("+")[2]
