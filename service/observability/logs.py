"""Log lines as text or as JSON, and the one line that a request may have. None of them holds what a caller sent."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Literal

from service.observability.exchange import Exchange

Form = Literal["text", "json"]
Which = Literal["off", "errors", "all"]

log = logging.getLogger("bentoml.clueserve.request")


class Fields(dict[str, Any]):
    """A message of named values: JSON keeps the names, text shows `name=value`."""

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.items())


class JsonFormatter(logging.Formatter):
    """One object a line: `timestamp`, `level`, `logger`, `process`, and `message` or the fields of the message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
        }
        line |= record.msg if isinstance(record.msg, Fields) else {"message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(form: Form) -> None:
    """Write every line of this process in this form, those of BentoML, its process manager and uvicorn as well.

    Text is how BentoML has set its handlers up already.
    """
    if form == "text":
        return
    formatter = JsonFormatter()
    named = [logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    for logger in (logging.root, *named):
        for handler in logger.handlers:
            handler.setFormatter(formatter)
    logging.captureWarnings(True)


def request_line(exchange: Exchange, trace_id: str | None, which: Which) -> None:
    """Log one request, if such are wanted."""
    if which == "off" or (which == "errors" and exchange.status < 500):
        return
    most = exchange.most
    line = Fields(
        request_id=exchange.id.decode(),
        method=exchange.method,
        route=exchange.route,
        model=",".join(exchange.models),
        status=exchange.status,
        code=exchange.code or "",
        ms=_ms(monotonic() - exchange.start),
        items=exchange.items,
        failed=exchange.failed,
        queue_ms=_ms(most.queue),
        tokenize_ms=_ms(most.tokenize),
        inference_ms=_ms(most.inference),
        decode_ms=_ms(most.decode),
        rows=most.rows,
        tokens=most.tokens,
    )
    if exchange.key is not None:
        line["key"] = exchange.key
    if trace_id is not None:
        line["trace_id"] = trace_id
    log.log(logging.ERROR if exchange.status >= 500 else logging.INFO, line)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
