"""Which records train and which are held out: by a hash that never changes, or by the benchmark's own test file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from demo.recipe.records import Record, read
from demo.recipe.tasks import Task


@dataclass(frozen=True)
class Split:
    """Records of one task; `used` are the training records that really train, repetitions included."""

    train: list[Record]
    held: list[Record]
    used: list[Record]


def held_out(key: str, percent: int) -> bool:
    """Whether a key falls in the first `percent` of a hundred hash classes."""
    return int(hashlib.sha1(key.encode("utf-8")).hexdigest()[:8], 16) % 100 < percent


def split(task: Task, root: Path) -> Split:
    """Read and split a task's sources. No text of a held-out record is left in the training part."""
    train: list[Record] = []
    held: list[Record] = []
    repeated: list[Record] = []
    for source in task.sources:
        if "test_ids" in source:
            tests = set(json.loads((root / source["test_ids"]).read_text(encoding="utf-8")))
        else:
            tests = set()
        percent = 100 if source.get("test") else source.get("percent", 0)
        for record in read(root, source):
            if record.key in tests or held_out(record.key, percent):
                held.append(record)
            else:
                train.append(record)
                repeated += [record] * source.get("repeat", 1)
    tested = {record.texts if task.kind != "spans" else record.texts[:1] for record in held}

    def clean(record: Record) -> bool:
        texts = record.texts if task.kind != "spans" else record.texts[:1]
        return texts not in tested

    used = [record for record in repeated if record.certain and clean(record) and _kept(task, record)]
    return Split([record for record in train if clean(record)], held, used)


def _kept(task: Task, record: Record) -> bool:
    """Thin out the one label that a task has too much of."""
    if not task.keep or record.label != task.keep["label"]:
        return True
    return held_out(record.raw["guid"] + "keep", task.keep["percent"])
