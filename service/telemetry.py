"""Prometheus metrics, in BentoML's registry. Every label comes from a finite set; no text is ever a label.

Created by a worker after BentoML has set PROMETHEUS_MULTIPROC_DIR: importing prometheus_client earlier would make
every worker count for itself alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service.bundle import Bundle
from service.types import Timing

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75)


class Telemetry:
    """Counters of one worker process. One instance a process."""

    def __init__(self) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        self._requests = Counter("clueserve_requests", "Items by bundle and outcome", ["bundle", "outcome"])
        self._refusals = Counter("clueserve_refusals", "Requests refused before a model saw them", ["reason"])
        self._stages = Histogram(
            "clueserve_stage_seconds", "Time of an item by stage", ["bundle", "stage"], buckets=SECONDS
        )
        self._depth = Gauge("clueserve_queue_depth", "Items waiting", ["bundle"], multiprocess_mode="livesum")
        self._rows = Histogram("clueserve_run_rows", "Rows of one graph run", ["bundle"], buckets=ROWS)
        self._tokens = Histogram("clueserve_run_tokens", "Real tokens of one graph run", ["bundle"], buckets=TOKENS)
        self._padding = Histogram(
            "clueserve_run_padding_ratio", "Padding as a part of all tokens of a run", ["bundle"], buckets=RATIOS
        )
        self._info = Gauge(
            "clueserve_bundle_info",
            "1 for every bundle that is ready",
            ["bundle", "family", "suite", "precision", "device"],
            multiprocess_mode="livemax",
        )

    def outcome(self, bundle: str, outcome: str) -> None:
        self._requests.labels(bundle, outcome).inc()

    def refused(self, reason: str) -> None:
        self._refusals.labels(reason).inc()

    def answered(self, bundle: str, timing: Timing) -> None:
        self.outcome(bundle, "ok")
        for stage in ("queue", "tokenize", "inference", "decode"):
            self._stages.labels(bundle, stage).observe(getattr(timing, stage))

    def depth(self, bundle: str) -> Callable[[int], None]:
        gauge: Any = self._depth.labels(bundle)
        set_depth: Callable[[int], None] = gauge.set
        return set_depth

    def runs(self, bundle: str) -> Callable[[int, int, int], None]:
        """A `Session.on_run` for one bundle."""
        rows, tokens, padding = (h.labels(bundle) for h in (self._rows, self._tokens, self._padding))

        def observe(n: int, real: int, padded: int) -> None:
            rows.observe(n)
            tokens.observe(real)
            padding.observe(1 - real / padded)

        return observe

    def ready(self, name: str, bundle: Bundle, device: str) -> None:
        manifest = bundle.manifest
        self._info.labels(name, manifest.family, manifest.suite, bundle.precision, device).set(1)


def exposition() -> tuple[bytes, str]:
    """All workers' metrics in the text format, and its content type."""
    import prometheus_client
    from prometheus_client import multiprocess

    registry = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return prometheus_client.generate_latest(registry), prometheus_client.CONTENT_TYPE_LATEST
