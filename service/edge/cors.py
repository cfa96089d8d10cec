"""Pages of other sites that may ask: none, unless NLU_CORS_ORIGINS names them."""

from __future__ import annotations

import re
from typing import Any

ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")
# Headers that browsers keep from a script unless they are named.
EXPOSED = (
    "Inference-Header-Content-Length",
    "Retry-After",
    "WWW-Authenticate",
    "X-Batch-Rows",
    "X-Inference-Ms",
    "X-Inference-Time",
    "X-Model-Version",
    "X-Queue-Ms",
    "X-Queue-Time",
    "X-Request-Id",
    "X-Tokenization-Time",
    "X-Tokenize-Ms",
    "X-Total-Time",
)
SENT = (
    "Authorization",
    "Content-Type",
    "Inference-Header-Content-Length",
    "traceparent",
    "X-API-Key",
    "X-Request-Id",
)


def origins(text: str) -> list[str]:
    """Comma separated origins exactly as browsers write them; ValueError names one that is none."""
    found = [origin.strip() for origin in text.split(",") if origin.strip()]
    for origin in found:
        if not ORIGIN.fullmatch(origin):
            raise ValueError(
                f"{origin!r} is no origin: name each as a browser writes it, such as https://example.org or "
                "http://localhost:8080"
            )
    return found


def options(allowed: list[str]) -> dict[str, Any]:
    """For starlette's CORSMiddleware. Cookies never come along: a page of another site needs a key of its own."""
    return {
        "allow_origins": allowed,
        "allow_methods": ("GET", "POST"),
        "allow_headers": SENT,
        "expose_headers": EXPOSED,
        "allow_credentials": False,
    }
