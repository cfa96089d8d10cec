"""Standard terms of CHIP-CDN: gold is the terms of a diagnosis. The official scorer is not published."""

from __future__ import annotations

from benchmarks.metrics.base import micro_f1
from benchmarks.records import Record
from service.types import Answer
from suites import Suite


def _terms(record: Record, answer: Answer, suite: Suite) -> tuple[set[str], set[str]]:
    """Order and repetitions do not count; names are compared as the catalogue writes them."""
    return set(record.gold), {term["name"] for term in answer.get("terms", [])}


METRICS = {"term_micro_f1": micro_f1(_terms)}
