"""Clients that misbehave and a machine that runs out: others are served meanwhile, and nothing is left behind."""

from __future__ import annotations

import asyncio
import signal
from time import monotonic, perf_counter, sleep

import psutil
import pytest
from e2e_http import Connection, Request, encode
from e2e_load import figures
from e2e_open import Outcomes, open_loop
from e2e_servers import Server, StartServer

pytestmark = pytest.mark.alone
ONE = {"NLU_MODELS": "klue-ynat:latest"}
RATE = 300
LOADED = "bundles ready after"


def headline(number: int) -> Request:
    return "/klue-ynat", {"text": f"반도체 수출 {number}% 증가…코스피 상승 마감"}


def family(server: Server) -> list[psutil.Process]:
    mother = psutil.Process(server.process.pid)
    return [mother, *mother.children(recursive=True)]


def files(server: Server) -> int:
    return sum(process.num_fds() for process in family(server))


def settles_at(server: Server, most: int, seconds: float = 10) -> int:
    """The descriptors that are open, as soon as they are no more than `most`."""
    until = monotonic() + seconds
    while (found := files(server)) > most and monotonic() < until:
        sleep(0.1)
    return found


async def ask(server: Server, number: int = 0) -> int:
    connection = await Connection(server.url).open()
    try:
        return (await asyncio.wait_for(connection.ask(*headline(number)), 30)).status
    finally:
        await connection.close()


def test_sigterm_at_three_hundred_requests_a_second_loses_none(start_server: StartServer) -> None:
    server = start_server(ONE | {"NLU_DRAIN_MS": "800", "NLU_GRACE_MS": "15000"})
    ended: list[float] = []

    async def terminate() -> None:
        await asyncio.sleep(1.5)
        server.process.send_signal(signal.SIGTERM)
        start = perf_counter()
        await asyncio.to_thread(server.process.wait, 40)
        ended.append(perf_counter() - start)

    async def run() -> Outcomes:
        outcomes, _ = await asyncio.gather(
            open_loop(server.url, headline, RATE, 30, ended=lambda: bool(ended)), terminate()
        )
        return outcomes

    outcomes = asyncio.run(run())
    statuses = [reply.status for _, reply in outcomes.replies]
    figures(
        "SIGTERM at 300/s", ended_after=f"{ended[0]:.1f} s", **{f"of_{s}": statuses.count(s) for s in set(statuses)}
    )
    assert outcomes.lost == []
    assert set(statuses) <= {200, 429, 503}, "429: a machine that cannot answer so many says so"
    assert statuses.count(200) > RATE / 4
    assert server.exit_code() == 0
    assert ended[0] < 15


def test_clients_that_leave_cost_nothing_that_stays(start_server: StartServer) -> None:
    """Before the answer, in the middle of a head or a body, with half a close and with a reset, 400 of them."""
    server = start_server(ONE)
    request = encode(*headline(1))
    cuts = [len(request), 10, len(request) - 5, request.index(b"\r\n\r\n") + 4]

    async def leave(number: int) -> None:
        connection = await Connection(server.url).open()
        connection.writer.write(request[: cuts[number % 4]])
        await connection.writer.drain()
        match number // 4 % 3:
            case 0:
                connection.writer.transport.abort()
            case 1:
                connection.writer.write_eof()
                assert await asyncio.wait_for(connection.reader.read(), 10) == b"", "half a close is a farewell"
        await connection.close()

    async def run() -> list[int]:
        assert await ask(server) == 200
        before = files(server)
        statuses = []
        for start in range(0, 400, 40):
            others = [ask(server, n) for n in range(5)]
            *_, others_told = await asyncio.gather(*map(leave, range(start, start + 40)), asyncio.gather(*others))
            statuses += others_told
        assert await asyncio.to_thread(settles_at, server, before) <= before
        return statuses

    assert set(asyncio.run(run())) == {200}
    assert "Traceback" not in server.log
    assert len(server.log.splitlines()) < 100, "whoever leaves cannot fill a disk with log lines"


def test_a_client_that_reads_slowly_holds_up_nobody(start_server: StartServer) -> None:
    server = start_server(ONE)

    async def run() -> tuple[list[int], float]:
        assert await ask(server) == 200
        before = files(server)
        slow = [await Connection(server.url).open() for _ in range(20)]
        for connection in slow:
            connection.reader._transport.pause_reading()  # type: ignore[attr-defined]
            connection.writer.write(b"GET /docs.json HTTP/1.1\r\nhost: a\r\n\r\n" * 200)
        start = perf_counter()
        statuses = [await ask(server, n) for n in range(20)]
        seconds = perf_counter() - start
        for connection in slow:
            connection.writer.transport.abort()
        assert await asyncio.to_thread(settles_at, server, before) <= before
        return statuses, seconds

    statuses, seconds = asyncio.run(run())
    assert set(statuses) == {200}
    assert seconds < 10


def test_a_server_without_free_descriptors_survives_and_recovers(start_server: StartServer) -> None:
    server = start_server(ONE | {"NLU_HANG_MS": "2000"})
    (worker,) = psutil.Process(server.process.pid).children()
    worker.rlimit(psutil.RLIMIT_NOFILE, (128, 128))
    before = worker.cpu_times()

    async def run() -> tuple[int, list[int]]:
        held: list[Connection] = []
        kept = await Connection(server.url).open()
        assert (await kept.ask(*headline(0))).status == 200
        for _ in range(200):
            held.append(await Connection(server.url).open())
        await asyncio.sleep(5)
        # Whoever is connected is served, whoever is not waits or is turned away.
        status = (await asyncio.wait_for(kept.ask(*headline(1)), 30)).status
        for connection in (*held, kept):
            connection.writer.transport.abort()
        await asyncio.sleep(1)
        return status, [await ask(server, n) for n in range(20)]

    during, after = asyncio.run(run())
    busy = sum(worker.cpu_times()[:2]) - sum(before[:2])
    figures("no descriptors", cpu_seconds=f"{busy:.1f}", log_lines=len(server.log.splitlines()))
    assert (during, set(after)) == (200, {200})
    assert worker.is_running(), "the same worker as before"
    assert server.get("/readyz")[0] == 200
    assert len(server.log.splitlines()) < 1000, server.log[-2000:]
