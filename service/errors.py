"""Every error of the service, and the HTTP status it becomes.

ServiceError
├── InvalidRequest           400  the body is not the JSON that was asked for
│   ├── UnsupportedMedia     415
│   └── TooLarge             413
├── Unauthorized             401  no key, or none that is valid now
├── Forbidden                403  the key may not do this
├── NotFound                 404
├── MethodNotAllowed         405
├── RequestTimeout           408  the request itself did not come in time
├── Conflict                 409  another change of what is served is under way
├── InvalidItem              422  an item that the task cannot answer; `field` is the path to the culprit
├── Overloaded               429  predicted wait too long; carries `retry_after`
│   └── RateLimited          429  the key's own rate
├── HeadTooLarge             431  the request's head is too large
├── ClientLeft               499  nobody is there to read it
├── InternalError            500  a fault of ours; the cause is logged, never sent
├── NotReady                 503  still loading, failed to load, or draining
└── DeadlineExceeded         504  the caller's time ran out

BundleError                  a bundle that must not be served (raised while loading, never for a request)
└── ConfigError              settings or a machine that cannot serve what was asked for
"""

from __future__ import annotations

import traceback
from typing import Any, ClassVar


class ServiceError(Exception):
    """An error with a place in the HTTP contract."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.reason = code or self.code

    def body(self) -> dict[str, Any]:
        """The `error` object of the response."""
        error: dict[str, Any] = {"code": self.reason, "message": self.message}
        if self.field is not None:
            error["field"] = self.field
        return error

    def headers(self) -> dict[str, str]:
        return {}


class InvalidRequest(ServiceError):
    status, code = 400, "invalid_json"


class UnsupportedMedia(InvalidRequest):
    status, code = 415, "unsupported_media_type"


class TooLarge(InvalidRequest):
    status, code = 413, "body_too_large"


class Unauthorized(ServiceError):
    status, code = 401, "unauthorized"

    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": "Bearer"}


class Forbidden(ServiceError):
    status, code = 403, "forbidden"


class NotFound(ServiceError):
    status, code = 404, "not_found"


class MethodNotAllowed(ServiceError):
    status, code = 405, "method_not_allowed"

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self.allow = allow

    def headers(self) -> dict[str, str]:
        return {"Allow": self.allow}


class RequestTimeout(ServiceError):
    status, code = 408, "request_timeout"

    def headers(self) -> dict[str, str]:
        return {"Connection": "close"}


class HeadTooLarge(ServiceError):
    status, code = 431, "head_too_large"


class Conflict(ServiceError):
    status, code = 409, "conflict"


class InvalidItem(ServiceError):
    status, code = 422, "invalid_item"


class Overloaded(ServiceError):
    status, code = 429, "overloaded"

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        return super().body() | {"retry_after": self.retry_after}  # an item of a batch has no headers

    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_after)}


class RateLimited(Overloaded):
    code = "rate_limited"


class ClientLeft(ServiceError):
    status, code = 499, "client_left"


class InternalError(ServiceError):
    """A fault of ours."""


class NotReady(ServiceError):
    """`close`: this server will not be ready on this connection."""

    status, code = 503, "not_ready"

    def __init__(self, message: str, *, code: str | None = None, close: bool = False) -> None:
        super().__init__(message, code=code)
        self.close = close

    def headers(self) -> dict[str, str]:
        return {"Retry-After": "1"} | ({"Connection": "close"} if self.close else {})


class DeadlineExceeded(ServiceError):
    status, code = 504, "deadline_exceeded"


class BundleError(Exception):
    """A bundle that must not be served."""


class ConfigError(BundleError):
    """Settings or a machine that cannot serve what was asked for."""


def without_message(error: BaseException) -> str:
    """Type and place of an error, for the log: its message may quote the caller's text."""
    return "".join([*traceback.format_tb(error.__traceback__), type(error).__name__])
