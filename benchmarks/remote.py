"""A running server as a predictor: batches over HTTP, asked again where the server was only busy."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import to_json

from benchmarks.predictors import Outcome, PredictorError
from service.bundle import Score

BUSY = ("overloaded", "not_ready")
"""Codes of a refusal that is none of the request's fault."""
PATIENCE = 300.0
"""Seconds that a server may stay busy, and that one answer may take."""
PAUSE, LONGEST_PAUSE = 0.5, 10.0


class OverHttp:
    """`http://host:port/name`: one model of a running server. PredictorError if there is none."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not parts.path.strip("/"):
            raise PredictorError(f"{url!r} is no model's URL, such as http://127.0.0.1:3000/klue-ner")
        self.url = url.rstrip("/")
        root, _, self.name = self.url.rpartition("/")
        entry = next((m for m in models(root) if m["name"] == self.name), None)
        if entry is None:
            raise PredictorError(f"{url}: the server has no model {self.name!r}")
        self.suite: str = entry["suite"]
        self.scores: Sequence[Score] = [Score.model_validate(score) for score in entry["scores"]]
        self.sha256: str | None = None

    def ask(self, items: Sequence[dict[str, Any]]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        waiting = list(range(len(items)))
        pause, since = PAUSE, monotonic()
        while waiting:
            status, headers, body = _exchange(
                "POST", f"{self.url}/batch", to_json({"items": [items[i] for i in waiting]})
            )
            if status == 200:
                answered = dict(zip(waiting, map(_outcome, body["results"], range(len(waiting))), strict=True))
                waiting = [i for i, outcome in answered.items() if outcome.error and outcome.error["code"] in BUSY]
                outcomes |= answered  # that of a waiting one is replaced later
                if len(waiting) < len(answered):
                    pause, since = PAUSE, monotonic()
            elif status in (413, 422):
                outcomes |= zip(waiting, self._smaller([items[i] for i in waiting], body), strict=True)
                waiting = []
            elif status not in (429, 503):
                raise PredictorError(f"{self.url}: answered {status}: {json.dumps(body)[:500]}")
            if waiting:
                if monotonic() - since > PATIENCE:
                    raise PredictorError(f"{self.url}: busy for more than {PATIENCE:.0f} s")
                wanted = headers.get("retry-after", "")
                sleep(float(wanted) if wanted.isdecimal() else pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        return [outcomes[i] for i in range(len(items))]

    def _smaller(self, items: Sequence[dict[str, Any]], refusal: Any) -> list[Outcome]:
        """Outcomes of a batch that is too large for this server, in bytes or in items: asked for in halves."""
        if len(items) == 1:
            return [Outcome(error=refusal["error"])]
        half = len(items) // 2
        return [*self.ask(items[:half]), *self.ask(items[half:])]


def models(root: str) -> list[dict[str, Any]]:
    """What a server at `http://host:port` lists: name, suite and scores of each model among others."""
    status, _, body = _exchange("GET", f"{root}/v1/models")
    if status != 200:
        raise PredictorError(f"{root}/v1/models: answered {status}")
    found: list[dict[str, Any]] = body["models"]
    return found


def _exchange(method: str, url: str, body: bytes | None = None) -> tuple[int, Mapping[str, str], Any]:
    """Status, headers with small names, JSON body. A connection each: beside a batch it costs nothing."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=PATIENCE)
    try:
        connection.request(method, parts.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise PredictorError(f"{url}: no answer: {error or type(error).__name__}") from error
    finally:
        connection.close()
    try:
        return response.status, {k.lower(): v for k, v in response.getheaders()}, json.loads(content)
    except ValueError:
        raise PredictorError(f"{url}: answered {response.status}, and not in JSON") from None


def _outcome(result: dict[str, Any], at: int) -> Outcome:
    """One result of a batch; an error's path is that within the item."""
    error = result.get("error")
    if error is None:
        return Outcome(result)
    field = error["field"].removeprefix(f"items.{at}").removeprefix(".")
    return Outcome(error={k: v for k, v in error.items() if k != "field"} | ({"field": field} if field else {}))
