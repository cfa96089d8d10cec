"""uvicorn's HTTP/1.1 connection with what it lacks: limits of time, size and number, and a way out of them.

uvicorn waits for ever for the first byte, for the rest of a head, and for a client that does not read its answer; it
keeps a head of any length, and any number of requests that come before the one in front of them is answered; and of a
request that would like to be upgraded, as Java's first one is, it loses the body.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from service.edge.gate import CROWDED, Gate
from service.edge.http import error_response
from service.edge.transport import Together
from service.errors import HeadTooLarge, InvalidRequest, RequestTimeout, ServiceError

# Bytes of a head, and of what stands around a body: the sizes of its chunks, and fields behind it.
MAX_HEAD = 64 * 1024
# A chunk of a single byte has five more around it.
AROUND = 6
# Requests that may wait on a connection for the one that is being answered. Where a few do, or much of a body, nothing
# more is read before their turn; where fewer do it is, or nobody would see the client leave.
MAX_PIPELINED = 256
FEW = 16


class Flow(FlowControl):
    """Does not read on, whoever would like to, while enough requests are `waiting`.

    It knows them and not their connection, which would then be garbage that only the collector finds.
    """

    def __init__(self, transport: asyncio.Transport, waiting: deque[tuple[RequestResponseCycle, Any]]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if len(self._waiting) < FEW and sum(len(cycle.body) for cycle, _ in self._waiting) <= HIGH_WATER_LIMIT:
            super().resume_reading()


class Connection(HttpToolsProtocol):
    """`limit`: connections of this process; on one more only probes are answered. `patience`: seconds for a head."""

    gate: ClassVar[Gate]
    limit: ClassVar[int]
    patience: ClassVar[float]
    refused: ClassVar[Callable[[str], None]]

    _running: RequestResponseCycle | None = None
    _deadline: asyncio.TimerHandle | None = None
    _crowded = False
    _begun = False
    _piece: bytes | memoryview = b""
    _unread: list[bytes | memoryview]
    _spare = 0
    """Bytes of the message under way that are no body, without those of the piece in which it began."""

    @property
    def idle(self) -> bool:
        """No request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def unused(self) -> bool:
        """Accepted, and nothing has come yet that could be answered."""
        return self.cycle is None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._together = Together(transport, self.loop, self.patience)
        super().connection_made(self._together)  # type: ignore[arg-type] # it has all that is used
        self.flow = Flow(self.transport, self.pipeline)
        self._crowded = len(self.connections) > self.limit
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._spare += len(data)
        self._unread = [data]
        while self._unread and not self.transport.is_closing():
            self._piece = self._unread.pop()
            super().data_received(self._piece)  # type: ignore[arg-type] # any buffer will do
        self._piece, self._spare = b"", max(0, self._spare)
        if self._spare > MAX_HEAD and not self.transport.is_closing():
            self._turn_away(HeadTooLarge(f"the head is larger than {MAX_HEAD} bytes"))
        # A whole head, as nearly all are, costs no timer. What comes afterwards is the business of who reads the body.
        if not self.idle:
            self._stop_waiting()
        elif self._deadline is None and not self.transport.is_closing():
            self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._together.insist()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._together.relax()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)
        # uvicorn tells the newest request, which may be far from being begun.
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests")  # which the parser makes an error of the request
        super().on_message_begin()
        self._begun = True
        self._spare = 0
        if self._crowded:
            self.scope["state"][CROWDED] = True

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._begun = False
        self.flow.resume_reading()  # of a request that has to wait nothing would be read, nor that its client left
        if self.gate.draining and not self.idle:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._spare -= AROUND * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._spare = 0
        super().on_message_complete()

    def _should_upgrade(self) -> bool:
        """Asked of requests that would like it: those are for `handle_websocket_upgrade`."""
        return self.scope["method"] != "CONNECT"

    def handle_websocket_upgrade(self) -> None:
        """Nothing is upgraded here, and HTTP lets a server pass over the wish: read the request again without it."""
        upgrade = sys.exception()
        assert isinstance(upgrade, httptools.HttpParserUpgrade)
        version = self.parser.get_http_version().encode()
        fields = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        head = [b" ".join((self.scope["method"].encode(), self.url, b"HTTP/" + version)), *fields, b"", b""]
        self.parser = httptools.HttpRequestParser(self)
        self._unread += [memoryview(self._piece)[upgrade.args[0] :], b"\r\n".join(head)]

    def send_400_response(self, msg: str) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            message = f"more than {MAX_PIPELINED} requests wait on this connection"
            self._turn_away(InvalidRequest(message, code="too_many_requests"))
        else:
            self._turn_away(InvalidRequest("this is no HTTP/1.1 request", code="invalid_http"))

    def leave(self) -> None:
        """Let the answer that is under way be the last one."""
        if not self.idle:
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self.patience, self._late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        """The head did not come in time; who has sent nothing at all needs no answer."""
        self._deadline = None
        if self._begun:
            self._turn_away(RequestTimeout(f"the head did not come within {self.patience:g} s"))
        else:
            self.transport.close()

    def _turn_away(self, error: ServiceError) -> None:
        """Answer in place of the app and close; of a connection with an answer under way only the end is left."""
        type(self).refused(error.reason)
        running = self._running
        if running is None or running.response_complete or not running.response_started:
            answer = error_response(error)
            fields = [*answer.raw_headers, *([] if "connection" in answer.headers else [(b"connection", b"close")])]
            head = b"".join(name + b": " + value + b"\r\n" for name, value in fields)
            self.transport.write(STATUS_LINE[answer.status_code] + head + b"\r\n" + bytes(answer.body))
        self.transport.close()
