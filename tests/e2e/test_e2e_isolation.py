"""Thousands of requests at once: everybody gets the answer that they would get alone.

Run with -s to see the figures.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from time import perf_counter, sleep
from typing import Any

import httpx
import pytest
from e2e_http import Request, series, together
from e2e_load import alone, compare, figures, mixed
from e2e_servers import DEMO, StartServer

pytestmark = pytest.mark.alone


def poll(url: str, until: threading.Event) -> list[float]:
    """Seconds that /livez took, on new connections, until told to stop."""
    times = []
    with httpx.Client(base_url=url, timeout=30, trust_env=False, headers={"connection": "close"}) as client:
        while not until.is_set():
            start = perf_counter()
            assert client.get("/livez").status_code == 200
            times.append(perf_counter() - start)
            sleep(0.02)
    return times


def with_poll(url: str, work: Callable[[], Any]) -> tuple[Any, list[float]]:
    """What `work` returned, and the times of /livez meanwhile."""
    until, times = threading.Event(), []
    thread = threading.Thread(target=lambda: times.extend(poll(url, until)))
    thread.start()
    try:
        return work(), times
    finally:
        until.set()
        thread.join()


def test_two_thousand_requests_at_once_get_the_answers_they_get_alone(server: str) -> None:
    # SeldonIO/MLServer#1541, huggingface/tokenizers#537, microsoft/onnxruntime#14998.
    requests = mixed(400)
    expected = alone(server, requests)
    assert {reply.status for reply in expected} == {200}
    start = perf_counter()
    replies, livez = with_poll(server, lambda: asyncio.run(together(server, requests * 5)))
    seconds = perf_counter() - start
    errors = Counter(reply.status for reply in replies if reply.status != 200)
    comparison = compare(expected, replies)
    p99 = sorted(livez)[int(len(livez) * 0.99)]
    figures(
        "2,000 at once",
        bundles=len(DEMO),
        requests=len(replies),
        errors=dict(errors) or 0,
        differences=len(comparison.different),
        largest_score_difference=comparison.largest,
        seconds=f"{seconds:.1f}",
        livez_p99_ms=f"{p99 * 1000:.0f} of {len(livez)}",
    )
    assert not errors
    assert len(replies) == 2000
    assert comparison.different == []
    # kserve and vLLM users saw healthy servers killed because probes starved behind inference.
    assert len(livez) > 50
    assert p99 < 0.2


def test_probes_are_answered_while_long_texts_are_read(server: str) -> None:
    # sgl-project/sglang#30771: tokenising long prompts starved the probe until the server was killed.
    text = "오늘은 날씨가 맑고 바람이 분다. " * 50
    requests: list[Request] = [("/klue-ner", {"text": f"{i} {text}"}) for i in range(64)]
    replies, livez = with_poll(server, lambda: asyncio.run(together(server, requests)))
    p99 = sorted(livez)[int(len(livez) * 0.99)]
    figures("64 long texts", livez_p99_ms=f"{p99 * 1000:.0f} of {len(livez)}")
    assert {reply.status for reply in replies} == {200}
    assert len(livez) > 20
    assert p99 < 0.2


def test_rows_that_share_a_run_do_not_see_each_other(start_server: StartServer) -> None:
    names = ["klue-ner", "klue-nli", "klue-re", "cmrc2018", "cmedtc"]
    env = {"NLU_MODELS": ",".join(f"{name}:latest" for name in names), "NLU_TAKE_MS": "1000", "NLU_THREADS": "1"}
    server = start_server(env | {"NLU_MAX_WAIT_MS": "300000"})
    requests = [request for request in mixed(600) if request[0].strip("/") in names]
    expected = alone(server.url, requests)
    replies = asyncio.run(together(server.url, requests))
    comparison = compare(expected, replies)
    metrics = series(server.get("/metrics")[1])
    runs, rows = (
        sum(v for k, v in metrics.items() if k.startswith(f"clueserve_run_rows_{kind}{{")) for kind in ("count", "sum")
    )
    figures(
        "takes of 1 s",
        requests=len(replies),
        rows_a_take=sum(int(r.headers["x-batch-rows"]) for r in replies) // len(replies),
        rows_a_run=f"{rows / runs:.2f}",
        differences=len(comparison.different),
        largest_score_difference=comparison.largest,
    )
    assert {reply.status for reply in replies} == {200}
    assert comparison.different == []


def test_options_stay_with_their_request(server: str) -> None:
    text = "👩 이순신은 여수에서 현대자동차 직원을 만났다."
    bodies = [
        {"text": text, "threshold": i % 10 / 10, "offset_unit": ("utf16", "byte", "codepoint")[i % 3]}
        for i in range(30)
    ]
    requests: list[Request] = [("/klue-ner", body) for body in bodies]
    requests += [("/klue-ynat", {"text": "코스피 상승", "top_k": 1 + i % 7}) for i in range(30)]
    expected = alone(server, requests)
    assert [len(reply.json()["scores"]) for reply in expected[30:]] == [1 + i % 7 for i in range(30)]
    assert len({reply.body for reply in expected[:30]}) > 3
    replies = asyncio.run(together(server, requests * 10))
    assert compare(expected, replies).different == []


def test_bad_items_harm_no_good_ones(server: str) -> None:
    # Lightning-AI/LitServe#340: one failing item failed everyone who shared its batch.
    good = mixed(60)
    bad: list[Request] = [
        ("/klue-ynat", {"text": None}),
        ("/klue-ner", {"text": ""}),
        ("/klue-ynat", {"text": "가" * 3_000, "on_overflow": "error"}),
        ("/klue-re", {"text": "서울", "subject": {"start": 0, "end": 9}, "object": {"start": 0, "end": 1}}),
        ("/klue-mrc", {"question": " ", "context": "\u200b"}),
        ("/klue-nli", b'{"text": "\\ud800"}'),
        ("/cmedqq", b"{"),
    ]
    expected = alone(server, good)
    mixture = [request for i, one in enumerate(good) for request in (one, bad[i % len(bad)])] * 4
    replies = asyncio.run(together(server, mixture))
    assert Counter(reply.status for reply in replies[::2]) == {200: 240}
    assert {reply.status for reply in replies[1::2]} == {400, 422}
    assert compare(expected, replies[::2]).different == []
