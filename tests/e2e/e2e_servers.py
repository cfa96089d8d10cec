"""Real servers for the end-to-end tests, started as a user starts them, on a free port of 127.0.0.1."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import psutil

import demo

ROOT = Path(__file__).parents[2]
DEMO = tuple(sorted(demo.default_names()))


def store() -> Path:
    """The BentoML home that `make bundles` filled; BENTOML_HOME itself is the unit tests' own."""
    return Path(os.environ["CLUESERVE_STORE"])


def bundle_folder(name: str) -> Path:
    """Where the store keeps the newest bundle of this name."""
    folder = store() / "models" / name
    return folder / (folder / "latest").read_text().strip()


def missing_bundles() -> list[str]:
    return [name for name in DEMO if not (store() / "models" / name / "latest").is_file()]


class Server:
    """One `bentoml serve` with its own BentoML home, whose models are the store's.

    BentoML empties its home's folder of metrics at every start, so that two servers cannot share a home.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        arguments: Sequence[str] = (),
        models: Path | None = None,
        service: str = "service.app:NLU",
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="clueserve-e2e-")
        folder = Path(self._folder.name)
        home = folder / "home"
        home.mkdir()
        (home / "models").symlink_to(store() / "models" if models is None else models)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = folder / "log"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("NLU_", "BENTOML_", "PROMETHEUS_"))}
        command = [sys.executable, "-m", "bentoml", "serve", service, "--host", "127.0.0.1"]
        command += ["--port", str(self.port), *arguments]
        self._ended: str | None = None
        self.started = monotonic()
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**inherited, "BENTOML_HOME": str(home), "BENTOML_DO_NOT_TRACK": "True", **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        if self._ended is not None:
            return self._ended
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def get(self, path: str, timeout: float = 10) -> tuple[int, str]:
        """Status and body on a connection of its own; status 0 if nobody listens yet."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def wait(self, path: str = "/readyz", timeout: float = 90) -> float:
        """Seconds from the start until `path` answered 200."""
        while self.get(path)[0] != 200:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.log}")
            if monotonic() - self.started > timeout:
                raise RuntimeError(f"{path} was not 200 within {timeout} s: {self.get(path)}\n{self.log}")
            sleep(0.05)
        return monotonic() - self.started

    def exit_code(self, timeout: float = 30) -> int:
        return self.process.wait(timeout)

    def cpu_seconds(self) -> float:
        """CPU time that the processes of this server have used."""
        mother = psutil.Process(self.process.pid)
        times = [process.cpu_times() for process in (mother, *mother.children(recursive=True))]
        return float(sum(t.user + t.system for t in times))

    def stop(self, patience: float = 8) -> None:
        """End the processes of this server (its workers have sessions of their own), and nothing else."""
        if self._ended is not None:
            return
        family: list[psutil.Process] = []
        if self.process.poll() is None:
            mother = psutil.Process(self.process.pid)
            family = [*mother.children(recursive=True), mother]
            self.process.terminate()
        _, stubborn = psutil.wait_procs(family, patience)
        for process in stubborn:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(15)
        self._ended = self.log
        self._folder.cleanup()


@contextmanager
def locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """A lock between the processes of one test run."""
    with path.open("a") as file:
        fcntl.flock(file, how)
        yield


StartServer = Callable[..., Server]
"""Environment -> a server that ends with the test; see the fixture `start_server`."""


@contextmanager
def shared(root: Path, start: Callable[[], Server]) -> Iterator[str]:
    """The URL of one server for all processes of a test run.

    The first who asks starts it and, at its own end, waits for the others before it stops it.
    """
    lock, address, users = root / "clueserve.lock", root / "clueserve.json", root / "clueserve-users"
    users.mkdir(exist_ok=True)
    mine: Server | None = None
    with locked(lock):
        if not address.exists():
            mine = start()
            address.write_text(json.dumps(mine.url))
        url: str = json.loads(address.read_text())
        (users / str(os.getpid())).touch()
    try:
        yield url
    finally:
        (users / str(os.getpid())).unlink()
        while mine is not None:
            with locked(lock):
                if not any(alive(int(user.name)) for user in users.iterdir()):
                    address.unlink()
                    mine.stop()
                    mine = None
            sleep(0.1)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
