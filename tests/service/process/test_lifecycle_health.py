"""A model that fails on everything is taken out alone; one that cannot stand some items stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic, sleep

import pytest
from bench import Bench
from desk import Desk, ask

from service.batching import health
from service.batching.health import FAILURES, Health


class Patient:
    """A model whose golden records pass or fail as a test says."""

    def __init__(self) -> None:
        self.broken = False
        self.proofs = 0
        self.told: list[bool] = []
        self.health = Health("topic", self.prove, self.told.append)

    def prove(self) -> None:
        self.proofs += 1
        if self.broken:
            raise RuntimeError("no memory")

    def fail(self, times: int) -> None:
        for _ in range(times):
            self.health.note(True)

    def wait(self, out: bool, proofs: int = 0) -> None:
        until = monotonic() + 20
        while (self.health.reason is not None) is not out or self.proofs < proofs or self.health._looking is not out:
            assert monotonic() < until
            sleep(0.005)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Patient]:
    monkeypatch.setattr(health, "FIRST", 0.01)
    made = Patient()
    yield made
    made.health.close()


def test_a_model_that_fails_on_its_golden_records_too_is_out_until_they_pass(patient: Patient) -> None:
    patient.broken = True
    patient.fail(FAILURES - 1)
    assert patient.proofs == 0
    patient.fail(1)
    patient.wait(out=True, proofs=3)  # it is looked at again and again
    assert patient.health.reason == "it fails on its own golden records (RuntimeError: no memory)"
    patient.broken = False
    patient.wait(out=False)
    assert patient.health.reason is None
    assert patient.told == [False, True]


def test_items_that_a_model_cannot_stand_do_not_take_it_from_others(patient: Patient) -> None:
    patient.fail(3 * FAILURES)
    patient.wait(out=False, proofs=1)
    assert patient.health.reason is None
    assert patient.told == []


def test_only_failures_in_a_row_count(patient: Patient) -> None:
    for _ in range(5):
        patient.fail(FAILURES - 1)
        patient.health.note(False)
    assert patient.proofs == 0


def test_after_it_came_back_it_can_go_out_again(patient: Patient) -> None:
    for _ in range(2):
        patient.broken = True
        patient.fail(FAILURES)
        patient.wait(out=True)
        patient.broken = False
        patient.wait(out=False)
    assert patient.told == [False, True, False, True]


def test_requests_to_a_model_that_is_out_are_refused_at_once_until_it_works_again(
    patient: Patient, benches: Callable[..., Bench]
) -> None:
    bench = benches()
    desk = Desk(bench)
    bench.runner.health = patient.health

    def posted() -> tuple[int, str]:
        status, answer, _ = asyncio.run(ask(desk.one, {"text": "서울"}))
        return status, answer.get("error", {}).get("code", "ok")

    def refuse(text: str) -> None:
        raise RuntimeError(text)

    patient.broken, bench.task.refuse = True, refuse
    assert [posted() for _ in range(FAILURES)] == [(500, "internal")] * FAILURES
    patient.wait(out=True)
    ran = len(bench.task.takes)
    assert posted() == (503, "not_ready")
    assert len(bench.task.takes) == ran
    assert desk.server.why_not("news") == patient.health.reason
    patient.broken, bench.task.refuse = False, lambda text: None
    patient.wait(out=False)
    assert posted() == (200, "ok")
    assert desk.server.why_not("news") is None
