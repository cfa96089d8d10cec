"""`python -m benchmarks frontier`: speed and fidelity of the precisions of a bundle, on a benchmark's own records.

Records are asked one by one, of every precision in turn, so that all of them share the machine's good and bad moments.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

import suites
from benchmarks import datasets, results
from benchmarks.report import aligned
from service.bundle import Bundle
from service.config import Settings, find_bundles
from service.errors import BundleError
from service.graph.session import Session
from service.loading import open_graph
from service.tasks import family
from service.types import Answer, Outputs, Row
from suites import Suite

if TYPE_CHECKING:
    from benchmarks.records import Record

HELP = "compare the precisions of a bundle: CPU time, answers, scores"
PACKAGES = ("numpy", "onnx", "onnxruntime", "tokenizers")
WARM_UP = 5
TOGETHER = 8
"""Rows of the batches that are compared with rows alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bundle", nargs="+", required=True, metavar="B", help="fp32 bundles: BentoML tags, or folders (with a '/')"
    )
    parser.add_argument(
        "--data", type=Path, nargs="+", metavar="FILE", help="the benchmark's file or files, of one bundle"
    )
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where each bundle's data is looked for")
    parser.add_argument("--suite", metavar="NAME", help="task, or a .yaml file; default: the bundle's")
    parser.add_argument("--only", metavar="P,P", help="some of the precisions; default: all")
    parser.add_argument(
        "--limit", type=int, default=300, metavar="N", help="most records, drawn at random; default: 300"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the result as JSON")


def problem(args: argparse.Namespace) -> str | None:
    if (args.data is None) == (args.data_dir is None):
        return "give either --data or --data-dir"
    if (args.data or args.suite) and len(args.bundle) > 1:
        return "--data and --suite are for one bundle; several take --data-dir"
    if args.limit < 1:
        return "--limit is at least 1"
    return None


def run(args: argparse.Namespace) -> int:
    """Measure and print; 0 if every bundle was measured."""
    from exporters.errors import ExportError

    found = {}
    failed = False
    for ref in args.bundle:
        try:
            ((name, bundle),) = find_bundles(Settings(models=ref)).items()
            suite = suites.load(args.suite or bundle.manifest.suite)
            files = args.data or datasets.find(args.data_dir, name, suite.name, suite.reader)
            if not files:
                raise ExportError(f"no data for {suite.name} in {args.data_dir}")
            found[name] = measure(bundle, suite, files, args.limit, args.only.split(",") if args.only else None)
        except (BundleError, ExportError, suites.UnknownSuite, suites.InvalidSuite, OSError) as error:
            print(f"{ref}: not measured: {error}", file=sys.stderr)
            failed = True
            continue
        print(f"{name}, {found[name]['records']} records of {found[name]['data']}")
        print("\n".join(table(found[name]["precisions"])), end="\n\n", flush=True)
    if args.save and found:
        results.save(args.save, results.result("frontier", vars(args), None, found, PACKAGES))
    return 1 if failed else 0


@dataclass
class Timed:
    """A session that keeps what it was asked and answered, and the CPU seconds that it took."""

    bundle: Bundle
    sessions: dict[str | None, Session]
    rows: list[Row] = field(default_factory=list)
    outputs: list[Outputs] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __call__(self, rows: Sequence[Row], *, stage: str | None = None) -> list[Outputs]:
        out: list[Outputs] = []
        start = thread_time()
        for row in rows:  # alone: what a CPU does best
            out += self.sessions[stage].run_together([row])
        self.seconds[-1] += thread_time() - start
        self.rows += rows
        self.outputs += out
        return out

    @property
    def ms(self) -> float:
        return 1e3 * float(np.mean(self.seconds[min(WARM_UP, len(self.seconds) - 1) :]))

    @property
    def batch_change(self) -> float | None:
        """Largest difference of a logit between a row in a batch and the same row alone; None for a pipeline."""
        if self.bundle.stages:
            return None
        worst = 0.0
        for i in range(0, min(len(self.rows), 8 * TOGETHER), TOGETHER):
            together = self.sessions[None].run_together(self.rows[i : i + TOGETHER])
            for a, b in zip(together, self.outputs[i : i + TOGETHER], strict=True):
                real = [(a[n], v) for n, v in b.items() if v.dtype.kind == "f"]
                # An axis that no input has keeps its padding in a batch.
                worst = max(worst, *(float(np.abs(x[tuple(map(slice, y.shape))] - y).max()) for x, y in real), 0.0)
        return worst


def variants() -> dict[str, Callable[..., Any] | None]:
    """How each precision is made of a float32 graph."""
    from exporters.precision import baselines
    from exporters.precision.rowwise import int8

    return {"fp32": None, "int8": int8, "dynamic int8": baselines.dynamic, "8-bit blocks": baselines.blockwise}


def measure(
    bundle: Bundle, suite: Suite, files: Sequence[Path], limit: int, only: Sequence[str] | None
) -> dict[str, Any]:
    """Every precision on the same records; ExportError if the bundle has another precision than fp32."""
    from exporters import gate
    from exporters.errors import ExportError
    from exporters.precision import lowering

    if bundle.precision != "fp32":
        raise ExportError(f"the other precisions are made of fp32 bundles, and this one is {bundle.precision}")
    known = variants()
    if unknown := set(only or ()) - known.keys():
        raise ExportError(f"no precision {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    data, records = lowering.read(files, suite, limit)
    task = family(bundle)(bundle)
    with tempfile.TemporaryDirectory(prefix="clueserve-frontier-") as temporary:
        timed: dict[str, Timed] = {}
        for i, (name, lower) in enumerate(known.items()):
            if lower is None or not only or name in only:
                made = bundle if lower is None else lowering.lowered(bundle, Path(temporary) / str(i), lower)
                timed[name] = Timed(made, dict(_sessions(made)))
        _ask(task, timed, records, f"{bundle.manifest.name} x {len(timed)}")
        reference = timed["fp32"]
        rows = []
        for name, one in timed.items():
            pair = ((reference.answers, reference.outputs), (one.answers, one.outputs))
            fidelity = gate.compare(records, suite, *pair)
            rows.append(
                {
                    "precision": name,
                    "ms": round(one.ms, 3),
                    "of_fp32": round(one.ms / reference.ms, 3),
                    "mb": round(sum(p.stat().st_size for p in one.bundle.folder.rglob("*.onnx*")) / 1e6, 3),
                    "batch_change": one.batch_change,
                    "passes": not fidelity.complaints,
                }
                | fidelity.as_dict()
            )
    return {"suite": suite.name, "data": data, "records": len(records), "precisions": rows}


def _sessions(bundle: Bundle) -> Iterator[tuple[str | None, Session]]:
    yield from ((name, open_graph(stage)) for name, stage in bundle.stages.items())
    if not bundle.stages:
        yield None, open_graph(bundle)


def _ask(task: Any, timed: dict[str, Timed], records: Sequence[Record], title: str) -> None:
    from exporters import gate

    for record in tqdm(records, desc=title, unit=" records", file=sys.stderr, disable=None):
        for one in timed.values():
            one.seconds.append(0.0)
            one.answers += gate.answers(task, one, [record])


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line a precision; changes of scores are in points."""
    metrics = list(rows[0]["scores"])
    head = ["", "ms a text", "of fp32", "MB", "labels equal", "records equal", *metrics, "logits", "in a batch", "gate"]
    body = [
        [
            row["precision"],
            f"{row['ms']:.2f}",
            f"{row['of_fp32']:.2f}",
            f"{row['mb']:.0f}",
            f"{row['labels_equal']:.2f} %",
            f"{row['records_equal']:.1f} %",
            *(f"{after - before:+.2f}" for before, after in row["scores"].values()),
            *("-" if row[key] is None else f"{row[key]:.2g}" for key in ("logit_change", "batch_change")),
            "passes" if row["passes"] else "refused",
        ]
        for row in rows
    ]
    return list(aligned([head, *body]))
