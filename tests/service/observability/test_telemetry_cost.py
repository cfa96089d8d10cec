"""What being observed costs a request, in CPU time of the process that is measured; `-s` shows the figures.

The bounds are several times what a quiet machine needs: they catch a mistake of kind, not of degree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import asyncio, json, logging, os, time
from types import SimpleNamespace
from service.edge.http import json_response
from service.observability.logs import JsonFormatter
from service.edge.observer import Observer
from service.tasks import FAMILIES
from service.observability.telemetry import STAGES, Telemetry
from service.types import Timing

handler = logging.StreamHandler(open(os.devnull, "w"))
handler.setFormatter(JsonFormatter())
log = logging.getLogger("bentoml.clueserve")
log.handlers, log.propagate = [handler], False
log.setLevel(logging.INFO)

telemetry = Telemetry(["news"])
timing = Timing(0.001, 0.001, 0.01, 0.001, 3, 20)

def microseconds(call, n=400):
    best = []
    for _ in range(9):
        start = time.process_time()
        for _ in range(n):
            call()
        best.append((time.process_time() - start) / n * 1e6)
    return round(min(best), 2)

def quality(family, answer):
    observe = telemetry.quality("news", FAMILIES[family].Output)
    return microseconds(lambda: observe(answer | {"truncated": False}, timing))

one = {"label": "x", "score": 0.93, "scores": [], "labels": [], "value": None}
words = {"words": [{"relation": f"r{i % 8}", "score": 0.9} for i in range(20)]}

def observer(which, tracer=None):
    async def app(scope, receive, send):
        await json_response({})(scope, receive, send)
    async def send(message):
        pass
    settings = SimpleNamespace(log_requests=which)
    server = SimpleNamespace(telemetry=telemetry, tracer=tracer, settings=settings, bundles={"news"})
    around = Observer(app, server, {"/news"}, ())
    headers = [(b"host", b"x"), (b"content-type", b"application/json"), (b"content-length", b"40")]
    loop = asyncio.new_event_loop()
    def ask(target):
        scope = {"type": "http", "method": "POST", "path": "/news", "headers": headers}
        loop.run_until_complete(many(target, scope))
    async def many(target, scope):
        for _ in range(50):
            await target(scope, None, send)
    cost = (microseconds(lambda: ask(around), 10) - microseconds(lambda: ask(app), 10)) / 50
    loop.close()
    return round(cost, 2)

def tracer():
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
    from service.observability.tracing import Tracer
    return Tracer(TracerProvider(ALWAYS_OFF, shutdown_on_exit=False))

print(json.dumps({
    "counting an item": microseconds(lambda: telemetry.answered("news", timing)),
    "quality of one label": quality("text-classification", one),
    "quality of 20 words": quality("dependency-parsing", words),
    "noting four stages": microseconds(lambda: [Timing().mark(stage, 1.0, 2.0) for stage in STAGES]),
    "a request, no line": observer("off"),
    "a request, a line": observer("all"),
    "a request, not sampled": observer("off", tracer()),
}))
"""


@cache
def costs() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PROMETHEUS_MULTIPROC_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("what", "most"),
    [
        ("counting an item", 60),
        ("quality of one label", 40),
        ("quality of 20 words", 100),
        ("noting four stages", 20),
        ("a request, no line", 100),
        ("a request, a line", 300),
        ("a request, not sampled", 200),
    ],
)
def test_being_observed_costs_little(what: str, most: float) -> None:
    print(f"\n{what}: {costs()[what]:.1f} us")
    assert costs()[what] < most
