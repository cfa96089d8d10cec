"""A client of a clueserve server: `Client`, `AsyncClient`, typed answers and errors. And `clueserve`, the command.

Needs httpx and nothing else, and that only once a client is made: commands that ask no server do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clueserve.answers import (
    Answer,
    Choice,
    Classification,
    Cloze,
    DialogueState,
    DocumentClasses,
    Entities,
    QuestionAnswer,
    Terms,
    Tree,
    Triples,
)
from clueserve.errors import (
    BadRequest,
    ClueserveError,
    ConnectionFailed,
    DeadlineExceeded,
    NotAllowed,
    NotReady,
    Overloaded,
    ServerFault,
    UnknownModel,
)
from clueserve.models import Limits, Model

if TYPE_CHECKING:
    from clueserve.aio import AsyncClient
    from clueserve.client import Client

__all__ = [
    "Answer",
    "AsyncClient",
    "BadRequest",
    "Choice",
    "Classification",
    "Client",
    "Cloze",
    "ClueserveError",
    "ConnectionFailed",
    "DeadlineExceeded",
    "DialogueState",
    "DocumentClasses",
    "Entities",
    "Limits",
    "Model",
    "NotAllowed",
    "NotReady",
    "Overloaded",
    "QuestionAnswer",
    "ServerFault",
    "Terms",
    "Tree",
    "Triples",
    "UnknownModel",
]


def __getattr__(name: str) -> Any:
    if name == "Client":
        from clueserve.client import Client

        return Client
    if name == "AsyncClient":
        from clueserve.aio import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
