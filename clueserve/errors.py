"""Every error of the client. Each carries `code`, `message`, `field` and `status` as the server gave them.

ClueserveError
├── BadRequest        4xx       the request is at fault; `field` is the path to the culprit
│   ├── UnknownModel  404       the server has no such model
│   └── NotAllowed    401, 403  the server wants a key, or another one
├── Overloaded        429       and it stayed so for as long as the client was willing to wait
├── NotReady          503       likewise: loading, failed to load, or shutting down
├── DeadlineExceeded  504       the server's deadline or the client's passed
├── ServerFault       5xx       the server failed, or what answered is no clueserve server
└── ConnectionFailed            no answer came
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ClueserveError(Exception):
    """What every error here is. `status` and `field` are None where no answer, or no field, is at fault."""

    def __init__(self, message: str, *, code: str, field: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.field = field
        self.status = status

    def body(self) -> dict[str, str]:
        """As the server writes an error."""
        return {"code": self.code, "message": self.message} | ({"field": self.field} if self.field else {})

    def __str__(self) -> str:
        place = f"{self.field}: " if self.field else ""
        return f"{place}{self.message} ({self.code})"


class BadRequest(ClueserveError):
    pass


class UnknownModel(BadRequest):
    pass


class NotAllowed(BadRequest):
    pass


class Overloaded(ClueserveError):
    pass


class NotReady(ClueserveError):
    pass


class DeadlineExceeded(ClueserveError):
    pass


class ServerFault(ClueserveError):
    pass


class ConnectionFailed(ClueserveError):
    pass


BY_STATUS: Mapping[int, type[ClueserveError]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: UnknownModel,
    429: Overloaded,
    503: NotReady,
    504: DeadlineExceeded,
}
# An item of a batch fails without a status of its own.
STATUS_OF = {"overloaded": 429, "not_ready": 503, "deadline_exceeded": 504, "internal": 500}


def of_item(error: Mapping[str, Any], field: str | None) -> ClueserveError:
    """What an item's `{"code", "message", "field"}` is to its caller; `field` is the path in the caller's request."""
    status = STATUS_OF.get(error["code"], 422)
    return _kind(status)(error["message"], code=error["code"], field=field, status=status)


def of_response(status: int, body: Any, url: str) -> ClueserveError:
    """What a response that is no answer means; `body` is its JSON, or None if it is none."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or not {"code", "message"} <= error.keys():
        # A proxy on the way, or another server at this place.
        kind = BadRequest if status == 404 else _kind(status) if status >= 400 else ServerFault
        return kind(f"{url} answered {status}, not as a clueserve server does", code="not_clueserve", status=status)
    return _kind(status)(error["message"], code=error["code"], field=error.get("field"), status=status)


def _kind(status: int) -> type[ClueserveError]:
    return BY_STATUS.get(status, BadRequest if 400 <= status < 500 else ServerFault)
