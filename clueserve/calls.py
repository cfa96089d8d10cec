"""What a client can ask, as flows: which requests, and what their answers mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from clueserve.answers import Answer, Timing, answer
from clueserve.batches import Call, Row, Spread
from clueserve.errors import BadRequest, ClueserveError, ServerFault, of_item, of_response
from clueserve.models import Catalogue, Model, catalogue, unknown
from clueserve.steps import Flow, Reply, Request, Retries, encode, exchange

Outcome = Answer | ClueserveError
"""What becomes of an item among others: its answer, or the error that is its own."""


class Calls:
    """The calls to one server. What it says of itself is asked once, and again for a name that is not known."""

    def __init__(self, url: str, timeout: float, retries: Retries) -> None:
        self.url = url
        self.timeout = timeout
        self.retries = retries
        self._known: Catalogue | None = None

    def models(self, timeout: float | None) -> Flow[list[Model]]:
        known = yield from self._catalogue(self._until(timeout))
        return list(known.models.values())

    def ask(self, name: str, item: Mapping[str, Any], timeout: float | None) -> Flow[Answer]:
        until = self._until(timeout)
        known = yield from self._holding([name], until)
        path = f"/{name}"
        reply = yield from exchange(Request("POST", path, encode(item)), self.url, self.retries, until)
        body = reply.json()
        if reply.status != 200:
            self._known = None if reply.status == 404 else self._known
            raise of_response(reply.status, body, self.url + path)
        return self._read(known[name], body, _timing(reply))

    def batch(self, name: str, items: Sequence[Mapping[str, Any]], timeout: float | None) -> Flow[list[Outcome]]:
        until = self._until(timeout)
        known = yield from self._holding([name], until)
        call = Call(f"/{name}/batch", b'{"items":[', [name], keyed=False)
        paths = [f"items.{i}" for i in range(len(items))]
        rows = yield from self._rows(call, items, known, paths, until)
        return [self._outcome(known[name], row, path) for row, path in zip(rows, paths, strict=True)]

    def parse(
        self, text: str | Sequence[str], tasks: Sequence[str], options: Mapping[str, Any], timeout: float | None
    ) -> Flow[dict[str, Any]]:
        """By task, the outcome of the text or, of several texts, the list of theirs."""
        until = self._until(timeout)
        if isinstance(tasks, str) or not tasks:
            raise BadRequest("name the tasks in a list", code="invalid_value", field="tasks")
        known = yield from self._holding(tasks, until)
        call = Call("/parse", b'{"text":[', tasks, keyed=True, options=options)
        texts = [text] if isinstance(text, str) else text
        paths = ["text"] if isinstance(text, str) else [f"text.{i}" for i in range(len(texts))]
        rows = yield from self._rows(call, texts, known, paths, until)
        columns = {
            name: [self._outcome(known[name], row, path) for row, path in zip(rows, paths, strict=True)]
            for name in tasks
        }
        return {name: column[0] for name, column in columns.items()} if isinstance(text, str) else dict(columns)

    def _rows(
        self, call: Call, values: Sequence[Any], known: Catalogue, paths: Sequence[str], until: float
    ) -> Flow[list[Row]]:
        """A row for each value, in order."""
        rows: dict[int, Row] = {}
        parts: dict[int, bytes] = {}
        for i, value in enumerate(values):
            try:
                parts[i] = encode(value)
            except BadRequest as error:
                error.field = paths[i]
                rows[i] = dict.fromkeys(call.tasks, error)
        spread = Spread(call, known.limits, self.url, self.retries, until)
        rows |= zip(parts, (yield from spread.rows(list(parts.values()))), strict=True)
        return [rows[i] for i in range(len(values))]

    def _until(self, timeout: float | None) -> float:
        return monotonic() + (self.timeout if timeout is None else timeout)

    def _holding(self, names: Sequence[str], until: float) -> Flow[Catalogue]:
        """The catalogue with models of these names; UnknownModel."""
        known = self._known
        if known is None or not all(name in known.models for name in names):
            known = yield from self._catalogue(until)
        for name in names:
            if name not in known.models:
                raise unknown(name, known.models)
        return known

    def _catalogue(self, until: float) -> Flow[Catalogue]:
        path = "/v1/models"
        reply = yield from exchange(Request("GET", path), self.url, self.retries, until)
        body = reply.json()
        if reply.status != 200:
            raise of_response(reply.status, body, self.url + path)
        try:
            self._known = catalogue(body)
        except (KeyError, TypeError, AttributeError):
            raise ServerFault(
                f"{self.url}{path} answered what no clueserve server does", code="not_clueserve", status=200
            ) from None
        return self._known

    def _outcome(self, model: Model, row: Row, path: str) -> Outcome:
        cell = row[model.name]
        if isinstance(cell, ClueserveError):
            return cell
        if "error" not in cell:
            return self._read(model, cell)
        # The server counts from the start of its part of the items.
        rest = cell["error"].get("field", "").split(".")[2:]
        return of_item(cell["error"], ".".join([path, *rest]))

    def _read(self, model: Model, raw: Any, timing: Timing | None = None) -> Answer:
        try:
            return answer(model.family, raw, timing)
        except (KeyError, TypeError):
            # Another model may stand behind this name by now.
            self._known = None
            raise ServerFault(
                f"{self.url}/{model.name} answered what no {model.family} model does; ask again",
                code="not_clueserve",
                status=200,
            ) from None


def _timing(reply: Reply) -> Timing | None:
    h = reply.headers
    try:
        return Timing(
            float(h["x-queue-ms"]), float(h["x-tokenize-ms"]), float(h["x-inference-ms"]), int(h["x-batch-rows"])
        )
    except (KeyError, ValueError):
        return None
