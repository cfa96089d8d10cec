"""Tables that a package's modules fill: each exports a part under the same name, and being there registers it."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def merged(package: str, path: list[str], table: str) -> dict[str, object]:
    """The parts of `table` in the modules of a package; RuntimeError if two have the same key."""
    found: dict[str, object] = {}
    for info in pkgutil.iter_modules(path, f"{package}."):
        module: ModuleType = importlib.import_module(info.name)
        part: dict[str, object] = getattr(module, table, {})
        if twice := found.keys() & part.keys():
            raise RuntimeError(f"{info.name}: {table} defined twice: {', '.join(sorted(twice))}")
        found |= part
    return found
