"""Results of every command as they save them, made by the commands' own code where that needs no server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.capacity import Try
from benchmarks.playback import Outcome
from benchmarks.proof import claims
from benchmarks.run import Offer, describe
from benchmarks.soak.run import verdicts
from benchmarks.soak.watch import Sample

SERVER = {"cpu_ms_per_answer": 2.5, "rss_mb": 300.0, "processes": 2}


def run(
    name: str = "m", outcomes: Sequence[Outcome] | None = None, server: Any = SERVER, **offer: Any
) -> dict[str, Any]:
    """A run of two seconds; by default 99 answers in 10 ms, one in 150 ms, and a refusal."""
    if outcomes is None:
        outcomes = [Outcome("200", 0.01 if i else 0.15, 0.001, due=i / 50, rows=1 + i % 2) for i in range(100)]
        outcomes += [Outcome("429", 0.002, 0.0, due=1.5, retry_after=True)]
    given = {"rate": 50.0, "warm_up": 0.0, **offer}
    return describe(name, Offer(2.0, **given), outcomes, 0.1, server)


def capacity(name: str = "m") -> dict[str, Any]:
    slow = [Outcome("200", 0.3, 0.0, due=i / 50) for i in range(100)]
    tries = [Try("bracket", 50.0, 1, run(name)), Try("bracket", 80.0, 1, run(name, slow, rate=80.0))]
    tries += [Try("confirm", 50.0, 2, run(name, [Outcome("200", 0.02, 0.0)] * 100))]
    found = {"name": name, "slo_ms": 100.0, "seconds": 2.0, "alone_p50_ms": 4.0, "capacity_per_s": 50.0}
    return found | {
        "peak": run(name, rate=None, callers=32),
        "limited_by": "server",
        "tries": [t.json() for t in tries],
    }


def floor(name: str = "bundle") -> dict[str, Any]:
    ways = [
        {"way": way, "threads": threads, "cpu_ms": ms, "wall_ms": ms, "items_per_s": 1000 * threads / ms}
        for way, ms in (("alone", 3.0), ("naive", 5.0), ("split", 2.0))
        for threads in (1, 2)
    ]
    return {"name": name, "suite": "klue/ynat", "precision": "fp32", "items": 9, "tokens_per_item": 20.5, "ways": ways}


def peers() -> dict[str, Any]:
    def peer(name: str, cpu_ms: float) -> dict[str, Any]:
        known = {
            "name": name,
            "title": f"a {name}",
            "error": None,
            "start_s": 2.0,
            "labels_equal": 1.0,
            "cpu_ms": cpu_ms,
        }
        return known | {"rss_mb": 200.0, "peak": run(name), "capacity_per_s": 50.0, "at_70": run(name)}

    gone = {"name": "gone", "title": "a gone", "error": "not installed", "versions": {"gone": "1.0"}}
    return {
        "model": "small",
        "cpus": [0, 1],
        "floors": {"ours": floor()},
        "peers": [peer("other", 8.0), peer("ours", 2.5), gone],
    }


def job() -> dict[str, Any]:
    done = {"name": "m", "items": 100, "answered": 98, "errors": {"overloaded": 2}, "seconds": 2.0, "items_per_s": 49.0}
    return done | {"requests": 3, "in_flight": 4, "cpu_ms_per_item": None, "rss_mb": None}


def precisions() -> dict[str, Any]:
    def row(name: str, part: float, equal: float) -> dict[str, Any]:
        made = {
            "precision": name,
            "ms": 10 * part,
            "of_fp32": part,
            "mb": 70.0,
            "batch_change": None,
            "logit_change": 0.5,
        }
        same = {"labels_equal": equal, "records_equal": equal, "labels": 100, "records": 100}
        return made | same | {"passes": equal > 99, "scores": {"f1": [80.0, 79.5]}}

    rows = [row("fp32", 1.0, 100.0), row("int8", 0.5, 99.8), row("dynamic int8", 0.4, 97.0)]
    return {"m": {"suite": "klue/ynat", "data": "f", "records": 100, "precisions": rows}}


def proof() -> dict[str, Any]:
    figures = dict.fromkeys(list(claims.known())[:2], 1.2) | {"http_us": 400.0}
    return {"claims": claims.verdicts(figures), "runs": [run("m, overload")]}


def soak() -> dict[str, Any]:
    samples = [Sample(60.0 * i, 1000 * i, 500.0 + i, 40, 11, 2, 0) for i in range(1, 11)]
    return {
        "rate_per_s": 16.7,
        "utilisation": 0.6,
        "minutes": 10.0,
        "requests": 10_000,
        "kinds": {"single: 200": 9_999, "single: 503": 1},
        "errors": {"single /m: 503 instead of 200": 1},
        "samples": [asdict(sample) for sample in samples],
        "verdicts": verdicts(samples, samples[0], samples[-1], errors=1),
    }


FOUND: dict[str, Callable[[], Any]] = {
    "load": run,
    "capacity": capacity,
    "offline": lambda: {"jobs": [job()]},
    "limit": lambda: [floor()],
    "peers": peers,
    "frontier": precisions,
    "proof": proof,
    "soak": soak,
    "tomorrow": lambda: {
        "weather": "fair",
        "rows": [{"a": 1, "b": 0.25}, {"a": 2, "c": True}],
        "deep": {"x": {"y": [1]}},
    },
}


def save(folder: Path, kind: str, found: Any = None, name: str | None = None, **changed: Any) -> Path:
    """A file as the command `kind` saves it, with other things `changed` in it."""
    file = folder / f"{name or kind}.json"
    made = results.result(kind, {"url": "http://127.0.0.1:1"}, 7, FOUND[kind]() if found is None else found)
    made["machine"] |= {"cpus": [0, 1], "load_average": [1.0, 1.0, 1.0]}
    results.save(file, made | {"commit": "c" * 40} | changed)
    return file
