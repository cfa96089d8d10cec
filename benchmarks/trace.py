"""What is sent and when: seeded arrivals, and requests of real lengths, the same for every server."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, TypeVar

import yaml

import suites
from benchmarks import datasets
from benchmarks.readers import READERS

# Words of a text are drawn log-normally: most are headlines and single sentences, a few are paragraphs.
MEDIAN_WORDS = 9
SPREAD = 0.6
LONGEST_WORDS = 60

# Half of a burst schedule's requests come at once, one crowd every few seconds.
BURST_EVERY = 5.0

LENGTHS = Path(__file__).with_name("lengths.yaml")
KINDS = ("mixed", "examples", "lognormal", "data")
UNSPACED = ("zh", "zh-Hant")
OPTIONS = ("offset_unit", "on_overflow")

Text = TypeVar("Text", str, list[str])
Schedule = Callable[[float, float, int], list[float]]
Draw = Callable[[Sequence[str]], dict[str, str]]
"""New texts for these fields, or nothing."""


@dataclass(frozen=True)
class Target:
    """A served model. `example` is a request of its own, for a suite that is not among the packaged ones."""

    name: str
    suite: str
    language: str
    example: Mapping[str, Any] | None = None

    def examples(self) -> Sequence[Mapping[str, Any]]:
        if self.suite in suites.names():
            return suites.load(self.suite).examples
        if self.example is None:
            raise ValueError(f"{self.name}: no example of {self.suite!r} is known")
        return [self.example]


@dataclass(frozen=True)
class Call:
    """One request: the model by its route's name, and the item."""

    model: str
    item: dict[str, Any]


def arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Instants in `[0, seconds)` of a Poisson process: callers who do not wait for each other."""
    rng = random.Random(seed)
    endless = accumulate(iter(lambda: rng.expovariate(rate), None))
    return list(takewhile(lambda at: at < seconds, endless))


def constant(rate: float, seconds: float, seed: int) -> list[float]:
    """Evenly spaced instants; nothing about them is random."""
    return [i / rate for i in range(int(rate * seconds))]


def burst(rate: float, seconds: float, seed: int) -> list[float]:
    """A Poisson process of half the rate, and the other half in crowds: all of one crowd at the same instant."""
    size = round(rate / 2 * BURST_EVERY)
    count = int(seconds / BURST_EVERY + 0.5)
    crowds = [(i + 0.5) * BURST_EVERY for i in range(count) for _ in range(size)]
    return sorted(crowds + arrivals(rate / 2, seconds, seed))


SCHEDULES: dict[str, Schedule] = {"poisson": arrivals, "constant": constant, "burst": burst}


def calls(targets: Sequence[Target], kind: str, count: int, seed: int, data_dir: Path | None = None) -> list[Call]:
    """`count` requests to the targets in turn.

      examples   those of their suites, as they are
      mixed      the same with other text: as long as that of the suite's benchmark, where its lengths are known
      lognormal  the same with texts of log-normally many words, whatever the suite
      data       the records of the benchmarks' own files under `data_dir`

    Only requests that are nothing but text get other text: offsets, words and turns belong to theirs, which then stays.
    ValueError if there is no data of a target.
    """
    rng = random.Random(seed)
    share = -(-count // len(targets))
    items = [_records(t, data_dir, rng) if kind == "data" else _items(t, kind, share, rng) for t in targets]
    found = []
    for i in range(count):
        turn, which = divmod(i, len(targets))
        found.append(Call(targets[which].name, items[which][turn % len(items[which])]))
    return found


def text_fields(item: Mapping[str, Any]) -> list[str]:
    """The fields whose text can be other text in as good a request; none where offsets, words or turns belong to it."""
    if any(isinstance(value, dict | list) for value in item.values()):
        return []
    return [field for field, value in item.items() if isinstance(value, str) and field not in OPTIONS]


@cache
def lengths() -> dict[str, dict[str, list[int]]]:
    """Characters of each text field of a suite's benchmark: quantiles in equal steps, from the least to the most."""
    found: dict[str, dict[str, list[int]]] = yaml.safe_load(LENGTHS.read_text(encoding="utf-8"))
    return found


