"""The service without its models: what HTTP, parsing, checking and writing cost a request.

`NLU_MODELS=klue-ynat:latest bentoml serve benchmarks.noop:Noop` answers every request with the bundle's first golden
answer. Bundles are loaded, so that the process is the one that serves; they are not asked.
"""

from __future__ import annotations

from typing import Any

from service.app import build_service
from service.batching.jobs import Turn
from service.batching.runner import Result
from service.config import find_bundles, load_settings
from service.server import Server
from service.types import Timing


class Idle(Server):
    """A server whose answers cost nothing."""

    async def answer(self, name: str, item: Any, turn: Turn) -> Result:
        self.runners[name].task.check(item)
        result = Result(self.bundles[name].manifest.golden[0].answer, Timing(rows=1))
        self.telemetry.answered(name, result.timing)
        return result


_settings = load_settings()
Noop = build_service(Idle(_settings, find_bundles(_settings)))
