"""Spans of a request: parents, sampling, times that are right, and no text in them."""

from __future__ import annotations

import subprocess
import sys
from time import monotonic, time_ns

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from service.errors import ConfigError
from service.observability import tracing
from service.observability.exchange import MAX_SPANS_OF, Exchange
from service.observability.telemetry import STAGES
from service.types import Timing

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
MILLISECOND = 1_000_000


class Traced:
    """A tracer whose spans stay here."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = tracing.Tracer(provider)

    def finish(self, exchange: Exchange, traceparent: str | None = None) -> str | None:
        return self.tracer.finish(exchange, traceparent.encode() if traceparent else None)

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def traced() -> Traced:
    return Traced()


def exchange(status: int = 200) -> Exchange:
    """A request whose one item waited 10 ms and was tokenised, run and decoded in 1, 20 and 2 ms."""
    made = Exchange("POST", "/{model}", b"id-1")
    made.status = status
    timing, at = Timing(rows=4, tokens=11), monotonic()
    for stage, seconds in (("queue", 0.010), ("tokenize", 0.001), ("inference", 0.020), ("decode", 0.002)):
        timing.mark(stage, at, at + seconds)
        at += seconds
    made.answered("ner", timing)
    return made


def test_a_request_and_its_stages_are_spans(traced: Traced) -> None:
    traced.finish(exchange())
    spans = traced.spans
    assert list(spans) == ["queue", "tokenize", "inference", "decode", "POST /{model}"]
    request = spans["POST /{model}"]
    assert request.kind is SpanKind.SERVER
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/{model}",
        "http.response.status_code": 200,
        "clueserve.request_id": "id-1",
        "clueserve.model": "ner",
        "clueserve.items": 1,
        "clueserve.failed": 0,
    }
    stages = [span for span in spans.values() if span is not request]
    assert {span.parent.span_id for span in stages if span.parent} == {request.context.span_id}
    assert stages[0].attributes == {"clueserve.model": "ner", "clueserve.rows": 4, "clueserve.tokens": 11}


def test_times_are_those_of_the_clock_on_the_wall(traced: Traced) -> None:
    before = time_ns()
    traced.finish(exchange())
    spans = traced.spans
    at = {name: (span.start_time or 0, span.end_time or 0) for name, span in spans.items()}
    lengths = {name: round((end - start) / MILLISECOND) for name, (start, end) in at.items() if name in STAGES}
    assert lengths == {"queue": 10, "tokenize": 1, "inference": 20, "decode": 2}
    assert abs(at["queue"][0] - before) < 50 * MILLISECOND
    assert at["POST /{model}"][0] <= at["queue"][0]
    assert abs(at["queue"][1] - at["tokenize"][0]) < 1000
    assert abs(at["inference"][1] - at["decode"][0]) < 1000


def test_the_callers_span_is_the_parent(traced: Traced) -> None:
    assert traced.finish(exchange(), f"00-{TRACE}-{SPAN}-01") == TRACE
    request = traced.spans["POST /{model}"]
    assert f"{request.context.trace_id:032x}" == TRACE
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == SPAN
    assert request.parent.is_remote


def test_what_the_caller_does_not_sample_is_not_sampled(traced: Traced) -> None:
    assert traced.finish(exchange(), f"00-{TRACE}-{SPAN}-00") is None
    assert traced.spans == {}


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "canary",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_a_header_that_names_no_span_begins_a_new_trace(traced: Traced, traceparent: str) -> None:
    trace_id = traced.finish(exchange(), traceparent)
    assert trace_id not in {None, TRACE}
    assert traced.spans["POST /{model}"].parent is None


def test_a_later_version_of_the_header_may_say_more(traced: Traced) -> None:
    assert traced.finish(exchange(), f"01-{TRACE}-{SPAN}-01-more") == TRACE


def test_our_faults_are_errors_and_the_callers_are_not(traced: Traced) -> None:
    failed = exchange(status=500)
    failed.code = "internal"
    traced.finish(failed)
    span = traced.spans["POST /{model}"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "internal"
    traced.exporter.clear()
    traced.finish(exchange(status=422))
    assert traced.spans["POST /{model}"].status.status_code is StatusCode.UNSET


def test_a_batch_of_a_thousand_does_not_make_thousands_of_spans(traced: Traced) -> None:
    many = Exchange("POST", "/{model}/batch", None)
    for _ in range(1000):
        timing = Timing()
        timing.mark("queue", many.start, many.start)
        many.answered("ner", timing)
    traced.finish(many)
    spans = traced.exporter.get_finished_spans()
    assert len(spans) == MAX_SPANS_OF + 1
    assert spans[-1].attributes is not None
    assert spans[-1].attributes["clueserve.items"] == 1000


@pytest.mark.parametrize(
    ("environ", "on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_traces_are_made_where_there_is_an_endpoint(environ: dict[str, str], on: bool) -> None:
    assert tracing.wanted(environ) is on


def test_a_missing_exporter_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"install clueserve\[trace\]"):
        tracing.require_exporter()


def test_nothing_is_imported_while_it_is_off() -> None:
    seen = "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    script = f"import sys, service.observability.tracing; {seen}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
