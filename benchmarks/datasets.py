"""Finding a suite's data in a folder of benchmark files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("datasets.yaml")
ENDINGS = (".json", ".jsonl", ".tsv", ".txt")


@cache
def known() -> dict[str, list[str]]:
    found: dict[str, list[str]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def find(folder: Path, *names: str) -> list[Path]:
    """The data of the first of `names` (bundles or suites) that has any: files of one task lie in one folder."""
    for name in names:
        own = [name.replace("/", "-") + ending for ending in ENDINGS]
        for pattern in [*own, *known().get(name, [])]:
            files = sorted(folder.rglob(pattern))
            if files:
                return [path for path in files if path.parent == files[0].parent]
    return []
