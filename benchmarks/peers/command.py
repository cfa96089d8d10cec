"""`python -m benchmarks peers`: other servers and ours with the same checkpoint, texts, seed and cores, one by one.

Every peer is a recipe in `benchmarks/peers/`: it is installed into a venv of its own under --work, once, and started
there. The closed loop of 32 callers gives the server's CPU a request, a short search its capacity: the highest rate of
Poisson arrivals of which 99 % are answered within the SLO. A peer that cannot be installed or started has the reason in
its row.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import limit, results, workload
from benchmarks.clock import Clock
from benchmarks.peers import recipe
from benchmarks.peers.contest import Contest
from benchmarks.peers.install import SetupError
from benchmarks.peers.table import table
from service.bundle import Bundle
from service.errors import BundleError

OURS = "ours"
HELP = "measure other servers beside ours: same checkpoint, texts and cores"
TEXTS = 2000
FLOOR_TEXTS = 200
COMPARED = 50
"""Texts whose labels must be those of the fp32 bundle."""
CORES = 2
"""So that numbers of larger machines compare; the load comes from the others, where there are any."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="A,B", help=f"which of {', '.join(recipe.names())}; default: all")
    parser.add_argument(
        "--model",
        choices=["small", "trunk"],
        default="small",
        help="small: random weights, 4 layers x 256, texts of 20 words (default); trunk: the demo's topic model, 6 "
        "layers x 384, headlines",
    )
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="venvs, checkpoints and logs; kept")
    parser.add_argument("--seconds", type=float, default=8.0, metavar="S", help="of each run that counts; default: 8")
    parser.add_argument("--slo-ms", type=float, default=100.0, metavar="MS", help="default: 100")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of texts and arrivals; default: 1")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything that was measured as JSON")


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    if unknown := sorted(set(_only(args)) - set(recipe.names())):
        return f"no such peer: {', '.join(unknown)}; there are {', '.join(recipe.names())}"
    if args.seconds <= 0 or args.slo_ms <= 0:
        return "--seconds and --slo-ms are more than 0"
    return None


def _only(args: argparse.Namespace) -> list[str]:
    """The wanted peers, ours first."""
    wanted = args.only.split(",") if args.only else recipe.names()
    return sorted(wanted, key=lambda name: (name != OURS, name))


def run(args: argparse.Namespace) -> int:
    """Measure one peer after the other and print the table; 1 if none could be measured."""
    # Needs what exports need; other commands do not.
    from benchmarks.peers import models

    # A run that is told to end must still end its server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    workload.raise_file_limit()
    usable = sorted(os.sched_getaffinity(0))
    cpus = usable[:CORES]
    work = args.work.resolve()
    say = Clock()
    try:
        say(f"the checkpoint: {args.model}")
        checkpoint = models.checkpoint(args.model, work / "models")
        fp32, int8 = models.export(checkpoint, work / "models" / f"{args.model}-export")
        own = {OURS: fp32, f"{OURS}-int8": int8}
        texts = models.texts(args.model, TEXTS, args.seed)
        os.sched_setaffinity(0, cpus)
        found: dict[str, Any] = {"model": args.model, "cpus": cpus, "floors": _floors(own, texts, say)}
        labels = models.labels(fp32, texts[:COMPARED])
    except (SetupError, BundleError) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    os.sched_setaffinity(0, usable[CORES:] or cpus)
    contest = Contest(work, checkpoint, texts, labels, cpus, args.seconds, args.slo_ms, args.seed)
    rows: list[dict[str, Any]] = []
    found["peers"] = rows
    others = [name for name in _only(args) if name != OURS]
    for name in [*(own if OURS in _only(args) else ()), *others]:
        say(name)
        rows.append(contest.turn(name, recipe.load(OURS if name in own else name), own.get(name, fp32)))
        if args.save:  # a long run that is ended keeps what it has
            results.save(args.save, results.result("peers", vars(args), args.seed, found, limit.PACKAGES))
    say("done")
    print(table(found))
    return 0 if any("cpu_ms" in row for row in rows) else 1


def _floors(own: Mapping[str, Path], texts: Sequence[str], say: Clock) -> dict[str, Any]:
    """What tokenising and running these texts costs without a server, by bundle."""
    items: list[dict[str, Any]] = [{"text": text} for text in texts[:FLOOR_TEXTS]]
    floors = {}
    for name, folder in own.items():
        say(f"the floor of {name}")
        floors[name] = limit.measure(Bundle(folder), items, [1])
    return floors
