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
from benchmarks.predictors import InProcess, Outcome
from benchmarks.readers import READERS
from benchmarks.remote import OverHttp
from benchmarks.submissions import SUBMISSIONS
from service.bundle import Bundle
from service.loading import difference

OFFICIAL = Path(__file__).parents[1] / "official"
SUITES = suites.names()
SCORED = [name for name in SUITES if suites.load(name).reader]

UNLABELLED = ["clue/diagnostics"]

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


def same(here: Outcome, there: Outcome) -> bool:
    """Rows that share a run may differ in the last of six decimals, and in nothing else."""
    return here.error is None and there.error is None and difference(here.answer, there.answer, 2e-6) is None


@pytest.mark.parametrize("name", [name for name in SCORED if name not in UNLABELLED])
def test_its_score_over_http_is_its_score_in_process(name: str, folders: dict[str, Path], url: str) -> None:
    suite = suites.load(name)
    data = load(sorted(OFFICIAL.glob(f"{suite.reader}.*")), suite)
    here = measure(InProcess(Bundle(folders[name])), suite, data, 1)
    there = measure(OverHttp(f"{url}/{alias(name)}"), suite, data, 2)
    assert all(same(*pair) for pair in zip(here.outcomes, there.outcomes, strict=True))
    assert there.scores.keys() == set(suite.metrics)
    for metric, interval in there.scores.items():
        assert interval.value == pytest.approx(here.scores[metric].value, abs=1e-3)


@pytest.mark.parametrize("name", UNLABELLED)
def test_what_has_no_public_labels_is_answered_for_its_leaderboard(
    name: str, folders: dict[str, Path], url: str, tmp_path: Path
) -> None:
    suite = suites.load(name)
    source = OFFICIAL / f"{name}.json"
    records = READERS[suite.reader](source, suite)
    assert all(record.gold is None for record in records)
    items = [record.item for record in records]
    here = InProcess(Bundle(folders[name])).ask(items)
    there = OverHttp(f"{url}/{alias(name)}").ask(items)
    assert all(same(*pair) for pair in zip(here, there, strict=True))
    written = SUBMISSIONS[suite.reader](records, [o.answer or {} for o in there], suite, source, tmp_path)
    assert len(written.read_text(encoding="utf-8").splitlines()) == len(records)


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
