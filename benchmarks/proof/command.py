"""`python -m benchmarks proof`: every promise of speed, measured on this machine and held against its bound.

Real servers are started one after another on the stored demo bundles; nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import results, workload
from benchmarks.clock import Clock
from benchmarks.proof import claims, crowds, speed, start
from benchmarks.proof.setting import LONG, SHORT, Figures, Setting
from service.config import Settings, find_bundles
from service.errors import BundleError

HELP = "measure every promise of speed and say which are kept"
PACKAGES = ("bentoml", "onnxruntime", "tokenizers", "uvloop", "hdrhistogram")

Scenario = Callable[[Setting], Figures]
SCENARIOS: dict[str, Scenario] = {
    "floor": speed.floor,
    "http": speed.http,
    "threads": speed.threads,
    "overload": crowds.overload,
    "burst": crowds.burst,
    "documents": crowds.documents,
    "start": start.start,
    "memory": start.memory,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="A,B", help=f"scenarios of {', '.join(SCENARIOS)}; default: all")
    parser.add_argument("--seconds", type=float, default=15.0, metavar="S", help="of a run; default: 15")
    parser.add_argument("--int8", metavar="BUNDLE", help="a bundle in int8, whose floor is measured too")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything that was measured as JSON")


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    unknown = [name for name in _chosen(args) if name not in SCENARIOS]
    if unknown:
        return f"--only: no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}"
    return "--seconds is more than 0" if args.seconds <= 0 else None


def _chosen(args: argparse.Namespace) -> list[str]:
    return args.only.split(",") if args.only else list(SCENARIOS)


def run(args: argparse.Namespace) -> int:
    """Measure, print the verdicts, save; 1 if a promise is not kept."""
    say = Clock()
    try:
        bundles = find_bundles(Settings())
        int8 = next(iter(find_bundles(Settings(models=args.int8)).values())) if args.int8 else None
    except BundleError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    if missing := {SHORT, LONG} - bundles.keys():
        print(f"not measured: {', '.join(missing)} are not among the stored bundles", file=sys.stderr)
        return 1
    workload.raise_file_limit()
    setting = Setting(bundles, int8, args.seconds, args.seed, say, [])
    figures: Figures = {}
    for name in _chosen(args):
        figures |= SCENARIOS[name](setting)
        if args.save:
            verdicts = claims.verdicts(figures)
            found = {"claims": verdicts, "runs": setting.runs}
            results.save(args.save, results.result("proof", vars(args), args.seed, found, PACKAGES))
    print(claims.table(claims.verdicts(figures)))
    for run in setting.runs:
        if run["generator"]["saturated"]:
            print(f"{run['name']}: the load generator could not send in time, do not believe it")
    return 0 if all(verdict["kept"] for verdict in claims.verdicts(figures)) else 1
