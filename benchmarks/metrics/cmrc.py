"""Exact match and F1 of CMRC 2018 and DRCD, as the official script (v5 special) counts them.

Gold is every accepted answer; the best of them counts. Both metrics lower the case and drop a fixed list of
punctuation, nothing else: full stops, brackets and spaces inside an answer stay. F1 counts segments: a Chinese
character is one, what stands between them is cut into words by NLTK.

The official script calls `nltk.word_tokenize`, which first cuts sentences by a trained model that NLTK downloads. Only
its word tokenizer is used here, which needs no data. A port of the model was put before it to compare: of the answers
of both development sets none came out differently, of the DRCD test set's 6,986 two did ("c.l. max").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import cache

from benchmarks.metrics.base import Sum, mean
from benchmarks.records import Record
from service.types import Answer
from suites import Suite

# The script's list also holds the two characters "……", which it compares with single ones: ellipses always stay.
PUNCTUATION = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
FIRST_CHINESE, LAST_CHINESE = "一", "龥"


def plain(text: str) -> str:
    """Lower case, without white space at either end and without the punctuation of the list."""
    return text.lower().strip().translate(PUNCTUATION)


def segments(text: str) -> list[str]:
    """Chinese characters and, between them, words of `plain` text."""
    found: list[str] = []
    other = ""
    for character in plain(text):
        if FIRST_CHINESE <= character <= LAST_CHINESE:
            found += [*_words()(other), character]
            other = ""
        else:
            other += character
    return found + _words()(other)


@cache
def _words() -> Callable[[str], list[str]]:
    from nltk.tokenize import NLTKWordTokenizer  # importing nltk takes a second, which other metrics need not wait

    words: Callable[[str], list[str]] = NLTKWordTokenizer().tokenize
    return words


def overlap(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """F1 of the longest common contiguous run of segments; 0 if there is none, even of two empty answers."""
    matcher = SequenceMatcher(None, predicted, gold, autojunk=False)
    run = matcher.find_longest_match(0, len(predicted), 0, len(gold)).size
    return 2 * run / (len(predicted) + len(gold)) if run else 0.0


def _exact(predicted: str, gold: str) -> float:
    return float(plain(predicted) == plain(gold))


def _f1(predicted: str, gold: str) -> float:
    return overlap(segments(predicted), segments(gold))


def _best(score: Callable[[str, str], float]) -> Sum:
    """The mean of each record's best score over its golds."""

    def value(record: Record, answer: Answer, suite: Suite) -> float:
        if not answer:
            return 0.0
        predicted = answer["answer"]["text"] if answer["answer"] else ""
        return max(score(predicted, gold) for gold in record.gold)

    return mean(value)


METRICS = {"cmrc_em": _best(_exact), "cmrc_f1": _best(_f1)}
