"""Spans of a request and its stages, W3C trace context in, OTLP over HTTP out; nothing is imported while it is off.

On where an OpenTelemetry endpoint is set. The standard OTEL_* variables say where to, which of them and as whom. A span
is made once the request is over, from times that were taken anyway; it holds names and numbers, never text.
`tracestate` and `baggage` are the caller's free text, and so are not read.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

from service.errors import ConfigError
from service.observability.exchange import Exchange

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces."""
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    return not off and any(environ.get(name) for name in ENDPOINTS)


def require_exporter() -> None:
    """ConfigError where traces are wanted and cannot be sent."""
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter  # noqa: F401
    except ImportError:
        raise ConfigError(f"{' or '.join(ENDPOINTS)} is set: install clueserve[trace], or unset it") from None


def open_tracer() -> Tracer:
    """A tracer that sends in the background. To be called in the process that traces."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    os.environ.setdefault("OTEL_SERVICE_NAME", "clueserve")
    provider = TracerProvider(resource=Resource.create(), shutdown_on_exit=False)  # a signal ends us before that
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracer(provider)


class Tracer:
    """Makes the spans of finished requests. The provider's sampler decides; the default one does as the caller did."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("clueserve")

    def close(self, patience: float | None = None) -> None:
        """Send what is left, for `patience` seconds at most: a collector may be gone."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(patience)

    def finish(self, exchange: Exchange, traceparent: bytes | None) -> str | None:
        """The spans of a request that ends now. Returns the trace's id if it is sampled."""
        from opentelemetry import trace

        offset = time_ns() - monotonic_ns()
        attributes: dict[str, str | int] = {
            "http.request.method": exchange.method,
            "http.route": exchange.route,
            "http.response.status_code": exchange.status,
            "clueserve.request_id": exchange.id.decode(),
            "clueserve.model": ",".join(exchange.models),
            "clueserve.items": exchange.items,
            "clueserve.failed": exchange.failed,
        }
        if exchange.code:
            attributes["error.type"] = exchange.code
        span = self._tracer.start_span(
            f"{exchange.method} {exchange.route}",
            parent_of(traceparent),
            trace.SpanKind.SERVER,
            attributes,
            start_time=_ns(exchange.start) + offset,
        )
        if not span.is_recording():
            return None
        context = trace.set_span_in_context(span)
        for model, timing in exchange.timings:
            own: dict[str, str | int] = {
                "clueserve.model": model,
                "clueserve.rows": timing.rows,
                "clueserve.tokens": timing.tokens,
            }
            for stage, start, end in timing.spans:
                child = self._tracer.start_span(stage, context, attributes=own, start_time=_ns(start) + offset)
                child.end(_ns(end) + offset)
        if exchange.status >= 500:
            span.set_status(trace.StatusCode.ERROR)
        span.end(time_ns())
        return trace.format_trace_id(span.get_span_context().trace_id)


def parent_of(traceparent: bytes | None) -> Context:
    """The caller's span as ours has it for a parent; a new trace where it names none that can be."""
    from opentelemetry import trace
    from opentelemetry.context import Context

    found = PARENT.fullmatch(traceparent or b"")
    if found is None or (found[1] == b"00" and found[5]):  # version 00 ends where it ends
        return Context()
    trace_id, span_id, flags = (int(found[i], 16) for i in (2, 3, 4))
    if not trace_id or not span_id:
        return Context()
    parent = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags & 1))
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
