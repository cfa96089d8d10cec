"""For browsers, which send no key of their own: a page at `/` that asks for one and keeps it in a cookie.

The cookie is out of reach of scripts, is never sent from another site, and is gone with the browser's session. It is
worth what the key is worth, except where something is administered: `guard` wants a header there.
"""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from service.access import Keys
from service.edge.http import Asked, Endpoint
from service.errors import Unauthorized

PATH = "/v1/session"
COOKIE = "clueserve_key"
OWN = frozenset({b"same-origin", b"none"})
"""What browsers write into `Sec-Fetch-Site` if no other site is behind a request."""
LONGEST = 1024
"""Bytes of a form: a key fits in many times, and nobody makes us read a megabyte of fields."""
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; display: grid; place-items: center; min-height: 90vh; margin: 0 1rem;
  color-scheme: light dark; }
form { width: min(24rem, 100%); display: grid; gap: .6rem; }
input, button { font: inherit; padding: .5rem .7rem; }
"""
PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>clueserve</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head><body>
<form method="post" action="{path}">
<h1>clueserve</h1>
<label for="key">This server wants a key.</label>
<input name="user" value="clueserve" autocomplete="username" hidden>
<input id="key" name="key" type="password" autocomplete="current-password" required autofocus>
{note}<button>Go on</button>
</form></body></html>
"""
WRONG = '<p role="alert">That is no key of this server, or its time is over.</p>\n'
HEADERS = {
    "WWW-Authenticate": "Bearer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def page(note: str = "") -> Response:
    return HTMLResponse(PAGE.format(style=STYLE, path=PATH, note=note), 401, HEADERS)


def shown(scope: Scope) -> bool:
    """Whether somebody looks at the start page in a browser."""
    accepted = (value for name, value in scope["headers"] if name == b"accept")
    return scope["path"] == "/" and any(b"text/html" in value for value in accepted)


def read(cookies: bytes) -> bytes:
    """The key among a request's cookies, if it is there."""
    for part in cookies.split(b";"):
        name, _, value = part.strip().partition(b"=")
        if name == COOKIE.encode():
            return value
    return b""


def over_tls(asked: Asked) -> bool:
    """Whether a browser asked by TLS: it names its page, and a proxy what it was asked by, the first one first."""
    proxies = (asked.header("x-forwarded-proto") or "").partition(",")[0].strip().lower()
    return proxies == "https" or (asked.header("origin") or "").startswith("https://")


def routes(keys: Keys) -> dict[str, dict[str, Endpoint]]:
    async def handle(asked: Asked) -> Response:
        # Another site would sign a visitor in with a key of its own.
        if asked.headers.get(b"sec-fetch-site", b"none") not in OWN:
            return page()
        if len(asked.body) > LONGEST:
            return page(WRONG)
        given = parse_qs(asked.body.decode("latin-1")).get("key", [""])[0].strip()
        try:
            keys.find(given)
        except Unauthorized:
            return page(WRONG)
        response = RedirectResponse("/", 303, {"Cache-Control": "no-store"})
        response.set_cookie(COOKIE, given, httponly=True, samesite="strict", secure=over_tls(asked))
        return response

    return {PATH: {"POST": Endpoint(handle, (b"application/x-www-form-urlencoded",))}}
