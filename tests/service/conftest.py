"""Settings of the property tests, and tiny bundles as they are or with one fact changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench
from hypothesis import HealthCheck, settings
from kit import Loaded, copy, load

from service.batching.pool import Pool

settings.register_profile(
    "service",
    deadline=None,  # a loaded machine is not a wrong answer
    database=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
)
settings.load_profile("service")

CopyOf = Callable[..., Path]
LoadedOf = Callable[[str], Loaded]


@pytest.fixture
def copy_of(bundle_of: Callable[[str], Path], tmp_path: Path) -> CopyOf:
    """`copy_of("klue/ner", decoder={"stride": 4})`: a bundle that the test may change."""
    numbers = itertools.count()

    def make(suite: str, **changes: Any) -> Path:
        return copy(bundle_of(suite), tmp_path / f"copy-{next(numbers)}", **changes)

    return make


@pytest.fixture(scope="session")
def loaded(bundle_of: Callable[[str], Path]) -> LoadedOf:
    """`loaded("klue/ner")`: a tiny bundle's task and session, opened once."""
    opened: dict[str, Loaded] = {}

    def open_once(suite: str) -> Loaded:
        if suite not in opened:
            opened[suite] = load(bundle_of(suite))
        return opened[suite]

    return open_once


@pytest.fixture
def benches(bundle_of: Callable[[str], Path]) -> Iterator[Callable[..., Bench]]:
    """`benches(threads=2)`: a runner with a pool of its own, or with the `pool` of another."""
    made: list[Bench] = []

    def make(threads: int = 1, max_wait: float = 60.0, take: float = 10.0, pool: Pool | None = None) -> Bench:
        made.append(Bench(bundle_of("klue/ynat"), pool or Pool(threads, max_wait=max_wait, take=take)))
        return made[-1]

    yield make
    for bench in made:
        bench.task.gate.set()
    for bench in made:
        bench.pool.close()


@pytest.fixture
def pools() -> Iterator[Callable[..., Pool]]:
    made: list[Pool] = []

    def make(threads: int = 1, max_wait: float = 1.0, take: float = 0.01) -> Pool:
        made.append(Pool(threads, max_wait=max_wait, take=take))
        return made[-1]

    yield make
    for pool in made:
        for owner in pool._owners:
            owner.gate.set()  # type: ignore[attr-defined]
        pool.close()
