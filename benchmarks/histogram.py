"""Latencies as HDR histograms: percentiles of a run, and runs merged without averaging percentiles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hdrh.histogram import HdrHistogram

LONGEST_US = 3_600_000_000
"""An hour; what is longer counts as this."""
DIGITS = 3
QUANTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}


def of(seconds: Iterable[float]) -> HdrHistogram:
    """Latencies in seconds, kept as microseconds."""
    histogram = HdrHistogram(1, LONGEST_US, DIGITS)
    for value in seconds:
        histogram.record_value(min(LONGEST_US, max(1, round(value * 1e6))))
    return histogram


def encode(histogram: HdrHistogram) -> str:
    """The histogram as text (V2, compressed, base64): what other HDR tools read, too."""
    encoded: bytes = histogram.encode()
    return encoded.decode()


def decode(text: str) -> HdrHistogram:
    return HdrHistogram.decode(text.encode())


def merged(texts: Iterable[str]) -> HdrHistogram:
    """Several runs as one."""
    total = of(())
    for text in texts:
        total.add(decode(text))
    return total


def latency_ms(histogram: HdrHistogram) -> dict[str, float | None]:
    """Mean, quantiles and maximum in milliseconds, each None if nothing was recorded."""
    if not histogram.total_count:
        return dict.fromkeys(("mean", *QUANTILES, "max"))
    quantiles: dict[str, Any] = {name: histogram.get_value_at_percentile(q) for name, q in QUANTILES.items()}
    found = {"mean": histogram.get_mean_value(), **quantiles, "max": histogram.get_max_value()}
    return {name: round(value / 1000, 3) for name, value in found.items()}
