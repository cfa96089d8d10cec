"""Generated requests: whatever is sent, a server answers, says what is wrong, and goes on as before.

`make fuzz` sends 20,000; here are a few hundred, the same ones each time. FUZZ_SEED makes others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

import e2e_fuzz_document as document
import e2e_fuzz_sent as wire
import httpx
import pytest
from e2e_fuzz_sent import Findings
from e2e_fuzz_wire import shots
from e2e_http import Comparison
from e2e_servers import DEMO, Server
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from benchmarks.processes import behind

REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "300"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
ROUND = 500
MOST_GROWTH = 0.05
LONG_ENOUGH = 5000
"""Requests from which on the growth of memory says something."""

DEADLINE_MS = "20000"

Made = TypeVar("Made")


def drawn(strategy: st.SearchStrategy[Made], count: int, number: int) -> list[Made]:
    """So many examples, always the same of a number."""
    found: list[Made] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Made) -> None:
        found.append(example)

    collect()
    return found[:count]


def golden(client: httpx.Client, models: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        model["name"]: client.post(model["endpoint"], json=model["example"]).raise_for_status().json()
        for model in models
    }


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """The server of all tests, or for many requests one whose timers, kept as long as a deadline, are soon gone."""
    if REQUESTS < LONG_ENOUGH:
        found: str = request.getfixturevalue("server")
        return found
    models = ",".join(f"{name}:latest" for name in DEMO)
    start: Callable[..., Server] = request.getfixturevalue("start_server")
    return start({"NLU_MODELS": models, "NLU_MAX_WAIT_MS": DEADLINE_MS, "NLU_TIMEOUT_MS": DEADLINE_MS}).url


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        yield client


def test_a_server_withstands_whatever_is_sent(url: str, client: httpx.Client) -> None:
    models = client.get("/v1/models").json()["models"]
    before = golden(client, models)
    examples = {model["name"]: model["example"] for model in models}
    described, raw = document.cases(client.get("/docs.json").json()), shots(examples)
    processes = behind("127.0.0.1", urlsplit(url).port or 80)
    assert processes is not None
    findings, sent, memory = Findings(), 0, [processes.rss_mb()]
    while sent < REQUESTS:
        count = min(ROUND, REQUESTS - sent)
        number = SEED * 1_000_000 + sent
        document.send(url, drawn(described, count // 2, number), findings)
        wire.send(url, drawn(raw, count - count // 2, number), findings)
        sent += count
        memory.append(processes.rss_mb())
    fifth = memory[max(1, len(memory) // 5)]
    print(f"\n{findings.table()}\n{sum(findings.seen.values())} requests, the slowest {findings.slowest:.1f} s")
    print(f"MB of memory after every {ROUND} requests: " + " ".join(f"{mb:.0f}" for mb in memory))
    assert not findings.problems, f"{len(findings.problems)} problems:\n" + "\n".join(findings.problems[:20])
    after = Comparison()
    after.add(before, golden(client, models))
    assert after.different == []
    assert client.get("/readyz").status_code == 200
    assert sent < LONG_ENOUGH or memory[-1] <= fifth * (1 + MOST_GROWTH)
