"""Heads for families without a data set of their own here: trained in minutes, over a trunk that stays as it is.

Which ones, and from whose data, is in extra.yaml; their suites are those in demo/heads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml

import demo
import suites
from demo.recipe import extra_files, extra_records, extra_terms, extra_triples, splits
from demo.recipe import tasks as table
from demo.recipe.extra_fit import Plan, fit_choice
from demo.recipe.extra_records import Example, Mentions
from demo.recipe.extra_rows import Frozen, first
from demo.recipe.model import SequenceHead
from demo.recipe.records import Record
from demo.recipe.splits import Split

FILE = Path(__file__).with_suffix(".yaml")
SEED = 0
TUNING = 0.1
"""Part of the training examples that chooses epochs and thresholds."""


@dataclass(frozen=True)
class Job:
    """One head to make: its data, and at most how many examples it trains on."""

    name: str
    maker: str
    splits: dict[str, Split]
    kinds: dict[str, str]
    most: int
    frozen: Frozen
    out: Path

    @property
    def suite(self) -> suites.Suite:
        return suites.load(demo.HEADS / self.name / "suite.yaml")

    @property
    def folder(self) -> Path:
        return self.out / "heads" / self.name

    @property
    def held(self) -> Path:
        return self.out / "heldout"


Make = Callable[[Sequence[Record], random.Random], list[Example]]
Maker = Callable[[Job], list[str]]
"""Writes a head and its held-out file; returns what there is to say."""


def run(trunk: Path, data: Path, out: Path, names: list[str] | None = None, most: int | None = None) -> None:
    """Train the extra heads and write them and their held-out files under `out`."""
    entries = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    tasks = table.load()
    frozen = Frozen(trunk)
    for name in names or entries:
        entry = entries[name]
        parts = {task: splits.split(tasks[task], data) for task in entry["tasks"]}
        limit = min(most or entry["most"], entry["most"])
        job = Job(name, entry["maker"], parts, entry["tasks"], limit, frozen, out)
        for line in MAKERS[job.maker](job):
            print(f"{name}: {line}", flush=True)


def _chosen(make: Make, write: Callable[[Path, list[Example]], None]) -> Maker:
    """A head that chooses among the rows of a question or of a blank."""

    def maker(job: Job) -> list[str]:
        (split,) = job.splits.values()
        made = make(split.used, random.Random(SEED))
        made = random.Random(SEED).sample(made, min(job.most, len(made)))
        held = make(split.held, random.Random(SEED))
        write(job.held / f"{job.name}.json", held)
        task = job.frozen.task(job.suite)
        rows, sizes, gold = [], [], []
        for example in made:
            encoded = task.encode(task.Input.model_validate(example.item)).rows
            right = list(example.gold.values()) if isinstance(example.gold, dict) else [example.gold]
            rows += encoded
            sizes += [len(encoded) // len(right)] * len(right)
            gold += right
        groups = torch.stack(job.frozen.states(rows, first)).split(sizes)
        torch.manual_seed(SEED)
        head = SequenceHead(job.frozen.config.hidden_size, 1)
        tuned = fit_choice(head, groups, gold, int(TUNING * len(groups)), Plan())
        extra_files.stock(job.folder, "BertForMultipleChoice", head)
        return [f"{len(gold)} groups of choices, {100 * tuned:.1f} % right in the tuning part; {len(held)} held out"]

    return maker


def _triples(job: Job) -> list[str]:
    (split,) = job.splits.values()
    made = extra_triples.Maker(job.frozen, job.suite, TUNING, SEED)
    lines = made.train(extra_records.pairs(split.used)[: job.most])
    extra_files.own(job.folder / "entities", made.entities)
    extra_files.own(job.folder / "relations", made.relations)
    predicates = {made.none, *(predicate for _, predicate, _ in job.suite.decoder["relations"])}
    held = [example for example in extra_records.pairs(split.held) if example.gold[0] in predicates]
    extra_files.triples(job.held / f"{job.name}.json", held, made.none)
    return [*lines, f"{len(held)} sentences held out"]


def _terms(job: Job) -> list[str]:
    used: list[Mentions] = []
    held: list[Mentions] = []
    for name, kind in job.kinds.items():
        used += extra_records.mentions(job.splits[name].used, kind)
        held += extra_records.mentions(job.splits[name].held, kind)
    made = extra_terms.Maker(job.frozen, job.suite, TUNING, SEED)
    lines = made.train(used, job.most)
    extra_files.stock(job.folder / "counter", "BertForSequenceClassification", made.counter)
    (job.folder / "catalogue.tsv").write_text("".join(f"{name}\n" for name in made.catalogue), encoding="utf-8")
    for suffix, slips in (("", True), ("-as-written", False)):
        examples = made.held(held, slips)
        extra_files.terms(job.held / f"{job.name}{suffix}.json", examples)
        lines.append(f"{len(examples)} texts held out{suffix}")
    return lines


MAKERS: dict[str, Maker] = {
    "choices": _chosen(extra_records.choices, extra_files.choices),
    "cloze": _chosen(extra_records.cloze, extra_files.cloze),
    "triples": _triples,
    "terms": _terms,
}
