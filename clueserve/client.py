"""The client for programs that wait: steps are done by threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import httpx

from clueserve.answers import Answer
from clueserve.base import Base
from clueserve.calls import Outcome
from clueserve.models import Model
from clueserve.steps import Flow, Reply, Send, Sleep, Step, Together, late

T = TypeVar("T")


class Client(Base):
    """A client of one server, to be used by any number of threads at once. Settings: see `Base`."""

    def _open(self, options: dict[str, Any]) -> None:
        self._http = httpx.Client(**options)

    def models(self, *, timeout: float | None = None) -> list[Model]:
        """What is served."""
        return self._run(self._calls.models(timeout))

    def ask(self, model: str, /, *, timeout: float | None = None, **item: Any) -> Answer:
        """The answer to one item, given by its fields. ClueserveError if there is none."""
        return self._run(self._calls.ask(model, item, timeout))

    def batch(
        self, model: str, items: Sequence[Mapping[str, Any]], /, *, timeout: float | None = None
    ) -> list[Outcome]:
        """For each item, in order, its answer or the error that is its own. Raises if none could be asked."""
        return self._run(self._calls.batch(model, items, timeout))

    @overload
    def parse(
        self, text: str, tasks: Sequence[str], /, *, timeout: float | None = None, **options: Any
    ) -> dict[str, Outcome]: ...

    @overload
    def parse(
        self, text: Sequence[str], tasks: Sequence[str], /, *, timeout: float | None = None, **options: Any
    ) -> dict[str, list[Outcome]]: ...

    def parse(
        self, text: str | Sequence[str], tasks: Sequence[str], /, *, timeout: float | None = None, **options: Any
    ) -> dict[str, Any]:
        """By task, the answer (or error) for the text; for several texts, the list of theirs in order."""
        return self._run(self._calls.parse(text, tasks, options, timeout))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run(self, flow: Flow[T]) -> T:
        """Do what a flow wants until it returns."""
        try:
            step = next(flow)
            while True:
                try:
                    result = self._do(step)
                except Exception as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as done:
            value: T = done.value
            return value

    def _do(self, step: Step) -> Any:
        match step:
            case Send():
                return self._send(step)
            case Sleep(seconds):
                return sleep(seconds)
            case Together(flows):
                if len(flows) < 2:
                    return [self._run(flow) for flow in flows]
                with ThreadPoolExecutor(min(self._concurrency, len(flows)), "clueserve") as pool:
                    return list(pool.map(self._run, flows))

    def _send(self, send: Send) -> Reply:
        until = monotonic() + send.timeout
        response: httpx.Response | None = None
        try:
            response = self._http.send(self._request(self._http, send), stream=True)
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if monotonic() > until:  # httpx only limits the time of each read
                    raise late()
            return Reply(response.status_code, response.headers, bytes(body))
        except httpx.RequestError as error:
            raise self._failed(error, response is not None) from error
        finally:
            if response is not None:
                response.close()