def quantile(steps: Sequence[int], part: float) -> int:
    """The value at `part` (0 to 1) of a distribution, between its neighbours among the quantiles."""
    at = part * (len(steps) - 1)
    below = min(int(at), len(steps) - 2)
    return round(steps[below] + (steps[below + 1] - steps[below]) * (at - below))


@cache
def example_texts(language: str) -> list[str]:
    """Every text that the packaged suites of a language give as an example."""
    found = [suites.load(name) for name in suites.names()]
    examples: list[dict[str, Any]] = [e for suite in found if suite.language == language for e in suite.examples]
    return [value for example in examples for value in example.values() if isinstance(value, str)]


def texts(pool: Sequence[str], count: int, seed: int, median: float = MEDIAN_WORDS) -> list[str]:
    """`count` texts cut from the pool read as one running text: real words in real order, lengths of many callers."""
    rng = random.Random(seed)
    words = [word for text in pool for word in text.split()]
    return [" ".join(_some_words(words, rng, median)) for _ in range(count)]


def _some_words(words: list[str], rng: random.Random, median: float = MEDIAN_WORDS) -> list[str]:
    size = min(LONGEST_WORDS, max(2, round(rng.lognormvariate(0, SPREAD) * median)))
    return _cut(words, rng.randrange(len(words)), size)


def _cut(text: Text, start: int, size: int) -> Text:
    """`size` words or characters of a text that begins anew where it ends."""
    return (text * (size // len(text) + 2))[start : start + size]


def _items(target: Target, kind: str, count: int, rng: random.Random) -> list[dict[str, Any]]:
    """`count` items made of the target's examples in turn."""
    examples = target.examples()
    items = [dict(examples[i % len(examples)]) for i in range(count)]
    if kind == "examples":
        return items
    draw = _by_length(target, rng) if kind == "mixed" else _by_words(target, rng)
    return [item | draw(text_fields(item)) for item in items]


def _by_length(target: Target, rng: random.Random) -> Draw:
    """Texts with as many characters as the benchmark's have; the item's own where its lengths are not known."""
    known = lengths().get(target.suite, {})
    spaced = target.language not in UNSPACED
    text = (" " if spaced else "").join(example_texts(target.language)) + " " * spaced
    starts = [i for i, c in enumerate(text) if not c.isspace() and (not spaced or i == 0 or text[i - 1].isspace())]

    def draw(fields: Sequence[str]) -> dict[str, str]:
        if not known.keys() >= set(fields):
            return {}
        return {f: _cut(text, rng.choice(starts), max(1, quantile(known[f], rng.random()))) for f in fields}

    return draw


def _by_words(target: Target, rng: random.Random) -> Draw:
    """Log-normally many words; without spaces, two characters count as a word."""
    spaced = target.language not in UNSPACED
    pool = example_texts(target.language)
    words = [
        w for text in pool for w in (text.split() if spaced else [text[i : i + 2] for i in range(0, len(text), 2)])
    ]
    return lambda fields: {field: (" " if spaced else "").join(_some_words(words, rng)) for field in fields}


def _records(target: Target, data_dir: Path | None, rng: random.Random) -> list[dict[str, Any]]:
    """Every record of the target's benchmark, shuffled."""
    suite = suites.load(target.suite)
    files = datasets.find(data_dir, target.name, suite.name, suite.reader) if data_dir else []
    if not files:
        raise ValueError(f"{target.name}: no data for {suite.name} in {data_dir}")
    reader = READERS[suite.reader or suite.name]
    items = [record.item for path in files for record in reader(path, suite)]
    rng.shuffle(items)
    return items
