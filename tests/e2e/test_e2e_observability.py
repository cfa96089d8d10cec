"""What a running server says of itself: the whole catalogue, right over workers, finite, and never what was sent."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from e2e_collector import Collector
from e2e_http import Connection, Request, counted, series, together
from e2e_servers import Server, StartServer

from service.observability.telemetry import CATALOGUE, PREFIX

SHORT = {"text": "이순신은 여수에 갔다."}
# Of a configuration that this test does not have.
ONLY_WITH_KEYS = {"key_requests"}
CANARY = "qzcanaryqz"
KOREAN = "카나리새"


def families(exposition: str) -> dict[str, tuple[str, set[str]]]:
    """Metric -> its type and the labels of its series, without `le`."""
    types = dict(re.findall(r"^# TYPE (\S+) (\w+)$", exposition, re.MULTILINE))
    found: dict[str, tuple[str, set[str]]] = {name: (kind, set()) for name, kind in types.items()}
    for line in exposition.splitlines():
        if line and not line.startswith("#"):
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            family = name if name in found else re.sub(r"_(bucket|sum|count)$", "", name)
            found[family][1].update(set(re.findall(r'(\w+)="', line)) - {"le"})
    return found


@pytest.fixture(scope="module")
def two(demo_store: Any) -> Iterator[Server]:
    """A server of two workers, both ready."""
    server = Server({"NLU_MODELS": "klue-ner:latest,klue-ynat:latest", "NLU_WORKERS": "2"})
    try:
        server.wait()
        while server.log.count("2 of 2 bundles ready") < 2:
            assert server.process.poll() is None
        yield server
    finally:
        server.stop()


def test_what_metrics_shows_is_the_catalogue_and_nothing_else(two: Server) -> None:
    asyncio.run(together(two.url, [("/klue-ner", SHORT), ("/klue-ynat", SHORT), ("/nope", SHORT)] * 4))
    shown = families(two.get("/metrics")[1])
    catalogue = {
        PREFIX + name + ("_total" if metric.kind == "counter" else ""): (metric.kind, set(metric.labels))
        for name, metric in CATALOGUE.items()
        if name not in ONLY_WITH_KEYS
    }
    assert set(shown) == set(catalogue)
    # A series without an event, such as of a worker that was never lost, may not be there yet.
    assert {name: (kind, labels or catalogue[name][1]) for name, (kind, labels) in shown.items()} == catalogue


def test_two_workers_count_together(two: Server) -> None:
    before = series(two.get("/metrics")[1])
    requests: list[Request] = [("/klue-ner", SHORT)] * 60 + [("/klue-ner", {"text": ""})] * 7 + [("/gone", {})] * 5
    replies = asyncio.run(together(two.url, requests))
    assert [reply.status for reply in replies] == [200] * 60 + [422] * 7 + [404] * 5
    after = series(two.get("/metrics")[1])
    assert after[f"{PREFIX}workers"] == 2

    def more(name: str) -> float:
        return after[PREFIX + name] - before.get(PREFIX + name, 0)

    assert more('requests_total{bundle="klue-ner",outcome="ok"}') == 60
    assert more('requests_total{bundle="klue-ner",outcome="invalid_item"}') == 7
    assert more('refusals_total{reason="not_found"}') == 5
    assert more('http_requests_total{route="/{model}",status="200"}') == 60
    assert more('http_requests_total{route="/{model}",status="422"}') == 7
    assert more('http_requests_total{route="other",status="404"}') == 5
    assert more('http_request_seconds_count{route="/{model}"}') == 67
    assert more('labels_total{bundle="klue-ner",label="PS"}') == 60
    assert more('score_count{bundle="klue-ner"}') == 60
    assert more('stage_seconds_count{bundle="klue-ner",stage="queue"}') == 60
    assert after[f"{PREFIX}http_in_flight"] == 1, "the scrape itself"
    assert after[f'{PREFIX}queue_depth{{bundle="klue-ner"}}'] == 0


def test_truncated_texts_and_unknown_tokens_are_counted(two: Server) -> None:
    before = series(two.get("/metrics")[1])
    with httpx.Client(base_url=two.url, trust_env=False) as client:
        assert client.post("/klue-ynat", json={"text": "가나다 " * 2000}).json()["truncated"]
        client.post("/klue-ynat", json={"text": "𓀀 𓀁"})
    after = series(two.get("/metrics")[1])
    for name, least in (("truncated", 1), ("unknown_tokens", 2)):
        key = f'{PREFIX}{name}_total{{bundle="klue-ynat"}}'
        assert after[key] - before[key] >= least, name


def test_ten_thousand_requests_to_what_is_not_there_add_no_series(two: Server) -> None:
    forms = (
        ("POST", "/{}"),
        ("POST", "/{}/batch"),
        ("POST", "/klue-ner/{}"),
        ("POST", "/models/{}"),
        ("POST", "/v2/models/{}/infer"),
        ("GET", "/v2/models/{}"),
        ("PROPFIND", "/{}"),
        ("DELETE", "/klue-ner?{}"),
        ("POST", "/parse?{}"),
        ("GET", "/?{}"),
    )

    def exchange(number: int) -> bytes:
        method, path = forms[number % len(forms)]
        name = f"x{number}"
        body = json.dumps({"text": "a", "tasks": [name]}).encode()
        head = f"{method} {path.format(name)} HTTP/1.1\r\nhost: h\r\nx-request-id: {name}\r\nuser-agent: {name}\r\n"
        return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body

    async def ask(numbers: range) -> None:
        connection = await Connection(two.url).open()
        for number in numbers:
            connection.writer.write(exchange(number))
            await connection.receive()
        await connection.close()

    async def everything(start: int, count: int) -> None:
        await asyncio.gather(*(ask(range(start + i, start + count, 8)) for i in range(8)))

    asyncio.run(everything(0, 80))
    before = series(two.get("/metrics")[1])
    asyncio.run(everything(1000, 10_000))
    after = series(two.get("/metrics")[1])
    assert after.keys() == before.keys()
    total = sum(v - before[k] for k, v in after.items() if k.startswith(f"{PREFIX}http_requests_total{{"))
    assert total == 10_001, "and the scrape"


def send_canaries(server: Server) -> int:
    """Requests of every kind that hold the canaries, wherever a request can hold anything. How many were answered."""
    headers = {
        "x-request-id": f"{CANARY} {CANARY}",
        "user-agent": CANARY,
        "authorization": f"Bearer {CANARY}",
        "traceparent": CANARY,
        "tracestate": f"{CANARY}={CANARY}",
        "baggage": f"{CANARY}={CANARY}",
        "referer": f"http://{CANARY}/",
        "cookie": f"{CANARY}={CANARY}",
    }
    text = f"{CANARY} {KOREAN} 이순신은 여수에 갔다."
    bodies: list[Any] = [
        {"text": text},
        {"text": text * 4000},
        {"text": text, CANARY: KOREAN},
        {"text": {CANARY: KOREAN}},
        {"text": text, "offset_unit": CANARY},
        {"items": [{"text": text}, {CANARY: 1}, {"text": f"{CANARY}" + "\u0301" * 40}]},
        {"inputs": text, "parameters": {CANARY: CANARY}},
        {"text": text, "tasks": ["klue-ner", CANARY]},
        {"inputs": [{"name": CANARY, "shape": [1], "datatype": "BYTES", "data": [text]}]},
    ]
    raw = [f'{{"text": "{CANARY}'.encode(), CANARY.encode(), KOREAN.encode("euc-kr"), (CANARY * 200_000).encode()]
    paths = ["/klue-ner", "/klue-ner/batch", "/parse", "/models/klue-ner", "/v2/models/klue-ner/infer", "/predict"]
    paths += [
        f"/{CANARY}",
        f"/{KOREAN}",
        f"/klue-ner?{CANARY}={KOREAN}",
        f"/v2/models/{CANARY}/infer",
        f"/{CANARY}/batch",
    ]
    answered = 0
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as client:
        for path in paths:
            for body in bodies:
                answered += client.post(path, json=body).status_code == 200
            for content in raw:
                for media in ("application/json", f"text/{CANARY}"):
                    client.post(path, content=content, headers={"content-type": media})
            client.get(path)
    for line in (f"{CANARY} /{CANARY} HTTP/1.1", f"GET /{CANARY} {CANARY}", f"GET / HTTP/1.1\r\n{CANARY}"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(f"{line}\r\n\r\n".encode())
            connection.recv(1000)
    return answered


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_canary_is_in_no_log_metric_or_trace(start_server: StartServer, form: str) -> None:
    with Collector() as collector:
        server = start_server(
            {
                "NLU_MODELS": "klue-ner:latest",
                "NLU_LOG_FORMAT": form,
                "NLU_LOG_REQUESTS": "all",
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                "OTEL_BSP_SCHEDULE_DELAY": "200",
            }
        )
        with ThreadPoolExecutor(4) as callers:
            answered = sum(callers.map(send_canaries, [server] * 4))
        metrics = server.get("/metrics")[1]
        server.stop()
        told = {"log": server.log, "metrics": metrics, "traces": collector.text()}
    assert answered > 8
    assert counted(metrics, outcome="ok") > 8
    assert server.log.count("/{model}") > 100
    assert len(collector.spans) > 100
    for where, everything in told.items():
        for canary in (CANARY, KOREAN, KOREAN.encode("unicode_escape").decode(), "%EC%B9%B4"):
            assert canary.lower() not in everything.lower(), where
    if form == "json":
        lines = [json.loads(line) for line in server.log.splitlines()]
        assert {"bentoml.serve", "bentoml.clueserve", "bentoml.clueserve.request"} <= {line["logger"] for line in lines}
