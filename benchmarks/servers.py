"""Starting a server under test, reading the CPU time of all of its processes, and ending it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Contender:
    """A server to compare: what `bentoml serve` is given, and the settings it runs under."""

    name: str
    target: str
    settings: Mapping[str, str] = field(default_factory=dict)
    wraps: bool = False
    """Whether an item travels as `{"items": [item]}`."""


class Running:
    """A started server: its port, and the CPU seconds that its process tree has used."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.port = port
        self._root = psutil.Process(process.pid)

    def tree(self) -> list[psutil.Process]:
        return [self._root, *self._root.children(recursive=True)]

    def cpu(self) -> float:
        total = 0.0
        for process in self.tree():
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total


@contextmanager
def serving(contender: Contender, name: str, folder: Path, start_timeout: float = 60.0) -> Iterator[Running]:
    """Serve one bundle at `/name` on a free port of 127.0.0.1: ready when entered, gone when left."""
    port = _free_port()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NLU_", "PEER_"))}
    environment |= {"NLU_MODELS": f"{name}={folder}", "BENTOML_DO_NOT_TRACK": "True", **contender.settings}
    command = [sys.executable, "-m", "bentoml", "serve", contender.target, "--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile() as log:
        # A home of its own: BentoML empties the metrics folder of whatever else runs under the same one.
        environment["BENTOML_HOME"] = home
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        running = Running(process, port)
        try:
            if not _ready(process, port, start_timeout):
                log.seek(0)
                tail = log.read()[-2000:].decode(errors="replace")
                raise RuntimeError(f"{contender.name} did not become ready; it said:\n{tail}")
            yield running
        finally:
            _end(process, running)


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def _ready(process: subprocess.Popen[bytes], port: int, timeout: float) -> bool:
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            if answer.status == 200:
                return True
        time.sleep(0.2)
    return False


def _end(process: subprocess.Popen[bytes], running: Running) -> None:
    """Ask the whole tree to end, then make it: workers have sessions of their own, so a group would miss them."""
    with suppress(psutil.Error):
        tree = running.tree()
        process.terminate()
        _, alive = psutil.wait_procs(tree, timeout=10)
        for left in alive:
            left.kill()
    process.wait()
