"""A server in operation: shutdown, workers, connections, metrics."""

from __future__ import annotations

import asyncio
import signal
from time import monotonic, perf_counter, sleep

import httpx
from e2e_http import Connection, Reply, Request, counted, series, together
from e2e_servers import Server, StartServer

ONE = {"NLU_MODELS": "klue-ner:latest"}
SHORT = {"text": "이순신은 여수에 갔다."}
LONG = {"text": "오늘은 날씨가 맑고 바람이 분다. " * 60}


def test_sigterm_finishes_what_is_in_flight_and_ends_with_zero(start_server: StartServer) -> None:
    server = start_server(ONE)

    async def run() -> list[Reply]:
        connections = [await Connection(server.url).open() for _ in range(12)]
        for connection in connections:
            connection.send("/klue-ner", LONG)
        await asyncio.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        replies = await asyncio.gather(*(connection.receive() for connection in connections))
        await asyncio.gather(*(connection.close() for connection in connections))
        return list(replies)

    start = perf_counter()
    replies = asyncio.run(run())
    assert [reply.status for reply in replies] == [200] * 12
    assert len({reply.body for reply in replies}) == 1
    assert server.exit_code() == 0
    print(f"\n12 long requests and the shutdown after SIGTERM: {perf_counter() - start:.1f} s")
    assert server.get("/livez")[0] == 0


def test_sigterm_ends_a_server_whose_client_left(start_server: StartServer) -> None:
    server = start_server(ONE)

    async def leave() -> None:
        connection = await Connection(server.url).open()
        connection.send("/klue-ner", LONG)
        await asyncio.sleep(0.05)
        await connection.close()

    asyncio.run(leave())
    while counted(server.get("/metrics")[1], outcome="cancelled") < 1:
        sleep(0.05)
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code(timeout=5) == 0


def test_an_idle_server_ends_at_once(start_server: StartServer) -> None:
    server = start_server(ONE)
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code(timeout=5) == 0


def everywhere_ready(server: Server, workers: int) -> None:
    """Every worker answers /readyz for itself, and connections do not go round: the log says when each is ready."""
    until = monotonic() + 60
    while server.log.count("1 of 1 bundles ready") < workers:
        assert monotonic() < until, server.log
        sleep(0.05)


def test_two_workers_count_together_and_never_backwards(start_server: StartServer) -> None:
    # prometheus/client_python#568: every worker showed its own counters.
    server = start_server(ONE | {"NLU_WORKERS": "2"})
    everywhere_ready(server, workers=2)
    requests: list[Request] = [("/klue-ner", SHORT)] * 40
    seen = [0.0]
    for round_ in range(5):
        replies = asyncio.run(together(server.url, requests))
        assert {reply.status for reply in replies} == {200}
        for _ in range(6):
            seen.append(counted(server.get("/metrics")[1], outcome="ok", bundle="klue-ner"))
            assert seen[-1] == 40 * (round_ + 1)
    bad = asyncio.run(together(server.url, [("/klue-ner", {"text": ""})] * 20))
    assert {reply.status for reply in bad} == {422}
    text = server.get("/metrics")[1]
    assert counted(text) == 220
    assert counted(text, outcome="invalid_item") == 20
    assert series(text)['clueserve_stage_seconds_count{bundle="klue-ner",stage="inference"}'] == 200
    depth = [value for name, value in series(text).items() if name.startswith("clueserve_queue_depth")]
    assert depth == [0]


def test_a_connection_that_was_idle_for_eight_seconds_still_works(server: str) -> None:
    # kserve/kserve#5446: the server closed idle connections before its proxy did, 5 s by default.
    async def run() -> list[int]:
        connection = await Connection(server).open()
        first = await connection.ask("/klue-ner", SHORT)
        await asyncio.sleep(8)
        second = await connection.ask("/klue-ner", SHORT)
        await connection.close()
        return [first.status, second.status]

    assert asyncio.run(run()) == [200, 200]


def test_the_metrics_have_a_finite_set_of_labels_and_no_text(client: httpx.Client) -> None:
    secret = "홍길동 010-1234-5678"
    client.post("/klue-ner", json={"text": secret})
    client.post("/klue-ner", json={"txet": secret})
    client.post(f"/{secret}", json={"text": secret})
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    assert secret not in response.text
    assert "%ED" not in response.text
    assert all(name.startswith("clueserve_") for name in series(response.text))
    assert 'clueserve_bundle_info{bundle="klue-ner",device="cpu"' in response.text


def test_a_log_never_holds_what_a_client_sent(start_server: StartServer) -> None:
    server = start_server(ONE)
    secret = "홍길동이 좋아하는 비밀"
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        for body in ({"text": secret}, {"text": ""}, {secret: 1}, {"text": secret, "threshold": 7}):
            client.post("/klue-ner", json=body)
            client.post("/klue-ner/batch", json={"items": [body]})
        client.get(f"/{secret}")
    server.stop()
    assert secret not in server.log
