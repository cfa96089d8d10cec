"""Head families. A family is one file here; being here registers it."""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from service.bundle import Bundle
from service.errors import BundleError
from service.tasks.base import Task


def _discover() -> dict[str, type[Task]]:
    found: dict[str, type[Task]] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if not (isinstance(value, type) and issubclass(value, Task) and "family" in vars(value)):
                continue
            if found.setdefault(value.family, value) is not value:
                raise RuntimeError(f"family {value.family!r} is defined twice")
    return found


FAMILIES: dict[str, type[Task]] = _discover()


def family(bundle: Bundle) -> type[Task]:
    """The head family that a bundle names; BundleError if there is none."""
    name = bundle.manifest.family
    if name not in FAMILIES:
        close = difflib.get_close_matches(name, FAMILIES, 1)
        hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(sorted(FAMILIES))}"
        raise BundleError(f"{bundle.folder}: unknown family {name!r}{hint}")
    return FAMILIES[name]
