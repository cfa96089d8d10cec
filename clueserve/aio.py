"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import httpx

from clueserve.answers import Answer
from clueserve.base import Base
from clueserve.calls import Outcome
from clueserve.models import Model
from clueserve.steps import Flow, Reply, Send, Sleep, Step, Together, late

T = TypeVar("T")


class AsyncClient(Base):
    """As `Client`, for asyncio."""

    def _open(self, options: dict[str, Any]) -> None:
        self._http = httpx.AsyncClient(**options)

    async def models(self, *, timeout: float | None = None) -> list[Model]:
        """What is served."""
        return await self._run(self._calls.models(timeout))

    async def ask(self, model: str, /, *, timeout: float | None = None, **item: Any) -> Answer:
        """The answer to one item, given by its fields. ClueserveError if there is none."""
        return await self._run(self._calls.ask(model, item, timeout))

    async def batch(
        self, model: str, items: Sequence[Mapping[str, Any]], /, *, timeout: float | None = None
    ) -> list[Outcome]:
        """For each item, in order, its answer or the error that is its own. Raises if none could be asked."""
        return await self._run(self._calls.batch(model, items, timeout))

    @overload
    async def parse(
        self, text: str, tasks: Sequence[str], /, *, timeout: float | None = None, **options: Any
    ) -> dict[str, Outcome]: ...

    @overload
    async def parse(
        self, text: Sequence[str], tasks: Sequence[str], /, *, timeout: float | None = None, **options: Any
    ) -> dict[str, list[Outcome]]: ...

    async def parse(
        self, text: str | Sequence[str], tasks: Sequence[str], /, *, timeout: float | None = None, **options: Any
    ) -> dict[str, Any]:
        """By task, the answer (or error) for the text; for several texts, the list of theirs in order."""
        return await self._run(self._calls.parse(text, tasks, options, timeout))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, flow: Flow[T]) -> T:
        """Do what a flow wants until it returns."""
        try:
            step = next(flow)
            while True:
                try:
                    result = await self._do(step)
                except Exception as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as done:
            value: T = done.value
            return value

    async def _do(self, step: Step) -> Any:
        match step:
            case Send():
                return await self._send(step)
            case Sleep(seconds):
                return await asyncio.sleep(seconds)
            case Together(flows):
                return await self._together(flows)

    async def _together(self, flows: Sequence[Flow[Any]]) -> list[Any]:
        turn = asyncio.Semaphore(self._concurrency)

        async def run(flow: Flow[Any]) -> Any:
            async with turn:
                return await self._run(flow)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(run(flow)) for flow in flows]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _send(self, send: Send) -> Reply:
        response: httpx.Response | None = None
        try:
            async with asyncio.timeout(send.timeout):
                response = await self._http.send(self._request(self._http, send), stream=True)
                body = await response.aread()
                return Reply(response.status_code, response.headers, body)
        except TimeoutError:
            raise late() from None
        except httpx.RequestError as error:
            raise self._failed(error, response is not None) from error
        finally:
            if response is not None:
                await response.aclose()
