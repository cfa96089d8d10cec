"""What the load commands share: the server at a URL, its models, and the requests that are sent to them."""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import to_json

from benchmarks import remote, trace
from benchmarks.client import Client
from benchmarks.predictors import PredictorError
from benchmarks.processes import Processes, behind
from benchmarks.run import Request
from benchmarks.trace import Call, Target

MOST_REQUESTS = 5000
"""Different ones; a longer run repeats them."""
PACKAGES = ("hdrhistogram", "psutil", "uvloop")


@dataclass(frozen=True)
class Workload:
    """A server and what it will be asked."""

    url: str
    targets: list[Target]
    requests: list[Request]
    server: Processes | None

    @property
    def name(self) -> str:
        names = [target.name for target in self.targets]
        return ", ".join(names) if len(names) <= 3 else f"{len(names)} models"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", required=True, metavar="U", help="a running server, such as http://127.0.0.1:3000")
    parser.add_argument("--models", metavar="A,B", help="which of its models, in turn; default: all")
    parser.add_argument(
        "--trace",
        choices=trace.KINDS,
        default="mixed",
        help="mixed: text as long as that of each model's benchmark (default); examples: of the suites; lognormal: "
        "texts of a few to 60 words; data: the benchmarks' own records",
    )
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where --trace data finds the benchmarks' files")
    parser.add_argument("--timeout-ms", type=int, metavar="T", help="what each request says its caller waits")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of the requests and their instants; default: 1"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything that was measured as JSON")


def add_run_arguments(parser: argparse.ArgumentParser, seconds: float) -> None:
    """Options of commands that send at a rate."""
    parser.add_argument(
        "--seconds", type=float, default=seconds, metavar="S", help=f"that count; default: {seconds:.0f}"
    )
    parser.add_argument("--warm-up", type=float, default=2.0, metavar="S", help="before them, left out; default: 2")
    parser.add_argument(
        "--slo-ms", type=float, default=100.0, metavar="MS", help="an answer is good until then; default: 100"
    )


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    try:
        Client(args.url)
    except ValueError as error:
        return f"--url: {error}"
    if (args.trace == "data") != (args.data_dir is not None):
        return "--trace data and --data-dir go together"
    if args.timeout_ms is not None and args.timeout_ms < 1:
        return "--timeout-ms is at least 1"
    return None


def run_problem(args: argparse.Namespace) -> str | None:
    if args.seconds <= 0 or args.warm_up < 0 or args.slo_ms <= 0:
        return "--seconds and --slo-ms are more than 0, --warm-up is not negative"
    return None


def open_workload(args: argparse.Namespace) -> Workload:
    """Ask the server what it serves and make the requests. PredictorError, ValueError or OSError if that fails."""
    url = args.url.rstrip("/")
    targets = discover(url, args.models)
    made = trace.calls(targets, args.trace, MOST_REQUESTS, args.seed, args.data_dir)
    client = Client(url)
    unknown = [t.name for t in targets if t.suite not in trace.lengths()]
    if args.trace == "mixed" and unknown:
        print(f"sent as their suites' examples are, whose lengths are not known: {', '.join(unknown)}", file=sys.stderr)
    return Workload(url, targets, requests(made, args.timeout_ms), behind(client.host, client.port))


def discover(url: str, names: str | None) -> list[Target]:
    """The server's models, or those of them in the comma separated `names`, in that order."""
    served = {m["name"]: Target(m["name"], m["suite"], m["language"], m["example"]) for m in remote.models(url)}
    wanted = [name.strip() for name in names.split(",")] if names else list(served)
    if missing := [name for name in wanted if name not in served]:
        raise PredictorError(f"{url} has no model {', '.join(missing)}; it has {', '.join(served)}")
    return [served[name] for name in wanted]


def requests(calls: Iterable[Call], timeout_ms: int | None = None) -> list[Request]:
    """Paths and bodies of this service's native endpoints."""
    extra = {} if timeout_ms is None else {"timeout_ms": timeout_ms}
    return [(f"/{call.model}", to_json(call.item | extra)) for call in calls]


def patience(slo_ms: float, timeout_ms: int | None) -> float:
    """Seconds until a caller leaves: well past the SLO and the server's own deadline, so that those are seen."""
    return max(10.0, 4 * slo_ms / 1000, (timeout_ms or 0) / 1000 + 5)


def raise_file_limit() -> None:
    """Every request under way has a connection of its own."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
