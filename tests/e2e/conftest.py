"""One server over all demo bundles for the whole test run, and a factory for servers with other settings.

Every test here is marked `e2e`; tests that measure time are marked `alone`: no other end-to-end test runs meanwhile,
whatever xdist does.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2e_servers import DEMO, Server, StartServer, locked, missing_bundles, shared, store


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: measures time, so that no other end-to-end test may run meanwhile")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder that all xdist workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session")
def demo_store() -> Path:
    """The BentoML home with the demo bundles."""
    if missing := missing_bundles():
        pytest.fail(f"{store()} lacks the demo bundles {', '.join(missing)}: run `make bundles` first")
    return store()


@pytest.fixture(scope="session")
def server(run_folder: Path, demo_store: Path) -> Iterator[str]:
    """The URL of a server over all demo bundles that refuses nobody, however slow the machine is."""
    models = ",".join(f"{name}:latest" for name in DEMO)

    def start() -> Server:
        new = Server({"NLU_MODELS": models, "NLU_MAX_WAIT_MS": "300000", "NLU_TIMEOUT_MS": "300000"})
        try:
            new.wait()
        except RuntimeError:
            new.stop()
            raise
        return new

    with shared(run_folder, start) as url:
        yield url


@pytest.fixture(scope="session")
def client(server: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def start_server(demo_store: Path) -> Iterator[StartServer]:
    """`start_server({"NLU_...": "..."})`: a server of one's own, ready unless `ready=False`; ended after the test."""
    started: list[Server] = []

    def start(env: dict[str, str], *, ready: bool = True, **options: Any) -> Server:
        started.append(Server(env, **options))
        if ready:
            started[-1].wait()
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(autouse=True)
def turn(run_folder: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests marked `alone` wait until no other end-to-end test runs, and hold the others back."""
    alone = request.node.get_closest_marker("alone") is not None
    with locked(run_folder / "clueserve-turn.lock", fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
        yield
