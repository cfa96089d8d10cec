"""A long mixed load: what is sent, what counts as an error of ours, and when a server is said to grow."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import uvloop
from synthetic_server import synthetic

from benchmarks.client import Client
from benchmarks.processes import behind
from benchmarks.soak import traffic
from benchmarks.soak.run import HELPERS, Ledger, Plan, costs, soak, verdicts
from benchmarks.soak.traffic import KINDS, Shot, shots
from benchmarks.soak.watch import Sample, after_a_fifth, growth, table
from benchmarks.trace import Call

CALLS = [Call("topic", {"text": "코스피 상승"}), Call("pairs", {"text": "a", "text_pair": "b"})]
EQUAL = {"topic": 0.01, "pairs": 0.01}
REST = Sample(0.0, 0, 500.0, 40, 11, 2, 0)


def test_every_kind_is_sent_about_every_model_in_its_share() -> None:
    made = shots(CALLS, EQUAL, 5000, seed=3)
    assert made == shots(CALLS, EQUAL, 5000, seed=3) != shots(CALLS, EQUAL, 5000, seed=4)
    for kind, share in KINDS.items():
        assert sum(shot.kind == kind for shot in made) == pytest.approx(50 * share, rel=0.35)
    assert sum(KINDS.values()) == 100
    assert {shot.path for shot in made if shot.kind == "single"} == {"/topic", "/pairs"}
    assert {shot.path for shot in made if shot.kind == "open inference"} == {"/v2/models/topic/infer"}
    assert {shot.status for shot in made if shot.kind == "wrong"} == {400, 404, 422}


def test_a_model_that_reads_documents_gets_fewer_requests_and_the_same_time() -> None:
    made = shots(CALLS, {"topic": 0.01, "pairs": 0.09}, 5000, seed=3)
    singles = Counter(shot.path for shot in made if shot.kind == "single")
    assert singles["/topic"] == pytest.approx(9 * singles["/pairs"], rel=0.2)


def test_what_is_not_answered_as_it_should_be_is_an_error() -> None:
    async def run(url: str) -> Ledger:
        ledger = Ledger()
        async with Client(url) as client:
            for shot in (
                Shot("single", "/m", b"{}"),
                Shot("single", "/nowhere", b"{}"),
                Shot("wrong", "/nowhere", b"{}", 404),
                Shot("wrong", "/m", b"{", 400),
                Shot("page", "/v1/models", b"", manner="get"),
                Shot("leaver", "/m", b"{}", 0, "leave"),
                Shot("half", "/m", b"{}", 0, "half"),
            ):
                await ledger.ask(client, shot)
        async with Client("http://127.0.0.1:1") as nobody:
            await ledger.ask(nobody, Shot("single", "/m", b"{}"))
        return ledger

    with synthetic() as url:
        ledger = uvloop.run(run(url))
    assert ledger.seen == {
        "single: 200": 1,
        "single: 404": 1,
        "wrong: 404": 1,
        "wrong: 200": 1,
        "page: 200": 1,
        "leaver: left": 1,
        "half: left": 1,
        "single: lost": 1,
    }
    assert ledger.errors == {
        "single /nowhere: 404 instead of 200": 1,
        "wrong /m: 200 instead of 400": 1,
        "single /m: lost instead of 200": 1,
    }
    assert ledger.counts() == (8, 3)


def kept(samples: list[Sample], after: Sample = REST, errors: int = 0) -> list[bool]:
    return [verdict["kept"] for verdict in verdicts(samples, REST, after, errors)]


def test_growth_counts_from_the_first_fifth_on() -> None:
    warm = [
        replace(REST, seconds=10.0 * i, requests=100 * i, rss_mb=mb) for i, mb in enumerate((300, 500, 510, 524, 525))
    ]
    assert after_a_fifth(warm).rss_mb == 500
    assert growth(warm) == pytest.approx(0.05)
    assert kept(warm) == [True] * 5
    assert kept([*warm[:-1], replace(warm[-1], rss_mb=526.0)]) == [False, True, True, True, True]
    assert table(warm).splitlines()[-1].split() == ["0.7", "400", "525", "40", "11", "2", "0"]


def test_what_is_left_behind_is_noticed() -> None:
    samples = [replace(REST, requests=n, seconds=n / 10) for n in (100, 200, 300)]
    assert kept(samples, replace(REST, files=41)) == [True, False, True, True, True]
    assert kept([*samples, replace(REST, threads=REST.threads + HELPERS + 1, seconds=90.0, requests=900)]) == [
        True,
        True,
        False,
        True,
        True,
    ]
    assert kept(samples, replace(REST, processes=3)) == [True, True, True, False, True]
    assert kept(samples, errors=1) == [True, True, True, True, False]


def test_a_model_that_does_not_answer_is_not_soaked() -> None:
    async def run(url: str) -> dict[str, float]:
        async with Client(url) as client:
            return await costs(client, [Call("m", {"text": "a"}), Call("nowhere", {"text": "a"})])

    with synthetic() as url, pytest.raises(OSError, match="nowhere answers 404"):
        uvloop.run(run(url))


def test_a_soak_sends_as_many_requests_as_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.soak.run.SETTLE", 0.1)
    monkeypatch.setattr(traffic, "KINDS", {"single": 1, "page": 1})
    monkeypatch.setattr(traffic, "PAGES", ("/v1/models",))

    async def run(url: str) -> dict[str, object]:
        async with Client(url) as client:
            server = behind(client.host, client.port)
            assert server is not None
            return await soak(
                client, server, [Call("m", {"text": "a"})], Plan(None, 300, warm_up=0.5, every=0.2), said.append
            )

    said: list[str] = []
    with synthetic(service=0.002) as url:
        found = uvloop.run(run(url))
    assert found["requests"] == 300
    assert found["kinds"].keys() == {"page: 200", "single: 200"}  # type: ignore[attr-defined]
    assert found["errors"] == {}
    assert len(found["samples"]) > 1  # type: ignore[arg-type]
    assert "requests a second at the peak" in said[0]
    assert traffic.STAY < 1
