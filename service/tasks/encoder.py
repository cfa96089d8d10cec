"""Text to model input for one bundle: its normaliser, its tokenizer, its template.

The tokenizer is configured once and never changed (a shared one that is re-configured silently cuts other threads'
texts); truncation, windows and special tokens are done here, on lists of ids.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np
from tokenizers import Encoding, Tokenizer

from service.bundle import Bundle, Part
from service.errors import BundleError, InvalidItem
from service.shared import Shared
from service.text import Normalized, normalize
from service.types import Array, Row


@dataclass(frozen=True, slots=True)
class Tokens:
    """Pieces of one text: ids, and the characters `[start, end)` of the normalised text each stands for.

    A piece that stands for white space only has an empty span.
    """

    ids: list[int]
    spans: list[tuple[int, int]]
    _encoding: Encoding | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.ids)

    def words(self, text: str) -> list[tuple[int, int]]:
        """The pieces `[first, last)` of each word of the normalised `text`.

        A word is what the tokenizer takes for one, without the punctuation around it that SentencePiece leaves with it;
        where there is no tokenizer each character is one.
        """
        if self._encoding is None:
            return [(i, i + 1) for i in range(len(self))]
        found: list[tuple[int, int]] = []
        for _, group in groupby(enumerate(self._encoding.word_ids), key=lambda pair: pair[1]):
            pieces = [i for i, _ in group]
            low, high = min(self.spans[i][0] for i in pieces), max(self.spans[i][1] for i in pieces)
            while low < high and _is_mark(text[low]):
                low += 1
            while low < high and _is_mark(text[high - 1]):
                high -= 1
            core = [i for i in pieces if self.spans[i][0] < high and low < max(self.spans[i][1], self.spans[i][0] + 1)]
            found += [(i, i + 1) for i in pieces if not core or i < core[0]]
            found += [(core[0], core[-1] + 1)] if core else []
            found += [(i, i + 1) for i in pieces if core and i > core[-1]]
        return found


class Opened:
    """A tokenizer as every bundle uses it: configured once, and never changed."""

    def __init__(self, path: Path) -> None:
        try:
            self.tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises bare Exception
            raise BundleError(f"{path} is not a fast tokenizer with offsets: {error}") from None
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        # "[SEP]" typed by a user is text, not a separator.
        self.tokenizer.encode_special_tokens = True


_tokenizers: Shared[Opened] = Shared()


class Encoder:
    """Turns the texts of a request into rows."""

    def __init__(self, bundle: Bundle) -> None:
        m = bundle.manifest
        facts = bundle.tokenizer
        self.template: list[Part] = m.template
        self.fields = [part.field for part in m.template if part.field is not None]
        self.fixed = sum(part.id is not None for part in m.template)
        self.max_length = m.max_length
        self._truncation = m.truncation
        self._normalization = m.normalization
        self._replace = {ord(k): v for k, v in m.normalization.replace.items()}
        self._inputs = set(bundle.graph.inputs)
        self._special = frozenset(facts.special_ids)
        self._unk = facts.unk_id
        self.word_mark_id = facts.word_mark_id
        path = bundle.tokenizer_path
        # Kept whole, since that is what keeps it shared.
        self._opened = _tokenizers.get(bundle.manifest.files[path.name], lambda: Opened(path))
        self._tokenizer = self._opened.tokenizer

    def remembering(self) -> Encoder:
        """One that reads a text once that comes again soon. For one take: what it remembers goes with it."""
        other = copy(self)
        # A few texts are soon again; of fragments there is one before and one behind each of many spans.
        other.normalize, other.tokenize = lru_cache(4)(self.normalize), lru_cache(4)(self.tokenize)  # type: ignore[method-assign]
        other.fragment = lru_cache(64)(self.fragment)  # type: ignore[method-assign]
        return other

    def normalize(self, text: str) -> Normalized:
        n = self._normalization
        return normalize(text, n.form, n.lowercase, self._replace)

    def tokenize(self, text: str, field: str) -> Tokens:
        """Pieces of a normalised text. InvalidItem if the tokenizer finds nothing in it."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        tokens = Tokens(self._plain(encoding.ids), [_bare(text, span) for span in encoding.offsets], encoding)
        if not tokens.ids:
            raise InvalidItem("the text holds no characters that the model knows", field=field, code="no_tokens")
        return tokens

    def characters(self, text: str) -> Tokens:
        """One vocabulary look-up a character, as models trained on lists of characters expect."""
        ids = [self.token_id(c) for c in text]
        return Tokens(self._plain(ids), [(i, i + 1) for i in range(len(text))])

    def fragment(self, text: str) -> list[int]:
        """Ids of a piece of text between inserted tokens; may be empty."""
        return self._plain(self._tokenizer.encode(text, add_special_tokens=False).ids) if text else []

    def _plain(self, ids: list[int]) -> list[int]:
        # A unigram vocabulary matches "</s>" in plain text to the control token itself.
        if self._special.isdisjoint(ids):
            return ids
        return [self._unk if i in self._special else i for i in ids]

    def find(self, token: str) -> int | None:
        """Id of a vocabulary entry, or None."""
        found: int | None = self._tokenizer.token_to_id(token)
        return found

    def token_id(self, token: str) -> int:
        found = self.find(token)
        return self._unk if found is None else found

    def token(self, token_id: int) -> str:
        return str(self._tokenizer.id_to_token(token_id))

    def text(self, ids: Sequence[int]) -> str:
        """Pieces as text, as the tokenizer's own decoder writes them."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def unknown(self, rows: Sequence[Row]) -> int:
        """Tokens of rows that stand for what the vocabulary lacks."""
        return sum(int(np.count_nonzero(row["input_ids"] == self._unk)) for row in rows)

    def fit(self, lengths: Mapping[str, int]) -> dict[str, int]:
        """How many tokens of each field are read, by the bundle's truncation, to stay within `max_length`."""
        room = self.max_length - self.fixed
        kept = dict(lengths)
        if sum(kept.values()) <= room:
            return kept
        if self._truncation != "longest_first":
            for name in reversed(self.fields) if self._truncation == "right" else self.fields:
                kept[name] -= min(kept[name], max(0, sum(kept.values()) - room))
            return kept
        # Shorten the longest, one token at a time, as the reference tokenizers do; what an uneven room leaves over goes
        # to the longest, of equals to the later.
        level = room // len(kept)
        while sum(min(n, level + 1) for n in lengths.values()) <= room:
            level += 1
        kept = {name: min(n, level) for name, n in lengths.items()}
        by_length = sorted(kept, key=lambda name: (lengths[name], self.fields.index(name)), reverse=True)
        for name in by_length[: room - sum(kept.values())]:
            kept[name] += 1
        return kept

    def cut(self, ids: Sequence[int], keep: int) -> Sequence[int]:
        """The `keep` tokens of a field that are read."""
        return ids[len(ids) - keep :] if self._truncation == "left" else ids[:keep]

    def row(self, fields: Mapping[str, Sequence[int]]) -> tuple[Row, dict[str, int]]:
        """Fill the template. Returns the row and the position of each field's first token. Lengths must fit."""
        ids: list[int] = []
        types: list[int] = []
        at: dict[str, int] = {}
        for part in self.template:
            if part.field is None:
                ids.append(part.id)  # type: ignore[arg-type]  # a part is an id or a field
                types.append(part.type)
            else:
                at[part.field] = len(ids)
                ids.extend(fields[part.field])
                types.extend([part.type] * len(fields[part.field]))
        arrays: dict[str, Array] = {
            "input_ids": np.array(ids, dtype=np.int64),
            "attention_mask": np.ones(len(ids), dtype=np.int64),
            "token_type_ids": np.array(types, dtype=np.int64),
        }
        return {k: v for k, v in arrays.items() if k in self._inputs}, at

    def truncated_row(self, fields: Mapping[str, Sequence[int]]) -> tuple[Row, bool]:
        """Cut the fields by `fit`, fill the template. Returns the row and whether anything was cut."""
        kept = self.fit({name: len(ids) for name, ids in fields.items()})
        row, _ = self.row({name: self.cut(ids, kept[name]) for name, ids in fields.items()})
        return row, any(kept[name] < len(ids) for name, ids in fields.items())


def breaks(text: str, tokens: Tokens, after: Sequence[str]) -> list[list[int]]:
    """For each set of marks, the tokens behind one of them: where a text may be parted."""
    last = [text[end - 1] if start < end else "" for start, end in tokens.spans]
    return [[i for i, mark in enumerate(last, 1) if mark and mark in marks] for marks in after]


def _is_mark(c: str) -> bool:
    return unicodedata.category(c)[0] == "P"


def _bare(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """A piece's characters without the space that some tokenizers count to the word behind it."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def refuse_overflow(field: str, tokens: int, limit: int) -> InvalidItem:
    """The 422 of a caller who wanted an error rather than a cut."""
    return InvalidItem(f"the text has {tokens} tokens, the model reads {limit}", field=field, code="text_too_long")
