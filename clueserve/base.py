"""What both clients are: a server's URL, the calls to it, and how httpx is asked and its failures are read."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

import httpx

from clueserve.calls import Calls
from clueserve.errors import ConnectionFailed
from clueserve.steps import Retries, Send, Unanswered, late

URL = "http://127.0.0.1:3000"
TIMEOUT = 60.0
RETRIES = 5
CONCURRENCY = 4
CONNECT_TIMEOUT = 5.0
"""Seconds that a connection may take; then it is tried again."""


class Base(ABC):
    """`url`: the server. `timeout`: seconds that a call may take, waits and retries included. `retries`: how often a
    busy or absent server is asked again. `key`: for a server that wants one. `concurrency`: parts of a batch that are
    under way at once. `options` are those of httpx's clients: `headers`, `verify`, `proxy`, ...
    """

    def __init__(
        self,
        url: str = URL,
        *,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        key: str | None = None,
        concurrency: int = CONCURRENCY,
        **options: Any,
    ) -> None:
        if "://" not in url:
            url = f"http://{url}"
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ValueError(f"{url!r} is no URL: {error}") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"{url!r} is no server's URL, such as {URL}")
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        self.url = url.rstrip("/")
        self._calls = Calls(self.url, timeout, Retries(retries))
        self._concurrency = concurrency
        # No proxy reaches the loopback interface of this machine.
        loopback = parsed.host in ("localhost", "::1") or parsed.host.startswith("127.")
        self._key = {} if key is None else {"authorization": f"Bearer {key}"}
        self._open({"base_url": self.url, "trust_env": not loopback} | options)

    @abstractmethod
    def _open(self, options: dict[str, Any]) -> None:
        """Make httpx's client."""

    def _request(self, http: httpx.Client | httpx.AsyncClient, send: Send) -> httpx.Request:
        return http.build_request(
            send.request.method,
            send.request.path,
            content=send.request.body,
            headers=self._key | ({} if send.request.body is None else {"content-type": "application/json"}),
            timeout=httpx.Timeout(send.timeout, connect=min(CONNECT_TIMEOUT, send.timeout)),
        )

    def _failed(self, error: httpx.RequestError, answered: bool) -> Exception:
        """What a failure of the transport is to a flow; `answered`: part of an answer had come."""
        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
            return late()
        reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
        failed = ConnectionFailed(f"no answer from {self.url}: {reason}", code="connection_failed")
        return Unanswered(failed) if isinstance(error, httpx.TransportError) and not answered else failed
