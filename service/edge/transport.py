"""What a connection writes: in as few pieces as can be, and to clients that read it."""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios
from typing import Any

# Bytes that a client takes of an answer while our patience lasts: slower than any modem, but not for ever.
LEAST = 64 * 1024


class Together:
    """A transport that sends at once what is written in one turn of the event loop.

    A head and its body are then one call of the kernel and wake their reader once. Of what is too much for the kernel,
    and of what is left when it is closed, the client takes `LEAST` bytes every `patience` seconds, or is given up.
    """

    __slots__ = ("_loop", "_parts", "_patience", "_transport", "_watch")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._transport = transport
        self._loop = loop
        self._patience = patience
        self._parts: list[bytes] = []
        self._watch: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()
        self.insist()

    def insist(self) -> None:
        """From now on the client has to read."""
        self.relax()
        if self._transport.get_write_buffer_size():
            self._watch = self._loop.call_later(self._patience, self._look, self._left())

    def relax(self) -> None:
        """It has read."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _look(self, before: int) -> None:
        if before - self._left() < min(LEAST, before):
            self._transport.abort()
        else:
            self.insist()

    def _left(self) -> int:
        """Bytes that the client has not taken: the kernel's too, which asks for more only once a third of them is."""
        held = fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
        return self._transport.get_write_buffer_size() + int.from_bytes(held, sys.byteorder)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + sum(map(len, self._parts))

    def _flush(self) -> None:
        if self._parts and not self._transport.is_closing():
            self._transport.write(b"".join(self._parts))
        self._parts = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
