"""What a server does not put up with: slow heads, slow bodies, too many connections."""

from __future__ import annotations

import asyncio
from time import perf_counter

import pytest
from e2e_http import Connection, counted, encode, series
from e2e_servers import Server, StartServer

pytestmark = pytest.mark.alone
REQUEST = encode("/klue-ner", {"text": "이순신은 여수에 갔다."})


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server({"NLU_MODELS": "klue-ner:latest", "NLU_READ_TIMEOUT_MS": "1000", "NLU_MAX_CONNECTIONS": "20"})


async def drip(connection: Connection, data: bytes, at_once: int) -> tuple[int, float]:
    """Send a part at once and the rest byte by byte, ten a second; status (0: none) and seconds until it came."""

    async def send() -> None:
        for i in range(at_once, len(data)):
            await asyncio.sleep(0.1)
            connection.writer.write(data[i : i + 1])

    connection.writer.write(data[:at_once])
    start, sending = perf_counter(), asyncio.create_task(send())
    try:
        status = (await connection.receive()).status
    except asyncio.IncompleteReadError:
        status = 0
    sending.cancel()
    seconds = perf_counter() - start
    await connection.close()
    return status, seconds


def test_who_is_slow_to_ask_is_told_so_and_others_notice_nothing(server: Server) -> None:
    head = REQUEST.index(b"\r\n\r\n") + 4

    async def run() -> list[tuple[int, float]]:
        opened = [await Connection(server.url).open() for _ in range(5)]
        silent, blank, slow_head, slow_body, brisk = opened
        return await asyncio.gather(
            drip(silent, b"", 0),
            drip(blank, b"\r\n" * 99, 0),
            drip(slow_head, REQUEST, 10),
            drip(slow_body, REQUEST, head),
            drip(brisk, REQUEST, len(REQUEST)),
        )

    silent, blank, slow_head, slow_body, brisk = asyncio.run(run())
    assert [status for status, _ in (silent, blank, slow_head, slow_body, brisk)] == [0, 0, 408, 408, 200]
    assert all(0.8 < seconds < 4 for _, seconds in (silent, blank, slow_head, slow_body))
    text = series(server.get("/metrics")[1])
    assert text['clueserve_refusals_total{reason="request_timeout"}'] == 2
    assert counted(server.get("/metrics")[1]) == 1


def test_a_kept_connection_may_be_idle_for_longer_than_a_head_may_take(server: Server) -> None:
    async def run() -> list[int]:
        connection = await Connection(server.url).open()
        statuses = []
        for _ in range(2):
            connection.writer.write(REQUEST)
            statuses.append((await connection.receive()).status)
            await asyncio.sleep(1.5)
        await connection.close()
        return statuses

    assert asyncio.run(run()) == [200, 200]


def test_one_connection_too_many_is_refused_but_a_probe_is_answered(server: Server) -> None:
    async def run() -> tuple[list[int], dict[str, str], int, int]:
        held = [await Connection(server.url).open() for _ in range(20)]
        for connection in held:
            connection.writer.write(REQUEST)
        statuses = [(await connection.receive()).status for connection in held]
        extra = await Connection(server.url).open()
        extra.writer.write(REQUEST)
        refused = await extra.receive()
        probe = await asyncio.to_thread(server.get, "/readyz")
        await asyncio.gather(*(connection.close() for connection in (*held, extra)))
        again = await Connection(server.url).open()
        again.writer.write(REQUEST)
        later = (await again.receive()).status
        await again.close()
        assert refused.json()["error"]["code"] == "too_many_connections"
        return [*statuses, refused.status], refused.headers, probe[0], later

    statuses, headers, probe, later = asyncio.run(run())
    assert statuses == [200] * 20 + [503]
    assert (headers["connection"], headers["retry-after"]) == ("close", "1")
    assert (probe, later) == (200, 200)
