"""What is sent and when: seeded Poisson arrivals and texts of mixed length, the same for every server."""

from __future__ import annotations

import random
from itertools import accumulate, takewhile
from typing import Any

import suites

# Words of a text are drawn log-normally: most are headlines and single sentences, a few are paragraphs.
MEDIAN_WORDS = 9
SPREAD = 0.6
LONGEST_WORDS = 60


def arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Instants in `[0, seconds)` of a Poisson process: callers who do not wait for each other."""
    rng = random.Random(seed)
    endless = accumulate(iter(lambda: rng.expovariate(rate), None))
    return list(takewhile(lambda at: at < seconds, endless))


def example_texts(language: str) -> list[str]:
    """Every text that the packaged suites of a language give as an example."""
    found = [suites.load(name) for name in suites.names()]
    examples: list[dict[str, Any]] = [e for suite in found if suite.language == language for e in suite.examples]
    return [value for example in examples for value in example.values() if isinstance(value, str)]


def texts(pool: list[str], count: int, seed: int) -> list[str]:
    """`count` texts cut from the pool read as one running text: real words in real order, lengths of many callers."""
    rng = random.Random(seed)
    words = [word for text in pool for word in text.split()]
    drawn = []
    for _ in range(count):
        size = min(LONGEST_WORDS, max(2, round(rng.lognormvariate(0, SPREAD) * MEDIAN_WORDS)))
        start = rng.randrange(len(words))
        drawn.append(" ".join((words * (size // len(words) + 2))[start : start + size]))
    return drawn
