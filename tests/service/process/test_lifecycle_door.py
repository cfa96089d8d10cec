"""Closing the door: whoever is in is taken in, and nothing that fails there keeps a worker from ending."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kit import no_files

from service.process.board import Board
from service.process.door import taken_in
from service.process.lifecycle import Lifecycle


def test_who_gave_up_meanwhile_does_not_hide_who_waits_behind() -> None:
    answers: list[Any] = [("one", 0), ConnectionAbortedError(errno.ECONNABORTED, "gone"), ("two", 0), BlockingIOError()]

    def accept() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    door: Any = SimpleNamespace(setsockopt=lambda *_: None, accept=accept)
    assert cast(Any, asyncio.run(taken_in(door))) == ["one", "two"]


def test_a_door_is_closed_without_a_free_descriptor(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    board = Board(tmp_path)
    board.end()
    lifecycle = Lifecycle(cast(Any, None))

    async def run() -> bool:
        lifecycle._board, lifecycle._loop = board, asyncio.get_running_loop()
        listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        (listening,) = listener.sockets
        with socket.create_connection(listening.getsockname(), 5), no_files():
            await lifecycle._close_door(cast(Any, SimpleNamespace(servers=[listener])))
        return listener.is_serving()

    with caplog.at_level(logging.WARNING, logger="bentoml.clueserve"):
        assert not asyncio.run(run())
    assert "not accepted" in caplog.text
