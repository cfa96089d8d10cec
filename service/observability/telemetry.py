"""Prometheus metrics, in BentoML's registry. Every label comes from a finite set; no text is ever a label.

Created by a worker after BentoML has set PROMETHEUS_MULTIPROC_DIR: importing prometheus_client earlier would make
every worker count for itself alone. docs/observability.md lists what there is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import time
from typing import Any, Literal

import psutil
from pydantic import BaseModel

from service.bundle import Bundle
from service.observability.quality import reader
from service.types import Answer, Timing

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75)
SCORES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
STAGES = ("queue", "tokenize", "inference", "decode")
# There from the start, so that the first of them is an increase.
OUTCOMES = ("ok", "internal", "overloaded", "deadline_exceeded")
CAUSES = ("crashed", "hung")


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of the catalogue. `over`: how a gauge's values of several workers become one."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    over: Literal["livesum", "livemin", "livemax"] = "livesum"


# Counters end in _total where they are read.
CATALOGUE = {
    "http_requests": Metric("counter", "Requests by route and status", ("route", "status")),
    "http_request_seconds": Metric("histogram", "Time of a request until its answer is out", ("route",), SECONDS),
    "http_in_flight": Metric("gauge", "Requests that are being answered"),
    "requests": Metric("counter", "Items by bundle and outcome", ("bundle", "outcome")),
    "answers": Metric("counter", "Items answered by version of the bundle", ("bundle", "version")),
    "refusals": Metric("counter", "Requests refused before a model saw them", ("reason",)),
    "key_requests": Metric("counter", "Requests by key and whether they were admitted", ("key", "outcome")),
    "stage_seconds": Metric("histogram", "Time of an item by stage", ("bundle", "stage"), SECONDS),
    "queue_depth": Metric("gauge", "Items waiting", ("bundle",)),
    "run_rows": Metric("histogram", "Rows of one graph run", ("bundle",), ROWS),
    "run_tokens": Metric("histogram", "Real tokens of one graph run", ("bundle",), TOKENS),
    "run_padding_ratio": Metric("histogram", "Padding as a part of all tokens of a run", ("bundle",), RATIOS),
    "truncated": Metric("counter", "Answers to text of which a part was not read", ("bundle",)),
    "unknown_tokens": Metric("counter", "Tokens read that the vocabulary lacks", ("bundle",)),
    "labels": Metric("counter", "Labels given", ("bundle", "label")),
    "score": Metric("histogram", "Score of an answer, of several findings the mean", ("bundle",), SCORES),
    "bundle_ready": Metric("gauge", "1 where every worker serves the bundle", ("bundle",), over="livemin"),
    "bundle_info": Metric(
        "gauge",
        "1 for a bundle that is wanted, 0 for one that is unloaded",
        ("bundle", "family", "suite", "precision", "device"),
        over="livemax",
    ),
    "worker_start_time_seconds": Metric("gauge", "When the youngest worker started, Unix time", over="livemax"),
    "workers_lost": Metric("counter", "Workers that crashed, or hung and were ended", ("cause",)),
    "workers": Metric("gauge", "Worker processes"),
    "resident_memory_bytes": Metric("gauge", "Memory of all workers"),
}
PREFIX = "clueserve_"
# Told by the processes themselves when they are asked for.
OBSERVED = ("workers", "resident_memory_bytes")
LIVE = re.compile(r"gauge_live\w+_(\d+)\.db")


class Telemetry:
    """Counters of one worker process. One instance a process."""

    def __init__(self, bundles: Iterable[str] = ()) -> None:
        from prometheus_client import Counter, Gauge, Histogram
        from prometheus_client.multiprocess import mark_process_dead

        # A worker that had our number before must not lend us its gauges.
        mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]
        made: dict[str, Any] = {}
        for name, m in CATALOGUE.items():
            if m.kind == "counter":
                made[name] = Counter(PREFIX + name, m.help, m.labels)
            elif m.kind == "histogram":
                made[name] = Histogram(PREFIX + name, m.help, m.labels, buckets=m.buckets)
            elif name not in OBSERVED:
                made[name] = Gauge(PREFIX + name, m.help, m.labels, multiprocess_mode=m.over)
        self._made = made
        # Looked up once: a metric's own look-up costs more than counting.
        self._series = cache(lambda name, *labels: made[name].labels(*labels))
        self._infos: dict[str, Any] = {}
        self.in_flight: Any = made["http_in_flight"]
        made["worker_start_time_seconds"].set(time())
        for bundle in bundles:
            self._series("bundle_ready", bundle).set(0)
        for cause in CAUSES:
            self._series("workers_lost", cause)

    def outcome(self, bundle: str, outcome: str) -> None:
        self._series("requests", bundle, outcome).inc()

    def refused(self, reason: str) -> None:
        self._series("refusals", reason).inc()

    def used(self, key: str, outcome: str) -> None:
        self._series("key_requests", key, outcome).inc()

    def responded(self, route: str, status: int, seconds: float) -> None:
        self._series("http_requests", route, str(status)).inc()
        self._series("http_request_seconds", route).observe(seconds)

    def answered(self, bundle: str, timing: Timing) -> None:
        self.outcome(bundle, "ok")
        if timing.version:
            self._series("answers", bundle, timing.version).inc()
        for stage in STAGES:
            self._series("stage_seconds", bundle, stage).observe(getattr(timing, stage))

    def depth(self, bundle: str) -> Callable[[int], None]:
        set_depth: Callable[[int], None] = self._series("queue_depth", bundle).set
        return set_depth

    def runs(self, bundle: str) -> Callable[[int, int, int], None]:
        """A `Session.on_run` for one bundle."""
        rows, tokens, padding = (self._series(n, bundle) for n in ("run_rows", "run_tokens", "run_padding_ratio"))

        def observe(n: int, real: int, padded: int) -> None:
            rows.observe(n)
            tokens.observe(real)
            padding.observe(1 - real / padded)

        return observe

    def quality(self, bundle: str, output: type[BaseModel]) -> Callable[[Answer, Timing], None]:
        """A `Runner`'s `on_answer` for a bundle with answers of this model."""
        read = reader(output)
        truncated, unknown, scores = (self._series(n, bundle) for n in ("truncated", "unknown_tokens", "score"))

        def observe(answer: Answer, timing: Timing) -> None:
            labels, score = read(answer)
            if timing.unknown:
                unknown.inc(timing.unknown)
            if answer["truncated"]:
                truncated.inc()
            if score is not None:
                scores.observe(score)
            for label, n in labels.items():
                self._series("labels", bundle, label).inc(n)

        return observe

    def lost(self, cause: str) -> None:
        self._series("workers_lost", cause).inc()

    def ready(self, name: str, bundle: Bundle, device: str, well: bool = True) -> None:
        """A bundle is served; not `well`: its requests are refused for now."""
        for outcome in OUTCOMES:
            self._series("requests", name, outcome)
        self._info(name, bundle, device).set(1)
        self._series("bundle_ready", name).set(int(well))

    def unready(self, name: str) -> None:
        """A bundle should be served, and is not."""
        if name in self._infos:
            self._infos[name].set(1)
        self._series("bundle_ready", name).set(0)

    def unloaded(self, name: str, bundle: Bundle, device: str) -> None:
        """A bundle is not served because nobody wants it: no alert is due."""
        self._info(name, bundle, device).set(0)
        self._series("bundle_ready", name).set(0)

    def _info(self, name: str, bundle: Bundle, device: str) -> Any:
        manifest = bundle.manifest
        info = self._series("bundle_info", name, manifest.family, manifest.suite, bundle.precision, device)
        if (before := self._infos.get(name)) not in (None, info):
            before.set(0)
        self._infos[name] = info
        return info


def exposition() -> tuple[bytes, str]:
    """All workers' metrics in the text format, and its content type."""
    import prometheus_client
    from prometheus_client import multiprocess

    processes = workers(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
    registry = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    registry.register(_Processes(processes))
    return prometheus_client.generate_latest(registry), prometheus_client.CONTENT_TYPE_LATEST


def workers(folder: Path) -> list[psutil.Process]:
    """The live processes that have gauges in a folder; those of the dead, who cannot clean up, are removed."""
    from prometheus_client.multiprocess import mark_process_dead

    live = []
    for pid in sorted({int(found[1]) for path in folder.iterdir() if (found := LIVE.fullmatch(path.name))}):
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                live.append(process)
                continue
        with suppress(FileNotFoundError):  # another worker was first
            mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]
    return live


class _Processes:
    """How many workers there are and what memory they take."""

    def __init__(self, processes: list[psutil.Process]) -> None:
        self._processes = processes

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        memory = 0
        for process in self._processes:
            with suppress(psutil.NoSuchProcess):
                memory += process.memory_info().rss
        for name, value in zip(OBSERVED, (len(self._processes), memory), strict=True):
            yield GaugeMetricFamily(PREFIX + name, CATALOGUE[name].help, value)
