"""`python -m benchmarks load`: a rate of requests against a running server, and how it bears them.

Open loop: requests are sent at instants drawn beforehand, whatever became of those before, and latency counts from
there. A server that stalls cannot hide it by making its callers wait. `--closed N` is for peaks: N callers who each
wait for their answer before they ask again.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import uvloop

from benchmarks import results, workload
from benchmarks.client import Client
from benchmarks.load_table import report
from benchmarks.predictors import PredictorError
from benchmarks.run import Offer, measure
from benchmarks.trace import SCHEDULES

HELP = "send a running server requests at a rate, and measure latency, goodput and cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    workload.add_arguments(parser)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--rate", type=float, metavar="R", help="requests a second (open loop)")
    how.add_argument("--closed", type=int, metavar="N", help="callers who wait for their answers (for the peak)")
    parser.add_argument("--profile", choices=SCHEDULES, help="when requests are due at --rate; default: poisson")
    workload.add_run_arguments(parser, seconds=30)


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    if args.closed and args.profile:
        return "--profile is for --rate: callers of --closed have no schedule"
    if (args.rate is not None and args.rate <= 0) or (args.closed is not None and args.closed < 1):
        return "--rate is more than 0, --closed at least 1"
    return workload.problem(args) or workload.run_problem(args)


def run(args: argparse.Namespace) -> int:
    """Measure and print; 0 if anything was answered."""
    offer = Offer(
        args.seconds,
        rate=args.rate,
        callers=args.closed,
        profile=args.profile or "poisson",
        slo_ms=args.slo_ms,
        warm_up=args.warm_up,
        seed=args.seed,
        patience=workload.patience(args.slo_ms, args.timeout_ms),
    )
    try:
        work = workload.open_workload(args)
    except (PredictorError, ValueError, OSError) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    workload.raise_file_limit()

    async def measured() -> dict[str, Any]:
        async with Client(work.url) as client:
            return await measure(work.name, client, work.requests, offer, work.server, bar=True)

    found = uvloop.run(measured())
    print(report(found, work.url))
    if args.save:
        results.save(args.save, results.result("load", vars(args), args.seed, found, workload.PACKAGES))
    return 0 if found["answered"] else 1
