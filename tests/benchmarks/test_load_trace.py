"""What load tests send and when: schedules, lengths that are drawn from distributions, and requests that stay valid."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import suites
from benchmarks import __main__, lengths, trace
from benchmarks.records import Record
from benchmarks.trace import Call, Target

TOPIC = Target("topic", "klue/ynat", "ko")
PAIR = Target("pair", "chineseblue/cmedqq", "zh")
RELATION = Target("relation", "klue/re", "ko")
ENTITIES = Target("entities", "biomed/bc5cdr", "en")


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert trace.constant(4, 1.5, seed=1) == [0, 0.25, 0.5, 0.75, 1.0, 1.25]


def test_bursts_are_half_of_the_requests() -> None:
    schedule = trace.burst(20, 10, seed=1)
    crowds = Counter(schedule)
    assert {at: n for at, n in crowds.items() if n > 1} == {2.5: 50, 7.5: 50}
    assert len(schedule) == pytest.approx(200, rel=0.15)
    assert all(a <= b for a, b in pairwise(schedule))


def test_a_quantile_lies_between_its_neighbours() -> None:
    steps = [0, 10, 20, 100]
    assert [trace.quantile(steps, part) for part in (0.0, 1 / 6, 0.5, 5 / 6, 1.0)] == [0, 5, 15, 60, 100]


@pytest.mark.parametrize("kind", ["mixed", "lognormal", "examples"])
def test_requests_come_in_turn_and_from_the_seed_alone(kind: str) -> None:
    made = trace.calls([TOPIC, PAIR], kind, 5, seed=1)
    assert [call.model for call in made] == ["topic", "pair", "topic", "pair", "topic"]
    assert made == trace.calls([TOPIC, PAIR], kind, 5, seed=1)
    assert (made == trace.calls([TOPIC, PAIR], kind, 5, seed=2)) == (kind == "examples")
    assert made[1].item.keys() == {"text", "text_pair"}


def test_mixed_texts_are_as_long_as_the_benchmarks() -> None:
    made = trace.calls([ENTITIES], "mixed", 2000, seed=1)
    sizes = sorted(len(call.item["text"]) for call in made)
    known = trace.lengths()["biomed/bc5cdr"]["text"]
    assert known[0] <= sizes[0]
    assert sizes[-1] <= known[-1]
    assert sizes[1000] == pytest.approx(known[10], rel=0.1)
    assert sizes[1600] == pytest.approx(known[16], rel=0.1)
    assert not any(call.item["text"][0].isspace() for call in made)


@pytest.mark.parametrize("kind", ["mixed", "lognormal"])
def test_text_that_offsets_belong_to_is_left_alone(kind: str) -> None:
    examples = suites.load("klue/re").examples
    made = trace.calls([RELATION], kind, 4, seed=1)
    assert [call.item for call in made] == [examples[i % len(examples)] for i in range(4)]


def test_text_without_spaces_has_words_of_two_characters() -> None:
    made = trace.calls([PAIR], "lognormal", 200, seed=1)
    sizes = [len(call.item["text"]) for call in made]
    assert max(sizes) <= 2 * trace.LONGEST_WORDS
    assert len(set(sizes)) > 10


def test_options_are_no_text() -> None:
    assert trace.text_fields({"text": "a", "tags": True, "top_k": 2, "on_overflow": "error"}) == ["text"]
    assert trace.text_fields({"text": "a", "subject": {"start": 0, "end": 1}}) == []
    assert trace.text_fields({"turns": [{"role": "user", "text": "a"}]}) == []


def test_a_suite_of_ones_own_sends_the_models_example() -> None:
    mine = Target("mine", "my/suite", "ko", {"text": "hello"})
    assert trace.calls([mine], "mixed", 2, seed=1) == [Call("mine", {"text": "hello"})] * 2
    with pytest.raises(ValueError, match="no example of 'my/suite' is known"):
        trace.calls([Target("mine", "my/suite", "ko")], "mixed", 2, seed=1)


def test_data_are_the_benchmarks_own_records(tmp_path: Path) -> None:
    rows = [{"guid": str(i), "title": f"제목 {i}", "label": "정치"} for i in range(3)]
    (tmp_path / "klue-ynat.json").write_text(json.dumps(rows), encoding="utf-8")
    made = trace.calls([TOPIC], "data", 6, seed=1, data_dir=tmp_path)
    assert Counter(call.item["text"] for call in made) == {"제목 0": 2, "제목 1": 2, "제목 2": 2}
    with pytest.raises(ValueError, match="pair: no data for chineseblue/cmedqq"):
        trace.calls([PAIR], "data", 6, seed=1, data_dir=tmp_path)


def test_lengths_are_those_of_fields_with_text_of_their_own() -> None:
    records = [Record(str(n), {"text": "x" * n, "tags": True}, None) for n in range(1, 22)]
    assert lengths.quantiles(records) == {"text": list(range(1, 22))}
    assert lengths.quantiles([Record("1", {"text": "x", "subject": {"start": 0, "end": 1}}, None)]) == {}


def test_the_lengths_command_keeps_what_it_has_no_data_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, data = tmp_path / "lengths.yaml", tmp_path / "data"
    table.write_text("klue/sts:\n  text: [1, 2]\nklue/ynat:\n  text: [7, 7]\n")
    data.mkdir()
    monkeypatch.setattr(trace, "LENGTHS", table)
    trace.lengths.cache_clear()
    try:
        assert __main__.main(["lengths", "--data-dir", str(data)]) == 1
        rows = [{"guid": str(i), "title": "가" * 5, "label": "정치"} for i in range(3)]
        (data / "ynat-v1.1_dev.json").write_text(json.dumps(rows), encoding="utf-8")
        assert __main__.main(["lengths", "--data-dir", str(data)]) == 0
        trace.lengths.cache_clear()
        assert trace.lengths() == {"klue/sts": {"text": [1, 2]}, "klue/ynat": {"text": [5] * 21}}
    finally:
        trace.lengths.cache_clear()


@pytest.mark.parametrize("name", sorted(trace.lengths()))
def test_lengths_that_are_shipped_are_of_suites_and_in_order(name: str) -> None:
    assert name in suites.names()
    for steps in trace.lengths()[name].values():
        assert len(steps) == 21
        assert steps == sorted(steps)
