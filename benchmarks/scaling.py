"""`python -m benchmarks scaling`: how many replicas a rate of requests and its SLO need.

From one measured number, the CPU of a request with all cores at work (`load --closed 32` prints it), and the lengths of
the texts. Nothing is asked of a server. The prediction is checked by a simulation of the replicas it recommends, both
whole and without the spare ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks import trace
from benchmarks.queueing import Replica, simulate

HELP = "say how many replicas a rate and an SLO need"
STEPS = 200
"""Service times that stand for the distribution."""
OPTIMISM = 0.08
"""By how much more than predicted the simulated p99 may be; the formula errs by 5 % at most where it was tried."""
MOST = 1000
"""Replicas; whoever needs more should think about each of them."""


@dataclass(frozen=True)
class Plan:
    """So many replicas for a rate: all of them at work, and the same without the spare ones."""

    replicas: int
    whole: Replica
    reduced: Replica


def service_times(suite: str, cpu_ms: float, fixed: float) -> list[float]:
    """Service times with mean `cpu_ms`: a fixed part, and the rest as long as the texts of a suite's benchmark."""
    fields = trace.lengths()[suite].values()
    texts = [sum(trace.quantile(steps, (i + 0.5) / STEPS) for steps in fields) for i in range(STEPS)]
    mean = fmean(texts)
    return [cpu_ms * (fixed + (1 - fixed) * length / mean) for length in texts]


def plan(
    rate: float, slo_ms: float, services: Sequence[float], *, threads: int, spare: int, most_busy: float
) -> Plan | None:
    """The fewest replicas whose p99 meets the SLO, without the spare ones too; None if no number of them does.

    `most_busy`: without the spare ones their threads are never busier, whatever the SLO would allow.
    """
    if Replica(threads, services, 0.0).percentile(99) > slo_ms:
        return None
    for needed in range(1, MOST + 1):
        reduced = Replica(threads, services, rate / needed)
        if reduced.busy <= most_busy and reduced.percentile(99) <= slo_ms:
            return Plan(needed + spare, Replica(threads, services, rate / (needed + spare)), reduced)
    return None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", type=float, required=True, metavar="R", help="requests a second, at the peak")
    parser.add_argument("--slo-ms", type=float, required=True, metavar="MS", help="99 % are answered within")
    parser.add_argument("--cpu-ms", type=float, required=True, metavar="MS", help="CPU of the mean request, all of it")
    parser.add_argument(
        "--lengths",
        choices=sorted(trace.lengths()),
        default="klue/ynat",
        metavar="SUITE",
        help="whose texts the traffic resembles in length, as benchmarks/lengths.yaml has them; default: klue/ynat",
    )
    parser.add_argument(
        "--fixed", type=float, default=0.25, metavar="P", help="part of the CPU that no length changes; default: 0.25"
    )
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="worker threads a replica; default: 2")
    parser.add_argument("--spare", type=int, default=1, metavar="N", help="replicas that may be away; default: 1")
    parser.add_argument(
        "--most-busy", type=float, default=0.75, metavar="P", help="part of a thread's time at most; default: 0.75"
    )
    parser.add_argument(
        "--requests", type=int, default=100_000, metavar="N", help="requests to simulate; default: 100000"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the simulation; default: 1")


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    if min(args.rate, args.slo_ms, args.cpu_ms) <= 0:
        return "--rate, --slo-ms and --cpu-ms are more than 0"
    if args.threads < 1 or args.spare < 0 or args.requests < 20_000:
        return "--threads is at least 1, --spare at least 0, --requests at least 20000"
    return None if 0 < args.most_busy < 1 and 0 <= args.fixed <= 1 else "--most-busy and --fixed are parts of 1"


def run(args: argparse.Namespace) -> int:
    """Print the plan and its check; 1 if there is none, or if the simulation contradicts it."""
    services = service_times(args.lengths, args.cpu_ms, args.fixed)
    found = plan(args.rate, args.slo_ms, services, threads=args.threads, spare=args.spare, most_busy=args.most_busy)
    if found is None:
        longest = max(services)
        print(
            f"no number of replicas up to {MOST} answers 99 % within {args.slo_ms:g} ms: the longest texts alone take "
            f"{longest:.1f} ms. Lower the CPU of a request (int8, a smaller model, a GPU) or ask for less.",
            file=sys.stderr,
        )
        return 1
    rows = [("whole", found.replicas, found.whole)]
    if args.spare:
        rows.append((f"{args.spare} away", found.replicas - args.spare, found.reduced))
    print(
        f"{found.replicas} replicas of {args.threads} threads for {args.rate:g} requests/s of {args.cpu_ms:g} ms CPU, "
        f"texts as long as {args.lengths}\n"
    )
    print(f"{'':<8}{'replicas':>9}{'each/s':>8}{'busy':>7}{'mean wait':>11}{'p50':>7}{'p99':>7}{'simulated p99':>15}")
    agrees = True
    for name, replicas, replica in rows:
        took = simulate(replicas, args.threads, services, args.rate, args.requests, args.seed)
        p99, seen = replica.percentile(99), took[int(0.99 * len(took))]
        agrees &= seen <= p99 * (1 + OPTIMISM)
        print(
            f"{name:<8}{replicas:>9}{replica.rate:>8.1f}{replica.busy:>7.0%}{replica.mean_wait:>8.1f} ms"
            f"{replica.percentile(50):>7.1f}{p99:>7.1f}{seen:>15.1f}"
        )
    if not agrees:
        print("\nthe simulated p99 is worse than the predicted one: do not use the formula here", file=sys.stderr)
        return 1
    return 0
