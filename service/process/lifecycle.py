"""A worker from its first sign of life to its last: connections with limits, a pulse, and an orderly end.

On SIGTERM: not ready at once, while all is answered for `drain_ms` on connections that close behind the answer; then
what is under way is finished and anything new refused; then nothing is accepted any more. Whatever still runs shortly
before `grace_ms` is over is turned away.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from time import monotonic
from typing import Any

import uvicorn

from service.edge.connection import Connection
from service.errors import ConfigError
from service.process.board import Board, Desired
from service.process.door import taken_in
from service.server import Server

log = logging.getLogger("bentoml.clueserve")

# Seconds between two beats, which are also looks at what is wanted.
PULSE = 0.25
# Seconds of the grace period that are kept for what comes after the last answer.
RESERVE = 1.0
# Seconds that an accepted connection has for its first request when nothing is accepted any more.
LINGER = 0.5
# Seconds for which an idle connection is kept: longer than proxies keep theirs, who would send into a closed one. What
# uvicorn does if it is told nothing is UNTOLD.
KEEP_ALIVE, UNTOLD = 75, 5
TICK = 0.02
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Lifecycle:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._pid = os.getpid()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending = False
        self._uvicorn: uvicorn.Server | None = None
        self._loop: asyncio.AbstractEventLoop
        self._board: Board

    def start(self) -> None:
        """Called on the event loop, before anything is accepted."""
        server = self._server
        if server.board is None:
            raise ConfigError("nobody looks after this process; start the service with `bentoml serve`")
        self._board = server.board
        self._loop = asyncio.get_running_loop()
        server.start()
        # Who has just made itself the one to hear of signals is the server that runs us; BentoML shows us no other way.
        owner = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        if isinstance(owner, uvicorn.Server):
            self._uvicorn = owner
            limits = {
                "gate": server.gate,
                "limit": server.settings.max_connections,
                "patience": server.settings.read_timeout_ms / 1000,
                "refused": staticmethod(server.refused),
            }
            owner.config.http_protocol_class = type("Connection", (Connection,), limits)
            if owner.config.timeout_keep_alive == UNTOLD:
                owner.config.timeout_keep_alive = KEEP_ALIVE
            for number in SIGNALS:
                signal.signal(number, lambda *_: self._loop.call_soon_threadsafe(self._end))
        self._spawn(self._live())

    async def settle(self) -> None:
        """Accept nothing before all is loaded, if there are others who serve meanwhile."""
        others = (status for pid, status in self._board.statuses().items() if pid != self._pid)
        if any(status.ready for status in others):
            while not self._server.seen and not self._ending:
                await asyncio.sleep(TICK)

    async def stop(self) -> None:
        """The last thing that happens."""
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()
        await asyncio.to_thread(self._server.close, RESERVE / 2)
        self._board.leave(self._pid)

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self) -> None:
        """Beat, become what is wanted, and tell how it went."""
        server, told, following = self._server, None, self._follow(self._board.desired())
        while True:
            try:
                self._beat()
                if following.done():
                    if error := following.exception():
                        log.error("what is wanted could not be followed", exc_info=error)
                    if told != server.status:
                        told = server.status
                        self._board.post(self._pid, told)
                    wanted = self._board.desired()
                    if wanted.revision != server.seen and not server.draining:
                        following = self._follow(wanted)
            except OSError:
                log.exception("the other processes hear nothing of this one")
            await asyncio.sleep(PULSE)

    def _beat(self) -> None:
        self._board.beat(self._pid, self._server.pool.busy_since())
        for cause in self._board.count_lost():
            self._server.telemetry.lost(cause)

    def _follow(self, wanted: Desired) -> asyncio.Task[None]:
        return asyncio.create_task(asyncio.to_thread(self._server.follow, wanted, self._loop))

    def _end(self) -> None:
        if not self._ending:
            self._ending = True
            self._spawn(self._drain())

    async def _drain(self) -> None:
        settings, gate, uv = self._server.settings, self._server.gate, self._uvicorn
        assert uv is not None
        end = monotonic() + settings.grace_ms / 1000 - RESERVE
        log.info("shutting down: not ready from now on")
        gate.draining = True
        for connection in self._connections():
            connection.leave()
        await asyncio.sleep(min(settings.drain_ms / 1000, end - monotonic()))
        gate.closed = True
        while gate.under_way and monotonic() < end:
            await asyncio.sleep(TICK)
        if gate.under_way:
            log.error("the grace period is over: %d requests are turned away", gate.under_way)
            gate.finish()
        try:
            await self._close_door(uv)
        except Exception:
            log.exception("who waits at the door is lost")  # but the end comes all the same
        until = monotonic() + LINGER
        while any(connection.unused for connection in self._connections()) and monotonic() < until:
            await asyncio.sleep(TICK)
        uv.config.timeout_graceful_shutdown = 0 if monotonic() > end else 1
        uv.handle_exit(signal.SIGTERM, None)

    def _connections(self) -> list[Connection]:
        state = self._uvicorn.server_state if self._uvicorn else None
        return [c for c in state.connections if isinstance(c, Connection)] if state else []

    async def _close_door(self, uv: uvicorn.Server) -> None:
        """Stop listening. The last worker of a server that ends first takes in whom the kernel has already let in."""
        last = self._board.ending and self._last_out()
        waiting: list[socket.socket] = []
        for listener in uv.servers:
            for listening in listener.sockets:
                door = socket.socket(fileno=listening.fileno())  # the same descriptor: none may be free
                try:
                    if last:
                        waiting += await taken_in(door)
                finally:
                    door.detach()
            listener.close()
        for connection in waiting:
            connection.setblocking(False)
            await self._loop.connect_accepted_socket(self._protocol(uv), connection, ssl=uv.config.ssl)

    def _last_out(self) -> bool:
        try:
            return self._board.last_out(self._pid)
        except OSError as error:  # all are about to end: better too early than never
            log.warning("whether other processes still accept is not known: %s", error)
            return True

    def _protocol(self, uv: uvicorn.Server) -> Any:
        make: Any = uv.config.http_protocol_class
        return lambda: make(config=uv.config, server_state=uv.server_state, app_state=uv.lifespan.state)
