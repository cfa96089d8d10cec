"""What every scenario of the proof has at hand: bundles by name, requests of real lengths, how long to measure."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from benchmarks import trace, workload
from benchmarks.client import Client
from benchmarks.limit import target
from benchmarks.run import Request
from benchmarks.servers import Contender
from benchmarks.trace import Call
from service.bundle import Bundle

Found = TypeVar("Found")
Figures = dict[str, float]
"""Claim -> measured figure."""

OURS = "service.app:NLU"
SHORT, LONG = "klue-ynat", "klue-ner"
"""The demo bundles that most scenarios ask: headlines, and a model that is also given documents."""
DIFFERENT = 2000


@dataclass(frozen=True)
class Setting:
    """`seconds` is the length of a run that counts; `runs` keeps every run dict for the report.

    `int8` is the bundle of lower precision whose floor is measured too, if there is one.
    """

    bundles: Mapping[str, Bundle]
    int8: Bundle | None
    seconds: float
    seed: int
    say: Callable[[str], None]
    runs: list[dict[str, Any]]

    def folders(self, *names: str) -> dict[str, Path]:
        """Those of the bundles `names`, or of all."""
        return {name: self.bundles[name].folder for name in names or self.bundles}

    def calls(self, *names: str) -> list[Call]:
        """Requests to the bundles `names`, or to all, in turn."""
        targets = [target(self.bundles[name]) for name in names or self.bundles]
        return trace.calls(targets, "mixed", DIFFERENT, self.seed)

    def requests(self, *names: str, timeout_ms: int | None = None) -> list[Request]:
        """The same as they are sent."""
        return workload.requests(self.calls(*names), timeout_ms)


def ours(**settings: object) -> Contender:
    """This project's server with `NLU_` settings, by their names in small letters."""
    return Contender("ours", OURS, {f"NLU_{key.upper()}": str(value) for key, value in settings.items()})


def with_client(url: str, work: Callable[[Client], Coroutine[Any, Any, Found]]) -> Found:
    """Run work that asks one server, in an event loop of its own."""

    async def main() -> Found:
        async with Client(url) as client:
            return await work(client)

    return uvloop.run(main())
