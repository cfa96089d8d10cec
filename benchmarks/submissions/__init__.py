"""Predictions as the leaderboards take them: for the reader of a format a writer, and a checker of the official rules.

`SUBMISSIONS[reader](records, answers, suite, source, folder)` writes what the server answered to the records of the
file `source` under the name that the leaderboard wants, checks it and returns its path. `CHECKS[reader](path, suite,
source)` raises ReaderError at the first line or record that the leaderboard would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.records import Record
from benchmarks.submissions import cblue, clue
from service.types import Answer
from suites import Suite

Writer = Callable[[Sequence[Record], Sequence[Answer], Suite, Path, Path], Path]
Checker = Callable[[Path, Suite, Path], None]

SUBMISSIONS: dict[str, Writer] = {
    **dict.fromkeys(clue.FORMATS, clue.write),
    **dict.fromkeys(cblue.FORMATS, cblue.write),
}
CHECKS: dict[str, Checker] = {**dict.fromkeys(clue.FORMATS, clue.check), **dict.fromkeys(cblue.FORMATS, cblue.check)}
