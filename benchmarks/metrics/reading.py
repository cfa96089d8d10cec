"""KLUE's reading comprehension: gold is every accepted answer, none of them where there is no answer."""

from __future__ import annotations

import string
from collections.abc import Callable
from difflib import SequenceMatcher

from benchmarks.metrics.base import Sum, mean
from benchmarks.records import Record
from service.types import Answer
from suites import Suite

PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """Lower case without ASCII punctuation, single spaces.

    The official script also means to drop brackets and quotes such as 《》‘’, but its pattern never matches.
    """
    return " ".join(text.lower().translate(PUNCTUATION).split())


def overlap(predicted: str, gold: str) -> float:
    """F1 of the longest common contiguous run of characters, which the benchmark calls ROUGE-W."""
    if not gold or not predicted:
        return float(gold == predicted)
    # Like the official script with difflib's heuristic that ignores frequent characters of a gold over 200 characters.
    run = SequenceMatcher(None, predicted, gold).find_longest_match(0, len(predicted), 0, len(gold)).size
    return 2 * run / (len(predicted) + len(gold))


def _best(score: Callable[[str, str], float]) -> Sum:
    """The mean of each record's best score over its golds; no answer has the text ""."""

    def value(record: Record, answer: Answer, suite: Suite) -> float:
        if not answer:
            return 0.0
        predicted = normalized(answer["answer"]["text"] if answer["answer"] else "")
        return max(score(predicted, normalized(gold)) for gold in record.gold or [""])

    return mean(value)


METRICS = {
    "klue_em": _best(lambda predicted, gold: float(predicted == gold)),
    "klue_rouge_w": _best(overlap),
}
