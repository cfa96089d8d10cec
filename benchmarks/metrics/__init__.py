"""The benchmarks' metrics: `(records, answers, suite) -> score`, in percent where the benchmark reports percent.

A module here exports `METRICS = {name: metric}`; being here registers it. A record that the server refused has the
answer `{}` and must count as wrong. `base` has the building blocks.
"""

from __future__ import annotations

from typing import cast

from benchmarks.metrics.base import Metric
from benchmarks.registry import merged

METRICS: dict[str, Metric] = cast(dict[str, Metric], merged(__name__, __path__, "METRICS"))
