"""What a server says of itself: its models and its limits."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from clueserve.answers import build
from clueserve.errors import UnknownModel


@dataclass(frozen=True)
class Limits:
    """Most items of a batch, bytes of a request's body, characters of a text."""

    max_batch_items: int
    max_body_bytes: int
    max_text_chars: int


@dataclass(frozen=True)
class Model:
    """One model; `example` is a request that it answers, `raw` all that the server says of it."""

    name: str
    ready: bool
    family: str
    suite: str
    language: str
    labels: list[str]
    max_length: int
    precision: str
    example: dict[str, Any] = field(repr=False)
    raw: dict[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Catalogue:
    """The models of a server by name, and its limits."""

    models: dict[str, Model]
    limits: Limits

    def __getitem__(self, name: str) -> Model:
        """UnknownModel, with close names, if there is none."""
        if name not in self.models:
            raise unknown(name, self.models)
        return self.models[name]


def catalogue(body: Any) -> Catalogue:
    """The answer of `GET /v1/models`; KeyError or TypeError if it is of another shape."""
    models = [build(Model, {**entry, "raw": entry}) for entry in body["models"]]
    return Catalogue({model.name: model for model in models}, build(Limits, body["limits"]))


def unknown(name: str, names: Iterable[str]) -> UnknownModel:
    close = difflib.get_close_matches(name, names, 3, 0.5)
    hint = f"; did you mean {' or '.join(close)}?" if close else f"; there are {', '.join(sorted(names)) or 'none'}"
    return UnknownModel(f"the server has no model {name!r}{hint}", code="not_found", status=404)
