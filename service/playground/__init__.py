"""The playground at `/`: a static page that makes itself from `GET /v1/models` and asks the native endpoints.

Its files are read and compressed once, at start. All but the page itself lie under a folder named by their content, so
that browsers keep them for good and never mix those of two versions.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.responses import Response

from service.edge.http import Asked, Endpoint

STATIC = Path(__file__).parent / "static"
PAGE = "index.html"
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# A browser obeys them on the page: scripts and styles are files of this server, texts never become markup, and nothing
# is sent anywhere else.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class File:
    """One file as it is sent."""

    content: bytes
    packed: bytes
    media: str
    cache: str

    @property
    def tag(self) -> str:
        return f'"{_digest(self.content)}"'

    async def answer(self, asked: Asked) -> Response:
        headers = {**HEADERS, "Cache-Control": self.cache, "ETag": self.tag}
        known = (asked.header("if-none-match") or "").split(",")
        if self.tag in (tag.strip().removeprefix("W/") for tag in known):
            return Response(status_code=304, headers=headers)
        content = self.content
        if _takes_gzip(asked.header("accept-encoding") or ""):
            headers["Content-Encoding"] = "gzip"
            headers["ETag"] = f"W/{self.tag}"  # equal in meaning, other bytes
            content = self.packed
        return Response(content, media_type=self.media, headers=headers)


def routes() -> dict[str, dict[str, Endpoint]]:
    """`/` and every file of the page."""
    return {path: {"GET": Endpoint(file.answer)} for path, file in files(STATIC).items()}


def files(folder: Path) -> dict[str, File]:
    """Path -> file. References to `/assets/` in the page are led to the folder of this content."""
    assets = {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.suffix in MEDIA}
    page = assets.pop(PAGE)
    version = _digest(b"\0".join(part for name, content in assets.items() for part in (name.encode(), content)))
    found = {
        f"/assets/{version}/{name}": _file(content, Path(name).suffix, "public, max-age=31536000, immutable")
        for name, content in assets.items()
    }
    page = page.replace(b'"/assets/', f'"/assets/{version}/'.encode())
    return {"/": _file(page, ".html", "no-cache"), **found}


def _file(content: bytes, suffix: str, cache: str) -> File:
    return File(content, gzip.compress(content, mtime=0), MEDIA[suffix], cache)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _takes_gzip(accepted: str) -> bool:
    for one in accepted.lower().split(","):
        coding, _, weight = one.partition(";")
        if coding.strip() in {"gzip", "*"}:
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
