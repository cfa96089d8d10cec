"""More than a server can do, and work that nobody waits for any more.

Run with -s to see the figures.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

import httpx
import pytest
from e2e_http import Connection, Reply, Request, closed_loop, counted, together
from e2e_load import alone, compare, figures, mixed
from e2e_servers import StartServer

pytestmark = pytest.mark.alone
LONG = "오늘은 날씨가 맑고 바람이 분다. " * 300


def test_who_leaves_is_not_worked_for_and_harms_nobody(server: str, client: httpx.Client) -> None:
    others = mixed(30)
    expected = alone(server, others)
    start = perf_counter()
    client.post("/klue-ner", json={"text": LONG}).raise_for_status()
    one_takes = perf_counter() - start
    before = counted(client.get("/metrics").text, outcome="cancelled")

    async def leave() -> list[Reply]:
        leavers = [await Connection(server).open() for _ in range(60)]
        for i, connection in enumerate(leavers):
            connection.send("/klue-ner", {"text": f"{i} {LONG}"})
        await asyncio.sleep(0.2)
        staying = asyncio.create_task(together(server, others))
        await asyncio.sleep(0.1)
        await asyncio.gather(*(connection.close() for connection in leavers))
        return await staying

    start = perf_counter()
    replies = asyncio.run(leave())
    seconds = perf_counter() - start
    cancelled = counted(client.get("/metrics").text, outcome="cancelled") - before
    figures("60 leave", cancelled=cancelled, one_takes=f"{one_takes:.2f} s", the_others_had=f"{seconds:.2f} s")
    assert {reply.status for reply in replies} == {200}
    assert compare(expected, replies).different == []
    assert cancelled >= 50
    assert seconds < 60 * one_takes / 4, "the work of those who left was done all the same"


def test_an_items_time_runs_out_alone(server: str, client: httpx.Client) -> None:
    late = client.post("/klue-ner", json={"text": LONG, "timeout_ms": 1})
    assert late.status_code == 504
    assert late.json()["error"]["code"] == "deadline_exceeded"
    items = [{"text": "이순신은 여수에 갔다."}, {"text": LONG, "timeout_ms": 1}, {"text": "이순신은 여수에 갔다."}]
    results = client.post("/klue-ner/batch", json={"items": items}).json()["results"]
    assert results[0]["entities"] == results[2]["entities"] != []
    assert results[1]["error"]["code"] in ("deadline_exceeded", "overloaded")


def test_overload_is_refused_at_once_and_the_rest_goes_on(start_server: StartServer) -> None:
    # bentoml/BentoML#3200: 'Service Busy' without a word about when to come back.
    server = start_server({"NLU_MODELS": "klue-ner:latest", "NLU_MAX_WAIT_MS": "200", "NLU_THREADS": "1"})
    text = "이순신은 여수에서 현대자동차 직원을 만났다. " * 4

    def loop(clients: int, seconds: float) -> list[Reply]:
        return asyncio.run(
            closed_loop(server.url, lambda i: ("/klue-ner", {"text": f"{i} {text}"}), clients, seconds, pause=0.5)
        )

    loop(2, 1)
    steady, crowd = loop(4, 3), loop(64, 4)
    answered = [reply for reply in crowd if reply.status == 200]
    refused = sorted((reply for reply in crowd if reply.status != 200), key=lambda reply: reply.seconds)
    rates = len(steady) / 3, len(answered) / 4
    figures(
        "overload",
        steady=f"{rates[0]:.0f}/s",
        goodput=f"{rates[1]:.0f}/s",
        refused=len(refused),
        refusal_p50_ms=f"{refused[len(refused) // 2].seconds * 1000:.0f}" if refused else "-",
        slowest_answer=f"{max(reply.seconds for reply in answered):.2f} s",
    )
    assert {reply.status for reply in steady} == {200}
    assert len(refused) > 20
    assert {reply.status for reply in refused} == {429}
    assert all(int(reply.headers["retry-after"]) >= 1 for reply in refused)
    assert all(reply.json()["error"]["code"] == "overloaded" for reply in refused)
    assert refused[len(refused) // 2].seconds < 0.2
    assert rates[1] > 0.8 * rates[0]
    assert max(reply.seconds for reply in answered) < 2


def test_long_texts_that_a_classifier_cuts_do_not_count_as_if_all_were_read(start_server: StartServer) -> None:
    server = start_server({"NLU_MODELS": "klue-ner:latest,klue-ynat:latest"})
    long: list[Request] = [("/klue-ynat", {"text": "가 " * 30_000})] * 20
    short: list[Request] = [("/klue-ner", {"text": "이순신은 여수에 갔다."})] * 20
    replies = asyncio.run(together(server.url, long + short))
    assert {reply.status for reply in replies} == {200}
