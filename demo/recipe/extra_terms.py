"""Normalisation of disease names: a catalogue of frequent names, and a head that counts how many a text holds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import torch

from demo.recipe.extra_fit import Plan, fit_classes
from demo.recipe.extra_records import Example, Mentions, slip
from demo.recipe.extra_rows import Frozen, first
from demo.recipe.model import SequenceHead
from service.text import normalize
from suites import Suite

OFTEN = 2
"""Occurrences from which on a name belongs to the catalogue."""


class Maker:
    """Catalogue and counter of a term-normalization suite."""

    def __init__(self, frozen: Frozen, suite: Suite, tuning: float, seed: int) -> None:
        self.frozen, self.suite, self.tuning, self.seed = frozen, suite, tuning, seed
        self.catalogue: list[str] = []
        stage = suite.stages["counter"]
        self.counter = SequenceHead(frozen.config.hidden_size, len(stage.labels))

    def train(self, found: Sequence[Mentions], most: int) -> list[str]:
        """Make the catalogue and train the counter on texts as written and with slips."""
        times = Counter(name for one in found for name in one.names)
        self.catalogue = sorted(name for name, n in times.items() if n >= OFTEN and len(name.split()) == 1)
        rng, stage = random.Random(self.seed), self.suite.stages["counter"]
        texts = {text: len(one.spans) for one in found for text in (one.text, slip(one, self.catalogue, rng))}
        chosen = rng.sample(sorted(texts.items()), min(most, len(texts)))
        task = self.frozen.task(stage)
        rows = [task.encode(task.Input(text=self._prepared(text))).rows[0] for text, _ in chosen]
        states = torch.stack(self.frozen.states(rows, first)).unsqueeze(1)
        gold = [min(n, len(stage.labels)) - 1 for _, n in chosen]
        torch.manual_seed(self.seed)
        tuned = fit_classes(self.counter, states, gold, int(self.tuning * len(gold)), Plan())
        return [
            f"{len(self.catalogue)} names in the catalogue",
            f"counter: {len(gold)} texts, {100 * tuned:.1f} % right in the tuning part",
        ]

    def _prepared(self, text: str) -> str:
        """As the pipeline prepares it."""
        n = self.suite.normalization
        replace = {ord(old): new for old, new in n.replace.items()}
        return normalize(text, n.form, n.lowercase, replace).text.strip(self.suite.decoder.get("strip", ""))

    def held(self, found: Sequence[Mentions], slips: bool) -> list[Example]:
        """Different texts whose names are all in the catalogue; with slips, only those that have one."""
        rng, known = random.Random(self.seed), set(self.catalogue)
        examples: dict[str, Example] = {}
        for one in found:
            if known.issuperset(one.names):
                text = slip(one, self.catalogue, rng)
                if text != one.text:
                    item = {"text": text if slips else one.text}
                    examples.setdefault(one.text, Example(item, sorted(set(one.names))))
        return list(examples.values())
