"""`python -m benchmarks limit BUNDLE ...`: the floor of a bundle on this machine, which no server can be below.

Texts of real lengths are tokenised and run through ONNX Runtime in this process: no HTTP, no queue, no decoding.

  alone   each row its own run
  naive   so many items at a time (16) as they come, padded to the longest
  split   the same 16, grouped by length as the cost model finds cheapest (`Session.run`)

on one thread, and on a thread a core where every thread has its own runs. Pipelines are asked through their task, which
groups rows itself, so they have no naive batches.
The figure is the least of three rounds: what the machine did besides only ever adds to it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, cast

from tqdm import tqdm

from benchmarks import results, trace
from service.batching.cpus import usable_cpus
from service.bundle import Bundle
from service.config import Settings, find_bundles
from service.errors import BundleError, ConfigError
from service.graph.device import PROVIDERS, Device, require_device
from service.graph.session import Chain, Session
from service.loading import open_bundle
from service.tasks.base import Head, Task
from service.types import Row, Timing

HELP = "measure what tokenising and running a bundle costs by itself: the floor of any server"
PACKAGES = ("onnxruntime", "tokenizers", "numpy")
BATCH = 16
"""Items at a time, unless told otherwise: a GPU is not filled by so few."""
ROUNDS = 3
WARM_UP = 32
"""Items before the first round."""

Work = Callable[[Sequence[Any]], None]
"""Answer items, and throw the answers away."""


@dataclass(frozen=True)
class Way:
    """One way to run items: how many are taken at a time, and what is done with them."""

    name: str
    size: int
    work: Work


def ways(task: Task, session: Session | Chain, batch: int = BATCH) -> list[Way]:
    """What makes sense for a bundle."""
    if isinstance(session, Chain):
        whole = _whole(task, session)
        return [Way("alone", 1, whole), Way("split", batch, whole)]
    head = cast(Head, task)

    def rows(items: Sequence[Any]) -> list[Row]:
        return [row for item in items for row in head.encode(item).rows]

    def alone(items: Sequence[Any]) -> None:
        for row in rows(items):
            session.run_together([row])

    def naive(items: Sequence[Any]) -> None:
        found = rows(items)
        for i in range(0, len(found), batch):
            session.run_together(found[i : i + batch])

    def split(items: Sequence[Any]) -> None:
        session.run(rows(items))

    found = [Way("alone", 1, alone), Way("naive", batch, naive), Way("split", batch, split)]
    return found


def _whole(task: Task, chain: Chain) -> Work:
    """Everything that a pipeline does: what its later stages read is not known before."""

    def work(items: Sequence[Any]) -> None:
        for result in task.predict(items, chain.run, [Timing() for _ in items]):
            if isinstance(result, Exception):
                raise result

    return work


def once(way: Way, items: Sequence[Any], threads: int) -> tuple[float, float]:
    """CPU and wall seconds of all items, spread over threads."""
    takes = [items[i : i + way.size] for i in range(0, len(items), way.size)]

    def share(which: int) -> None:
        for take in takes[which::threads]:
            way.work(take)

    wall, cpu = perf_counter(), process_time()
    if threads == 1:
        share(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(share, range(threads)))
    return process_time() - cpu, perf_counter() - wall


def measure(
    bundle: Bundle,
    raw: Sequence[dict[str, Any]],
    threads: Sequence[int],
    bar: Callable[[str], None] = lambda _: None,
    *,
    device: Device = "cpu",
    batch: int = BATCH,
) -> dict[str, Any]:
    """What every way costs an item on so many threads. `bar` is told of each way."""
    task, session = open_bundle(bundle, device)
    items = [task.Input.model_validate(item) for item in raw]
    plans = [(way, n) for way in ways(task, session, batch) for n in threads]
    spent: list[list[tuple[float, float]]] = [[] for _ in plans]
    for way, n in plans:
        once(way, items[:WARM_UP], n)
    for _ in range(ROUNDS):  # one round of everything after the other: a disturbance falls on all ways alike
        for (way, n), found in zip(plans, spent, strict=True):
            bar(f"{bundle.manifest.name} {way.name} x{n}")
            found.append(once(way, items, n))
    count = len(items)
    return {
        "name": bundle.manifest.name,
        "suite": bundle.manifest.suite,
        "precision": bundle.precision,
        "items": count,
        "tokens_per_item": round(_tokens(task, session, items) / count, 1),
        "ways": [
            {
                "way": way.name,
                "threads": n,
                "cpu_ms": round(min(cpu for cpu, _ in found) * 1000 / count, 3),
                "wall_ms": round(min(wall for _, wall in found) * 1000 / count, 3),
                "items_per_s": round(count / min(wall for _, wall in found), 1),
            }
            for (way, n), found in zip(plans, spent, strict=True)
        ],
    }


def _tokens(task: Task, session: Session | Chain, items: Sequence[Any]) -> int:
    timings = [Timing() for _ in items]
    task.predict(items, session.run, timings)
    return sum(timing.tokens for timing in timings)


def floor_ms(found: dict[str, Any]) -> float:
    """The least CPU milliseconds an item among a bundle's ways on one thread."""
    return min(float(way["cpu_ms"]) for way in found["ways"] if way["threads"] == 1)


