"""What a reader makes of a benchmark's file: requests, each with the answer that the benchmark wants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Record:
    """One request and its gold answer.

    `item` is an HTTP request item of the suite's family. `gold` has the shape of the answer where that is possible:
    a label, a value, entities as `[[start, end, type], ...]` (code points, exclusive), triples as `[[subject,
    predicate, object], ...]`, a state `{slot: value}`, answers as `[text, ...]`. `uncertain` says why the file itself
    does not vouch for the record; such records are scored only when somebody asks for them.
    """

    id: str
    item: dict[str, Any]
    gold: Any
    uncertain: str | None = None


class ReaderError(ValueError):
    """A file that does not follow its format; the message names the file, the place and what was expected."""

    def __init__(self, path: Path, where: str, expected: str) -> None:
        super().__init__(f"{path}: {where}: {expected}")
