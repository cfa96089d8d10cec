"""The recipe's tasks over hand-made records of the official formats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from demo.recipe import tasks
from demo.recipe.tasks import Task

OFFICIAL = Path(__file__).parents[1] / "official"
FILES = {
    "klue-ner": "klue/ner.tsv",
    "klue-nli": "klue/nli.json",
    "klue-sts": "klue/sts.json",
    "klue-re": "klue/re.json",
    "klue-mrc": "klue/mrc.json",
    "klue-dp": "klue/dp.tsv",
    "klue-wos": "klue/wos.json",
    "cmedqaner": "chineseblue/cmedqaner.jsonl",
    "cmedtc": "chineseblue/cmedtc.txt",
    "bc5cdr": "biomed/bc5cdr.tsv",
    "pubmedqa": "biomed/pubmedqa.json",
}
"""One task of every kind and reader, over the hand-made records of the official formats."""


def own_tasks(percent: int = 0, chosen: tuple[str, ...] = tuple(FILES)) -> dict[str, Task]:
    """Tasks of the recipe whose only source is a hand-made file, of which `percent` are held out."""
    found = {}
    for name, task in tasks.load().items():
        if name in chosen:
            dropped = ("repeat", "test_ids", "test")
            source = {key: value for key, value in task.sources[0].items() if key not in dropped}
            found[name] = replace(task, sources=[source | {"file": FILES[name], "percent": percent}], tokens=3000)
    return found
