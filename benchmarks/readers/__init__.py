"""Readers of the benchmarks' official files: one function a format, `(path, suite) -> records`.

A module here exports `READERS = {name: function}`; being here registers it. By convention a reader has the name of the
packaged suite whose format it reads. A file that breaks its format is a ReaderError.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.records import Record
from suites import Suite

Reader = Callable[[Path, Suite], list[Record]]


def _discover() -> dict[str, Reader]:
    found: dict[str, Reader] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        readers: dict[str, Reader] = getattr(importlib.import_module(module.name), "READERS", {})
        if twice := found.keys() & readers.keys():
            raise RuntimeError(f"{module.name}: readers defined twice: {', '.join(sorted(twice))}")
        found |= readers
    return found


READERS: dict[str, Reader] = _discover()
