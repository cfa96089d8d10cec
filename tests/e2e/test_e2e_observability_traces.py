"""Traces of a running server, as a collector gets them over HTTP."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import httpx
from e2e_collector import Collector
from e2e_servers import StartServer
from opentelemetry.proto.trace.v1.trace_pb2 import Span

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SHORT = {"text": "이순신은 여수에 갔다."}
STAGES = ["queue", "tokenize", "inference", "decode"]


def attributes(span: Span) -> dict[str, Any]:
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}


def milliseconds(span: Span) -> float:
    return float(span.end_time_unix_nano - span.start_time_unix_nano) / 1e6


def test_a_collector_gets_a_request_with_its_stages_below_the_callers_span(start_server: StartServer) -> None:
    with Collector() as collector:
        server = start_server(
            {
                "NLU_MODELS": "klue-ner:latest",
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
                "OTEL_BSP_SCHEDULE_DELAY": "100",
            }
        )
        with httpx.Client(base_url=server.url, trust_env=False) as client:
            unsampled = client.post("/klue-ner", json=SHORT, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
            sampled = client.post("/klue-ner", json=SHORT, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
            client.get("/readyz")
        assert (unsampled.status_code, sampled.status_code) == (200, 200)
        spans = {span.name: span for span in collector.wait(5)}
        server.stop()
        assert len(collector.spans) == 5, "no probe, nothing that was not sampled, nothing of BentoML's own"
        (resource,) = {str(r.resource) for request in collector.requests for r in request.resource_spans}
    assert list(spans) == [*STAGES, "POST /{model}"]
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    request = spans["POST /{model}"]
    assert request.parent_span_id.hex() == PARENT
    assert {spans[stage].parent_span_id for stage in STAGES} == {request.span_id}
    assert attributes(request)["clueserve.request_id"] == sampled.headers["x-request-id"]
    assert attributes(request)["http.response.status_code"] == 200
    assert attributes(spans["inference"]) == {
        "clueserve.model": "klue-ner",
        "clueserve.rows": 1,
        "clueserve.tokens": sampled.json()["tokens"],
    }
    assert 'string_value: "clueserve"' in resource

    for stage, header in (("queue", "x-queue-ms"), ("tokenize", "x-tokenize-ms"), ("inference", "x-inference-ms")):
        assert abs(milliseconds(spans[stage]) - float(sampled.headers[header])) < 0.01, stage
    edges = [(spans[stage].start_time_unix_nano, spans[stage].end_time_unix_nano) for stage in STAGES]
    assert all(end <= start + 1000 for (_, end), (start, _) in pairwise(edges)), "one after another"
    assert request.start_time_unix_nano <= edges[0][0]
    assert edges[-1][1] <= request.end_time_unix_nano


def test_what_was_traced_last_is_sent_before_the_server_ends(start_server: StartServer) -> None:
    with Collector() as collector:
        server = start_server({"NLU_MODELS": "klue-ner:latest", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
        items = [SHORT] * 3
        httpx.post(f"{server.url}/klue-ner/batch", json={"items": items}, trust_env=False)
        httpx.post(f"{server.url}/nope", json={}, trust_env=False)
        server.process.terminate()
        assert server.exit_code() == 0
        names = [span.name for span in collector.wait(14)]
    assert names == [*STAGES * 3, "POST /{model}/batch", "POST other"]


def test_a_collector_that_is_not_there_costs_no_answer(start_server: StartServer) -> None:
    with Collector() as gone:
        pass
    server = start_server(
        {
            "NLU_MODELS": "klue-ner:latest",
            "OTEL_EXPORTER_OTLP_ENDPOINT": gone.url,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
    )
    for _ in range(5):
        assert httpx.post(f"{server.url}/klue-ner", json=SHORT, trust_env=False).status_code == 200
    assert server.get("/livez")[0] == 200
