"""Readers of the benchmarks' official files: one function a format, `(path, suite) -> records`.

A module here exports `READERS = {name: function}`; being here registers it. By convention a reader has the name of the
packaged suite whose format it reads. A file that breaks its format is a ReaderError.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from benchmarks.records import Record
from benchmarks.registry import merged
from suites import Suite

Reader = Callable[[Path, Suite], list[Record]]


READERS: dict[str, Reader] = cast(dict[str, Reader], merged(__name__, __path__, "READERS"))
