"""The end of a server and the loss of its workers, under load. Run with -s to see the figures."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from time import monotonic, perf_counter, sleep
from typing import Any

import psutil
import pytest
from e2e_http import Connection, Request, encode, series
from e2e_load import figures
from e2e_open import Outcomes, open_loop
from e2e_servers import Server, StartServer

pytestmark = pytest.mark.alone
# Seconds that a busy machine may need to end processes that are done.
SLACK = 5
ONE = {"NLU_MODELS": "klue-ynat:latest"}


def headline(number: int) -> Request:
    return "/klue-ynat", {"text": f"반도체 수출 {number}% 증가…코스피 상승 마감"}


def workers(server: Server) -> list[psutil.Process]:
    return [p for p in psutil.Process(server.process.pid).children() if p.status() != psutil.STATUS_ZOMBIE]


async def polled(server: Server, path: str, ended: Callable[[], bool]) -> list[tuple[float, int]]:
    """Time and status, each on a connection of its own; 0 if there is none to be had."""
    start, seen = perf_counter(), []
    while not ended():
        status, _ = await asyncio.to_thread(server.get, path)
        seen.append((perf_counter() - start, status))
        await asyncio.sleep(0.05)
    return seen


@pytest.mark.parametrize("count", [1, 2])
def test_sigterm_under_load_answers_all_that_was_accepted_and_is_not_ready_first(
    start_server: StartServer, count: int
) -> None:
    # bentoml/BentoML#2829: requests that came during the shutdown waited for ever or were reset.
    server = start_server(ONE | {"NLU_WORKERS": str(count), "NLU_DRAIN_MS": "800", "NLU_GRACE_MS": "15000"})
    ended: list[float] = []

    async def terminate(after: float) -> None:
        await asyncio.sleep(after)
        server.process.send_signal(signal.SIGTERM)
        start = perf_counter()
        await asyncio.to_thread(server.process.wait, 30)
        ended.append(perf_counter() - start)

    def over() -> bool:
        return bool(ended)

    async def run() -> tuple[Outcomes, list[tuple[float, int]], None]:
        return await asyncio.gather(
            open_loop(server.url, headline, 100, 30, ended=over), polled(server, "/readyz", over), terminate(1.0)
        )

    outcomes, ready, _ = asyncio.run(run())
    refused = [reply for _, reply in outcomes.replies if reply.status == 503]
    unready = min(at for at, status in ready if status == 503)
    closed = min((at for at, status in ready if status == 0), default=float("inf"))
    figures(
        "SIGTERM",
        answered=len(outcomes.replies) - len(refused),
        refused=len(refused),
        lost=len(outcomes.lost),
        not_ready_at=f"{unready:.2f} s",
        no_connection_at=f"{closed:.2f} s",
        ended_after=f"{ended[0]:.2f} s",
    )
    assert outcomes.lost == []
    assert outcomes.statuses() <= {200, 503}
    assert {r.json()["error"]["code"] for r in refused} <= {"not_ready"}
    told = [(r.headers.get("connection"), r.headers.get("retry-after"), r.json()["error"]) for r in refused]
    assert [t for t in told if t[:2] != ("close", "1")] == []
    assert unready + 0.3 < min([closed, *outcomes.refused]), "readiness fails while connections are still accepted"
    assert {status for at, status in ready if at < 0.9} == {200}
    assert server.exit_code() == 0
    assert ended[0] < 15


def test_whoever_holds_on_does_not_keep_a_server_from_ending(start_server: StartServer) -> None:
    """Idle, in the middle of a head, in the middle of a body: the grace period ends it all."""
    server = start_server(ONE | {"NLU_DRAIN_MS": "0", "NLU_GRACE_MS": "3000"})
    request = encode(*headline(1))

    async def run() -> tuple[float, int]:
        idle, head, body = [await Connection(server.url).open() for _ in range(3)]
        assert (await idle.ask(*headline(0))).status == 200
        head.writer.write(request[:20])
        body.writer.write(request[:-5])
        await asyncio.sleep(0.2)
        start = perf_counter()
        server.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(server.process.wait, 30)
        seconds = perf_counter() - start
        status = (await body.receive()).status
        for connection in (idle, head, body):
            await connection.close()
        return seconds, status

    seconds, status = asyncio.run(run())
    assert status == 503
    assert seconds < 3 + SLACK


def test_a_model_that_hangs_does_not_keep_a_server_from_ending(start_server: StartServer) -> None:
    server = start_server(ONE | {"NLU_GRACE_MS": "2000"})
    for worker in workers(server):
        worker.suspend()
    start = perf_counter()
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code() == 0
    assert perf_counter() - start < 2 + SLACK


def test_a_group_of_processes_may_be_terminated_together(start_server: StartServer) -> None:
    """The terminal sends SIGINT to the group, systemd SIGTERM to everybody, more than once if one is impatient."""
    server = start_server(ONE)
    everybody = [server.process.pid, *(worker.pid for worker in workers(server))]
    os.killpg(server.process.pid, signal.SIGINT)
    for _ in range(2):
        for pid in everybody:
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGTERM)
    assert server.exit_code(10) == 0


def full_service(server: Server, count: int, seconds: float) -> float:
    """Seconds until so many workers have loaded everything."""
    start = monotonic()
    while server.log.count("1 of 1 bundles ready") < count:
        assert monotonic() - start < seconds, server.log
        sleep(0.05)
    return monotonic() - start


@pytest.mark.parametrize("container", [False, True], ids=["", "container"])
def test_a_killed_worker_costs_what_it_was_doing_and_is_replaced(start_server: StartServer, container: bool) -> None:
    # With BENTOML_CONTAINERIZED, BentoML itself replaces none.
    inside: dict[str, str] = {"BENTOML_CONTAINERIZED": "true"} if container else {}
    server = start_server(ONE | inside | {"NLU_WORKERS": "2"})
    full_service(server, 2, 60)
    victim = workers(server)[0]

    async def kill() -> None:
        await asyncio.sleep(1)
        victim.kill()

    async def run() -> Outcomes:
        outcomes, _ = await asyncio.gather(open_loop(server.url, headline, 40, 8), kill())
        return outcomes

    outcomes = asyncio.run(run())
    waited = full_service(server, 3, 30)
    figures("kill -9", answered=len(outcomes.replies), lost=len(outcomes.lost), full_after=f"< {7 + waited:.1f} s")
    assert outcomes.statuses() == {200}
    assert outcomes.refused == []
    assert len(outcomes.lost) < 20, "no more than what it was doing in that moment"
    assert len(workers(server)) == 2
    assert server.process.poll() is None
    assert lost(server) == {"crashed": 1, "hung": 0}


def test_a_hung_worker_is_noticed_and_replaced(start_server: StartServer) -> None:
    server = start_server(ONE | {"NLU_HANG_MS": "1500"})
    full_service(server, 1, 60)
    (victim,) = workers(server)
    victim.suspend()
    full_service(server, 2, 40)
    assert not psutil.pid_exists(victim.pid)
    assert "hangs (silent for" in server.log
    assert lost(server) == {"crashed": 0, "hung": 1}


def lost(server: Server) -> dict[str, Any]:
    """What the metrics say, once somebody has counted."""
    until = monotonic() + 5
    while True:
        text = series(server.get("/metrics")[1])
        found = {cause: text.get(f'clueserve_workers_lost_total{{cause="{cause}"}}') for cause in ("crashed", "hung")}
        if sum(value or 0 for value in found.values()) or monotonic() > until:
            return found
        sleep(0.1)
