"""Terms of a catalogue that a text may mean, by words and by characters in common: exact scores through an index."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from service.types import Array

# jieba's own segmenter, which models were trained behind, ends a run of Latin letters and digits that is no word of its
# dictionary at every sign; the one here would keep "18-65" and "7.0mmol" whole.
_LATIN = re.compile(r"[a-zA-Z0-9+#&._%\-]{2,}")
_LATIN_PARTS = re.compile(r"([a-zA-Z0-9]+(?:\.\d+)?%?)")


def words(text: str) -> list[str]:
    """Words of a Chinese text as jieba's default mode cuts them; white space and signs are words, too."""
    import rjieba  # a dictionary of 33 MB, for those who need it

    found: list[str] = []
    for word in rjieba.cut(text):
        if _LATIN.fullmatch(word) and not rjieba.has_word(word):
            found.extend(part for part in _LATIN_PARTS.split(word) if part)
        else:
            found.append(word)
    return found


class _Index(NamedTuple):
    """Documents by the keys in them: those of key k are `documents[starts[k]:starts[k + 1]]`, with their `weights`."""

    keys: dict[str, int]
    starts: Array
    documents: Array
    weights: Array

    @classmethod
    def of(cls, counts: Sequence[Counter[str]]) -> _Index:
        """An index of bags of keys, by the number of times that a key is in a document."""
        keys = {key: i for i, key in enumerate(dict.fromkeys(key for bag in counts for key in bag))}
        document = np.repeat(np.arange(len(counts), dtype=np.int32), [len(bag) for bag in counts])
        key = np.fromiter((keys[k] for bag in counts for k in bag), np.int32, len(document))
        times = np.fromiter((n for bag in counts for n in bag.values()), np.float64, len(document))
        order = np.argsort(key, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(key, minlength=len(keys))))
        return cls(keys, starts, document[order], times[order])

    @property
    def spread(self) -> Array:
        """The number of documents that each key is in."""
        return np.diff(self.starts)

    def add(self, to: Array, keys: Iterable[tuple[int, float]]) -> Array:
        """Sum over keys of factor times weight, into one number a document."""
        for key, factor in keys:
            part = slice(self.starts[key], self.starts[key + 1])
            to[self.documents[part]] += factor * self.weights[part]  # a document is there once
        return to


class Recall:
    """Terms by their likeness to a text: tf-idf cosine plus character overlap, from 0 to 2.

    tf-idf is gensim's default: raw counts times log2(terms / terms with the word), to unit length; words that no term
    has are left out before. (gensim keeps it in float32, which is all that differs.) The overlap is the characters in
    common over those of whichever has fewer; a character counts once. Built once, then only read, so that threads may
    share it.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._count = len(names)
        index = _Index.of([Counter(words(name)) for name in names])
        self._rarity = np.log2(self._count / index.spread)
        weights = index.weights * np.repeat(self._rarity, index.spread)
        lengths = np.sqrt(np.bincount(index.documents, weights**2, minlength=self._count))
        self._words = index._replace(weights=weights / np.where(lengths > 0, lengths, 1.0)[index.documents])
        self._characters = _Index.of([Counter(set(name)) for name in names])
        self._sizes = np.array([len(set(name)) for name in names])

    def scores(self, text: str) -> Array:
        """The likeness of every term [N] to a text that is not empty."""
        counts = [(self._words.keys[w], n) for w, n in Counter(words(text)).items() if w in self._words.keys]
        weights = [(word, n * float(self._rarity[word])) for word, n in counts]
        length = float(np.sqrt(sum(weight**2 for _, weight in weights))) or 1.0
        cosine = self._words.add(np.zeros(self._count), ((word, weight / length) for word, weight in weights))
        characters = dict.fromkeys(text)
        known = ((self._characters.keys[c], 1.0) for c in characters if c in self._characters.keys)
        shared = self._characters.add(np.zeros(self._count), known)
        likeness: Array = cosine + shared / np.minimum(len(characters), self._sizes)
        return likeness

    def top(self, text: str, count: int) -> tuple[Array, Array]:
        """The `count` likeliest terms, best first, of equals the earlier one: their numbers and their scores."""
        scores = self.scores(text)
        least = np.partition(scores, -count)[-count] if count < len(scores) else -np.inf
        near = np.flatnonzero(scores >= least)
        best = near[np.argsort(-scores[near], kind="stable")][:count]
        return best, scores[best]
