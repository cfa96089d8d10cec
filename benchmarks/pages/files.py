"""Reading saved results; a file that is none, or not as its command saves it, is refused with its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from benchmarks import results
from benchmarks.pages.run_shapes import Run
from benchmarks.pages.shapes import FOUND, Origin, Proof

T = TypeVar("T")


@dataclass(frozen=True)
class Result:
    """One file. `label`: what the page calls it."""

    label: str
    origin: Origin
    found: Any
    """One of the shapes above, or what a command saved that is not known here."""


def read(paths: Sequence[Path]) -> list[Result]:
    """Every file's result; ValueError or OSError with the name of the first that is none."""
    stems = [path.stem for path in paths]
    found = []
    for path in paths:
        saved = results.load(path)
        shape = FOUND.get(saved["command"]) if isinstance(saved["command"], str) else None
        try:
            origin = Origin.model_validate(saved)
            content = shape.model_validate(saved["found"]) if shape else saved["found"]
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "found"
            raise ValueError(f"{path} is no result of {saved['command']}: {where}: {first['msg']}") from None
        label = path.stem if stems.count(path.stem) == 1 else str(path.with_suffix(""))
        found.append(Result(label, origin, content))
    return found


def those(found: Sequence[Result], kind: type[T]) -> list[tuple[str, T]]:
    """The labels and findings of one kind."""
    return [(result.label, result.found) for result in found if isinstance(result.found, kind)]


def runs(found: Sequence[Result]) -> list[tuple[str, Run]]:
    """Runs of load by what they are called: those of their own, and those that a proof is made of."""
    of_proofs = [(f"{label}: {run.name}", run) for label, proof in those(found, Proof) for run in proof.runs]
    return those(found, Run) + of_proofs
