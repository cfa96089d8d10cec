"""Head families. A family is one file here; being here registers it."""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from service.bundle import Bundle
from service.errors import BundleError
from service.tasks.base import Task


def _discover() -> dict[tuple[str, bool], type[Task]]:
    found: dict[tuple[str, bool], type[Task]] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if not (isinstance(value, type) and issubclass(value, Task) and "family" in vars(value)):
                continue
            if found.setdefault((value.family, value.staged), value) is not value:
                raise RuntimeError(f"family {value.family!r} is defined twice")
    return found


_CLASSES = _discover()

FAMILIES: dict[str, type[Task]] = {name: cls for (name, _), cls in _CLASSES.items()}
"""A class of each family; its request and answer are those of every bundle of the family."""


def family(bundle: Bundle) -> type[Task]:
    """The class for the head family that a bundle names; BundleError if there is none."""
    name = bundle.manifest.family
    if name not in FAMILIES:
        close = difflib.get_close_matches(name, FAMILIES, 1)
        hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(sorted(FAMILIES))}"
        raise BundleError(f"{bundle.folder}: unknown family {name!r}{hint}")
    found = _CLASSES.get((name, bool(bundle.stages)))
    if found is None:
        raise BundleError(f"{bundle.folder}: family {name} {'cannot' if bundle.stages else 'must'} have stages")
    return found
