"""The tasks of the recipe, read from tasks.yaml. Labels and the sizes of special heads are those of their suites."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

import suites
from suites import Suite

FILE = Path(__file__).with_name("tasks.yaml")


@dataclass(frozen=True)
class Task:
    """One task: its token budget, its files, and what its kind needs besides.

    `keep` thins out one label, `away` is the chance of a window without the answer, `windows` the tokens that windows
    of a long text share, `output` the name of a regression's value, `gate_weights` the loss weights of a dialogue's
    gates. `pointer` is a global pointer that trains on the same batches: the name of its head and its suite.
    """

    name: str
    kind: str
    suite: str
    max_length: int
    tokens: int
    sources: list[dict[str, Any]]
    keep: dict[str, Any] = field(default_factory=dict)
    away: float = 0.0
    windows: int = 0
    output: str = ""
    gate_weights: list[float] = field(default_factory=list)
    pointer: dict[str, str] = field(default_factory=dict)

    @cached_property
    def specification(self) -> Suite:
        """The task's suite."""
        return suites.load(self.suite)

    @property
    def labels(self) -> list[str]:
        """Labels in id order."""
        return self.specification.labels

    @property
    def head(self) -> dict[str, Any]:
        """What the suite says about a head that transformers lacks."""
        return self.specification.head or {}

    @cached_property
    def nested(self) -> Suite | None:
        """The suite of the pointer head."""
        return suites.load(self.pointer["suite"]) if self.pointer else None


def load(path: Path = FILE) -> dict[str, Task]:
    """All tasks by name, in the order of the file."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: Task(name=name, **entry) for name, entry in entries.items()}
