"""Every packaged suite, whole: a tiny random checkpoint of its head is exported and verified, served beside all others,
and scored on a hand-made file in the benchmark's own format, over HTTP exactly as in process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from e2e_servers import Server

import suites
from benchmarks.measure import load, measure
from benchmarks.predictors import InProcess
from benchmarks.readers import READERS
from benchmarks.remote import OverHttp
from service.bundle import Bundle

OFFICIAL = Path(__file__).parents[1] / "official"
SUITES = suites.names()
SCORED = [name for name in SUITES if suites.load(name).reader]

pytestmark = pytest.mark.xdist_group("suites")  # one process exports them, once


def alias(name: str) -> str:
    return name.replace("/", "-")


@pytest.fixture(scope="module")
def folders(bundle_of: Callable[[str], Path]) -> dict[str, Path]:
    return {name: bundle_of(name) for name in SUITES}


@pytest.fixture(scope="module")
def url(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = ",".join(f"{alias(name)}={folder}" for name, folder in folders.items())
    settings = {"NLU_MODELS": models, "NLU_MAX_WAIT_MS": "300000", "NLU_TIMEOUT_MS": "300000"}
    server = Server(settings, models=tmp_path_factory.mktemp("no-models"))
    try:
        server.wait(timeout=180)
        yield server.url
    finally:
        server.stop()


@pytest.mark.parametrize("name", SCORED)
def test_its_score_over_http_is_its_score_in_process(name: str, folders: dict[str, Path], url: str) -> None:
    suite = suites.load(name)
    files = sorted(OFFICIAL.glob(f"{suite.reader}.*"))
    data = load(files, suite)
    here = measure(InProcess(Bundle(folders[name])), suite, data, 1)
    there = measure(OverHttp(f"{url}/{alias(name)}"), suite, data, 2)
    assert not here.refused
    assert there.outcomes == here.outcomes
    assert there.scores == here.scores
    assert there.scores.keys() == set(suite.metrics)


@pytest.mark.parametrize("name", SUITES)
def test_it_answers_its_own_examples_as_the_trained_model_did(name: str, folders: dict[str, Path], url: str) -> None:
    for golden in Bundle(folders[name]).manifest.golden:
        reply = httpx.post(f"{url}/{alias(name)}", json=golden.item, timeout=60, trust_env=False)
        assert reply.status_code == 200, reply.text
        assert reply.json().keys() == golden.answer.keys()


def test_the_server_lists_every_family(url: str) -> None:
    listed = httpx.get(f"{url}/v1/models", timeout=60, trust_env=False).json()["models"]
    assert {entry["name"] for entry in listed} == {alias(name) for name in SUITES}
    assert all(entry["ready"] for entry in listed)


def test_readers_are_those_of_suites() -> None:
    assert {suites.load(name).reader for name in SCORED} <= READERS.keys()
