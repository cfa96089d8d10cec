"""A misbehaving server, and callers who ask it by either client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from flaky_server import Caller, Flaky, flaky_server

from clueserve import AsyncClient, Client


@pytest.fixture
def flaky() -> Iterator[Flaky]:
    with flaky_server() as server:
        yield server


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, flaky: Flaky) -> Caller:
    """`call("ask", "news", text="a", settings={...})`: one call by a client of its own, sync and async."""

    def sync(method: str, *arguments: Any, settings: dict[str, Any] | None = None, **fields: Any) -> Any:
        with Client(**{"url": flaky.url} | (settings or {})) as client:
            return getattr(client, method)(*arguments, **fields)

    async def unsync(method: str, *arguments: Any, settings: dict[str, Any] | None = None, **fields: Any) -> Any:
        async with AsyncClient(**{"url": flaky.url} | (settings or {})) as client:
            return await getattr(client, method)(*arguments, **fields)

    if request.param == "sync":
        return sync
    return lambda *arguments, **fields: asyncio.run(unsync(*arguments, **fields))
