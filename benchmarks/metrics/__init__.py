"""The benchmarks' metrics: `(records, answers, suite) -> score`, in percent where the benchmark reports percent.

A module here exports `METRICS = {name: metric}`; being here registers it. A record that the server refused has the
answer `{}` and must count as wrong. `base` has the building blocks.
"""

from __future__ import annotations

import importlib
import pkgutil

from benchmarks.metrics.base import Metric


def _discover() -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        metrics: dict[str, Metric] = getattr(importlib.import_module(module.name), "METRICS", {})
        if twice := found.keys() & metrics.keys():
            raise RuntimeError(f"{module.name}: metrics defined twice: {', '.join(sorted(twice))}")
        found |= metrics
    return found


METRICS: dict[str, Metric] = _discover()
