"""What a call does, step by step, without doing it: flows yield the I/O that they want, and a client performs it.

So that the sync and the async client differ in nothing but how they send, sleep and do several things at once.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any, TypeVar

from clueserve.errors import BadRequest, ClueserveError, DeadlineExceeded, of_response

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: bytes | None = None


@dataclass(frozen=True)
class Reply:
    """A whole response; names of headers in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """None if the body is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True)
class Send:
    """Send and return the Reply within so many seconds. Raises Unanswered, ConnectionFailed or DeadlineExceeded."""

    request: Request
    timeout: float


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Together:
    """Run flows, a bounded number at once; returns what they return, in order."""

    flows: Sequence[Flow[Any]]


Step = Send | Sleep | Together
Flow = Generator[Step, Any, T]


class Unanswered(Exception):
    """The connection ended before a byte of an answer: asking again does no harm. `error` is what a caller is told."""

    def __init__(self, error: ClueserveError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class Retries:
    """How often and when to ask again: exponential backoff with jitter, never before the server's `Retry-After`."""

    most: int
    first: float = 0.1
    longest: float = 10.0
    draw: Callable[[], float] = random.random

    def pause(self, attempt: int, retry_after: float | None = None) -> float:
        backoff: float = min(self.longest, self.first * 2**attempt)
        # Those who were refused together shall not come back together.
        if retry_after is not None:
            return retry_after + min(1.0, backoff) * self.draw()
        return backoff * (0.5 + 0.5 * self.draw())


def exchange(request: Request, url: str, retries: Retries, until: float) -> Flow[Reply]:
    """The answer to a request, asked again where the server was only busy or away, until `until` (monotonic)."""
    attempt = 0
    while True:
        left = until - monotonic()
        if left <= 0:
            raise late()
        wanted: float | None = None
        try:
            reply: Reply = yield Send(request, left)
        except Unanswered as unanswered:
            failure = unanswered.error
        else:
            if reply.status not in (429, 503):
                return reply
            failure = of_response(reply.status, reply.json(), url)
            wanted = seconds(reply.headers.get("retry-after"))
        pause = retries.pause(attempt, wanted)
        if attempt >= retries.most or monotonic() + pause >= until:
            raise failure
        yield Sleep(pause)
        attempt += 1


def late() -> DeadlineExceeded:
    return DeadlineExceeded("no answer within the client's timeout", code="client_timeout")


def seconds(retry_after: str | None) -> float | None:
    """`Retry-After`, which is seconds or a date; None if it is neither."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def encode(value: Any) -> bytes:
    """JSON; BadRequest for what JSON cannot say: NaN, half a surrogate pair."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:
        reason = "half a surrogate pair" if isinstance(error, UnicodeEncodeError) else str(error)
        raise BadRequest(f"cannot be written as JSON: {reason}", code="invalid_json") from None
