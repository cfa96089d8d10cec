"""A promise of speed has a bound, and a figure either keeps it or does not."""

from __future__ import annotations

import pytest

from benchmarks.proof import claims
from benchmarks.proof.claims import Claim
from benchmarks.proof.command import SCENARIOS


@pytest.mark.parametrize(
    ("claim", "value", "kept"),
    [
        (Claim("at most", most=1.25, goal=1.15), 1.25, True),
        (Claim("at most", most=1.25, goal=1.15), 1.26, False),
        (Claim("at least", least=0.95), 0.95, True),
        (Claim("at least", least=0.95), 0.94, False),
        (Claim("none may be late", most=0), 1, False),
    ],
)
def test_a_figure_on_the_bound_keeps_it_and_one_beyond_it_does_not(claim: Claim, value: float, kept: bool) -> None:
    assert claim.kept(value) is kept


def test_every_claim_has_exactly_one_bound() -> None:
    assert all((claim.most is None) != (claim.least is None) for claim in claims.known().values())


def test_a_goal_is_stricter_than_its_bound() -> None:
    assert all(c.goal < c.most for c in claims.known().values() if c.goal is not None and c.most is not None)


def test_the_verdict_names_what_was_missed() -> None:
    found = claims.verdicts({"http_us": 412.0, "start_s": 4.0})
    assert [(v["claim"], v["kept"]) for v in found] == [("http_us", False), ("start_s", True)]
    lines = claims.table(found).splitlines()
    assert lines[0].split()[-4:] == ["412", "<=", "300", "MISSED"]
    assert lines[1].endswith("kept")
    assert "(goal 5)" in lines[1]


def test_only_what_was_measured_is_judged() -> None:
    assert claims.verdicts({}) == []
    assert claims.table([]) == ""


def test_an_unknown_scenario_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.__main__ import main

    with pytest.raises(SystemExit) as ended:
        main(["proof", "--only", "http,ftp"])
    assert ended.value.code == 2
    assert "no scenario ftp" in capsys.readouterr().err
    assert "http" in SCENARIOS
