"""`python -m benchmarks soak`: a server over every stored bundle under a mixed load for as long as you like.

It is found out how much the machine can do, and 60 % of that is sent: right and wrong requests of every protocol,
batches, pages, clients who leave, so many to each model that all take the same share of the time. What the server holds
is written down every ten seconds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import results, workload
from benchmarks.clock import Clock
from benchmarks.limit import target
from benchmarks.proof.setting import ours, with_client
from benchmarks.servers import serving_all
from benchmarks.soak.run import DIFFERENT, PATIENT, Plan, soak
from benchmarks.soak.watch import Sample, table
from benchmarks.trace import calls
from service.config import Settings, find_bundles
from service.errors import BundleError

HELP = "load a server for long and say whether it grows, leaks or fails"
PACKAGES = ("bentoml", "onnxruntime", "tokenizers", "uvloop")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=30.0, metavar="M", help="to soak; default: 30")
    length.add_argument("--requests", type=int, metavar="N", help="to soak until so many requests are made")
    parser.add_argument("--utilisation", type=float, default=0.6, metavar="P", help="part of the peak; default: 0.6")
    parser.add_argument("--warm-up", type=float, default=60.0, metavar="S", help="that find the peak; default: 60")
    parser.add_argument("--every", type=float, default=10.0, metavar="S", help="between samples; default: 10")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes of the server; default: 1")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything that was measured as JSON")


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    if args.minutes <= 0 or args.every <= 0 or args.warm_up <= 0 or not (args.requests is None or args.requests > 0):
        return "--minutes, --requests, --every and --warm-up are more than 0"
    return None if 0 < args.utilisation < 1 else "--utilisation lies between 0 and 1"


def run(args: argparse.Namespace) -> int:
    """Soak, print samples and verdicts, save; 1 if the server grew, leaked or failed."""
    say = Clock()
    try:
        bundles = find_bundles(Settings())
    except BundleError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    workload.raise_file_limit()
    seconds = None if args.requests else args.minutes * 60
    plan = Plan(seconds, args.requests, args.utilisation, args.warm_up, args.every, args.seed)
    made = calls([target(b) for b in bundles.values()], "mixed", DIFFERENT, args.seed)
    folders = {name: bundle.folder for name, bundle in bundles.items()}
    with serving_all(ours(workers=args.workers, **PATIENT), folders) as server:
        found = with_client(server.url, lambda client: soak(client, server, made, plan, say))
    print(table([Sample(**s) for s in found["samples"]]))
    for what, count in found["errors"].items():
        print(f"{count} x {what}")
    for verdict in found["verdicts"]:
        kept = "kept" if verdict["kept"] else "MISSED"
        print(f"{verdict['text']:<64} {verdict['value']:>8} {'<= ' + str(verdict['most']):>8}  {kept}")
    if args.save:
        results.save(args.save, results.result("soak", vars(args), args.seed, found, PACKAGES))
    return 0 if all(verdict["kept"] for verdict in found["verdicts"]) else 1
