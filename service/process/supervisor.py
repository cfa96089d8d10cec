"""In the process that starts the workers: ends hung ones, replaces lost ones, and keeps to the grace period.

BentoML's arbiter looks after its workers every ten seconds, would wait for them for a day, replaces none of them in a
container, and keeps the listening socket open until the last is gone, so that clients would wait before a closed door.
"""

from __future__ import annotations

import logging
import os
import resource
import shutil
import signal
import threading
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

import psutil
from bentoml._internal.utils import circus as arbiters
from circus.exc import ConflictError

from service.process.board import Board

log = logging.getLogger("bentoml.clueserve")

# Seconds between two looks at the workers.
PERIOD = 1.0


def supervise(board: Board, grace: float, patience: float) -> None:
    """Look after the workers of the arbiter that this process is about to start.

    `grace`: seconds in which a worker ends when it is asked to. `patience`: seconds without a sign of life, or within
    one model run, after which a worker is taken for hung.
    """
    start = arbiters.Arbiter.start

    def started(self: Any, *arguments: Any, **options: Any) -> None:
        arbiters.Arbiter.start = start
        prepare(self, board, grace)
        threading.Thread(target=watch, args=(board, patience), name="supervisor", daemon=True).start()
        try:
            start(self, *arguments, **options)  # until the end
        finally:
            shutil.rmtree(board.folder, ignore_errors=True)

    arbiters.Arbiter.start = started


def prepare(arbiter: Any, board: Board, grace: float) -> None:
    arbiter.ctrl.check_delay = PERIOD * 1000
    for watcher in arbiter.watchers:
        watcher.graceful_timeout = grace
        watcher.respawn = True
    stop = arbiter.stop

    def stop_soon() -> Any:
        # Workers still accept; when the last one stops, connections are refused instead of left waiting.
        board.end()
        arbiter.sockets.close_all()
        try:
            return stop()
        except ConflictError:  # it is starting a worker just now
            arbiter.loop.call_later(0.05, stop_soon)
            return None

    arbiter.stop = stop_soon


def watch(board: Board, patience: float) -> None:
    last = monotonic()
    while board.folder.exists():
        sleep(PERIOD)
        now = monotonic()
        try:
            board.keep()
            # If this process stood still as well, the workers' silence says nothing.
            if now - last < 3 * PERIOD:
                look(board, patience, now)
        except OSError:
            if board.folder.exists():  # else all is over
                log.exception("the workers could not be looked after")
        last = now


def allow_files(connections: int) -> None:
    """Let this process, and those that it starts, open as many files as the machine allows; warn if that is too few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS has a lower limit of its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most <= connections:
        log.warning(
            "a process may have %d files open, but NLU_MAX_CONNECTIONS is %d: raise `ulimit -n`", most, connections
        )


def look(board: Board, patience: float, now: float) -> None:
    """End the workers that hang and declare lost those that are gone."""
    for pid, pulse in board.pulses().items():
        silent, running = now - pulse.beat, now - (pulse.running or now)
        if not alive(pid):
            log.error("worker %d is gone; another is started", pid)
            board.lose(pid, "crashed")
        elif max(silent, running) > patience:
            why = f"a model run has taken {running:.0f} s" if running > patience else f"silent for {silent:.0f} s"
            log.error("worker %d hangs (%s) and is replaced", pid, why)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            board.lose(pid, "hung")


def alive(pid: int) -> bool:
    """Whether this process has a child of that number which runs."""
    try:
        process = psutil.Process(pid)
        return process.ppid() == os.getpid() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
