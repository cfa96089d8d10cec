"""Starting a server under test, reading the CPU time of all of its processes, and ending it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.processes import Processes

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Contender:
    """A server to compare: what `bentoml serve` is given, and the settings it runs under."""

    name: str
    target: str
    settings: Mapping[str, str] = field(default_factory=dict)
    wraps: bool = False
    """Whether an item travels as `{"items": [item]}`."""


class Running(Processes):
    """A started server: where it listens, and what its process tree uses."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        super().__init__([process.pid])
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.start_seconds = 0.0
        """From its start until it was ready."""


@contextmanager
def serving(contender: Contender, name: str, folder: Path, start_timeout: float = 60.0) -> Iterator[Running]:
    """Serve one bundle at `/name` on a free port of 127.0.0.1: ready when entered, gone when left."""
    with serving_all(contender, {name: folder}, start_timeout) as running:
        yield running


@contextmanager
def serving_all(contender: Contender, folders: Mapping[str, Path], start_timeout: float = 60.0) -> Iterator[Running]:
    """Serve several bundles, by the names of their routes."""
    port = free_port()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NLU_", "PEER_"))}
    models = ",".join(f"{name}={folder}" for name, folder in folders.items())
    environment |= {"NLU_MODELS": models, "BENTOML_DO_NOT_TRACK": "True", **contender.settings}
    command = [sys.executable, "-m", "bentoml", "serve", contender.target, "--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryDirectory() as home:
        # A home of its own: BentoML empties the metrics folder of whatever else runs under the same one.
        environment["BENTOML_HOME"] = home
        with started(contender.name, command, port, environment, start_timeout=start_timeout) as running:
            yield running


@contextmanager
def started(
    name: str,
    command: Sequence[str],
    port: int,
    environment: Mapping[str, str],
    *,
    ready: str = "/readyz",
    folder: Path = ROOT,
    start_timeout: float = 60.0,
) -> Iterator[Running]:
    """Run a server's command in `folder` until `GET ready` answers 200; end its whole tree when left.

    RuntimeError with the end of what it printed if it does not become ready in time.
    """
    with tempfile.TemporaryFile() as log:
        begin = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        running = Running(process, port)
        try:
            if not _ready(process, f"{running.url}{ready}", start_timeout):
                log.seek(0)
                tail = log.read()[-2000:].decode(errors="replace")
                raise RuntimeError(f"{name} did not become ready; it said:\n{tail}")
            running.start_seconds = time.monotonic() - begin
            running.tree()
            yield running
        finally:
            _end(process, running)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def _ready(process: subprocess.Popen[bytes], url: str, timeout: float) -> bool:
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return True
        time.sleep(0.05)
    return False


def _end(process: subprocess.Popen[bytes], running: Running) -> None:
    """Ask the whole tree to end, then make it: workers have sessions of their own, so a group would miss them."""
    with suppress(psutil.Error):
        tree = running.tree()
        process.terminate()
        psutil.wait_procs(tree[:1], timeout=10)  # it ends its workers in order, if it is one that does
        _, alive = psutil.wait_procs(tree, timeout=1)
        for left in alive:
            left.kill()
        psutil.wait_procs(alive, timeout=5)
    process.wait()