def table(found: Sequence[dict[str, Any]]) -> str:
    """A line a bundle and way."""
    width = max(6, *(len(f["name"]) for f in found))
    head = f"{'bundle':<{width}} {'precision':<9} {'tokens':>6}  {'way':<6}{'threads':>8}"
    lines = [f"{head}{'CPU ms':>9}{'wall ms':>9}{'items/s':>9}"]
    for bundle in found:
        shown = f"{bundle['name']:<{width}} {bundle['precision']:<9} {bundle['tokens_per_item']:>6.1f}"
        for way in bundle["ways"]:
            lines.append(
                f"{shown}  {way['way']:<6}{way['threads']:>8}{way['cpu_ms']:>9.2f}{way['wall_ms']:>9.2f}"
                f"{way['items_per_s']:>9.1f}"
            )
            shown = " " * len(shown)
    return "\n".join(lines)


def target(bundle: Bundle) -> trace.Target:
    """The bundle as somebody to send a trace to."""
    manifest = bundle.manifest
    return trace.Target(manifest.name, manifest.suite, manifest.language, manifest.golden[0].item)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", nargs="+", metavar="BUNDLE", help="a stored bundle or a folder, as in NLU_MODELS")
    parser.add_argument(
        "--trace",
        choices=[kind for kind in trace.KINDS if kind != "data"],
        default="mixed",
        help="mixed: text as long as that of the bundle's benchmark (default); examples: of the suites; lognormal: "
        "texts of a few to 60 words",
    )
    parser.add_argument("--count", type=int, default=200, metavar="N", help="items of a round; default: 200")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the items; default: 1")
    parser.add_argument("--device", choices=PROVIDERS, default="cpu", help="where graphs run; default: cpu")
    parser.add_argument("--batch", type=int, default=BATCH, metavar="N", help=f"items at a time; default: {BATCH}")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything that was measured as JSON")


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    return "--count and --batch are at least 1" if min(args.count, args.batch) < 1 else None


def run(args: argparse.Namespace) -> int:
    """Measure one bundle after the other and print the table."""
    threads = sorted({1, usable_cpus()})
    found = []
    try:
        require_device(args.device)
        bundles = find_bundles(Settings(models=",".join(args.bundle)))
        with tqdm(file=sys.stderr, disable=None, bar_format="{elapsed} {desc}") as shown:
            for name, bundle in bundles.items():
                calls = trace.calls([target(bundle)], args.trace, args.count, args.seed)
                items = [call.item for call in calls]
                say = shown.set_description_str
                one = measure(bundle, items, threads, say, device=args.device, batch=args.batch)
                found.append(one | {"name": name})
    except (BundleError, ConfigError, ValueError) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    print(table(found))
    if args.save:
        results.save(args.save, results.result("limit", vars(args), args.seed, found, PACKAGES))
    return 0
