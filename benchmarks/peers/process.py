"""A peer's server: started, found with every process it spawns, asked until it answers, and ended whole."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psutil

from benchmarks.peers.install import SetupError
from benchmarks.processes import Processes

MARK = "CLUESERVE_PEER"
"""Variable that every process of a server inherits: some leave their parents, and a tree would miss them."""
TRY_EVERY = 0.05


class Server(Processes):
    """A started server, all of its processes."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, port: int) -> None:
        self._process = process
        self._mark = mark
        self.url = f"http://127.0.0.1:{port}"
        super().__init__([])

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def tree(self) -> list[psutil.Process]:
        """Those with the mark, and their children: a process that renames itself may overwrite its variables."""
        found = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == self._mark:
                    found[process.pid] = process
        for process in list(found.values()):
            with suppress(psutil.Error):
                found |= {child.pid: child for child in process.children(recursive=True)}
        self._tree = list(found.values())
        return self._tree

    def ask(self, path: str, body: bytes, timeout: float = 10.0) -> Any:
        """One answer, read as JSON. OSError or ValueError if there is none."""
        request = urllib.request.Request(f"{self.url}{path}", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise OSError(f"{error.code}: {error.read()[:500].decode(errors='replace')}") from None


@contextmanager
def running(
    command: Sequence[str], cwd: Path, env: dict[str, str], port: int, cpus: Sequence[int], log: Path
) -> Iterator[Server]:
    """Run a server on these cores: started when entered, every process of it gone when left."""
    mark = uuid.uuid4().hex
    own = os.sched_getaffinity(0)
    with log.open("wb") as out:
        os.sched_setaffinity(0, cpus)  # inherited, and so in force before the server counts its cores
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=env | {MARK: mark}, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        except OSError as error:
            raise SetupError(f"not started: {error}") from None
        finally:
            os.sched_setaffinity(0, own)
        server = Server(process, mark, port)
        try:
            yield server
        finally:
            _end(process, server)


def wait(server: Server, path: str, body: bytes, timeout: float, log: Path) -> float:
    """Seconds until the first answer; SetupError if none comes in time or the server ends."""
    start = monotonic()
    last: Exception | None = None
    while monotonic() - start < timeout:
        try:
            server.ask(path, body)
        except (OSError, ValueError) as error:
            last = error
        else:
            return monotonic() - start
        if server.ended:
            raise SetupError(f"ended while starting, see {log}")
        sleep(TRY_EVERY)
    raise SetupError(f"no answer within {timeout:.0f} s ({last}), see {log}")


def _end(process: subprocess.Popen[bytes], server: Server) -> None:
    """Ask the first process to end its own, then make what is left."""
    seen = server.tree()  # what loses its parent now could not be found later
    with suppress(OSError):
        process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    left = {each.pid: each for each in [*seen, *server.tree()]}
    for each in left.values():
        with suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(left.values(), timeout=5)
    process.wait()
