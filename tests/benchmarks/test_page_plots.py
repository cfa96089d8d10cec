"""What plots are made of: axes, distributions, parts of time, numbers as they are written."""

from __future__ import annotations

from itertools import pairwise

import pytest
from saved_results import capacity, run

from benchmarks import histogram
from benchmarks.pages import formats
from benchmarks.pages.axes import Scale, linear, logarithmic, tail
from benchmarks.pages.batches import NAMES, shares
from benchmarks.pages.latency import steps
from benchmarks.pages.plots import SMALL, Frame
from benchmarks.pages.run_shapes import Capacity, Run, Second
from benchmarks.pages.timeline import spans
from benchmarks.playback import Outcome


def test_a_distribution_says_what_share_came_within_which_time() -> None:
    latencies = histogram.of([0.010] * 90 + [0.020] * 9 + [0.100])
    shares, ms = zip(*steps(latencies), strict=True)
    assert shares == (0.0, 0.90, 0.99, 0.99)  # the slowest stands where the others end
    assert ms == pytest.approx((10, 10, 20, 100), rel=1e-3)


def test_equal_latencies_and_a_single_one_have_a_line_too() -> None:
    assert steps(histogram.of([0.001] * 4)) == [(0.0, 1.0), (0.75, 1.0)]
    assert steps(histogram.of([0.001])) == [(0.0, 1.0), (0.0, 1.0)]


def test_each_further_nine_of_a_tail_has_the_same_room() -> None:
    axis = tail(1000)
    assert [text for _, text in axis.ticks] == ["0 %", "50 %", "90 %", "99 %", "99.9 %"]
    nines = [axis.part(share) for share in (0, 0.9, 0.99, 0.999)]
    gaps = [b - a for a, b in pairwise(nines)]
    assert gaps == pytest.approx([gaps[0]] * 3)
    assert tail(3).ticks[-1][1] == "99 %"


def ticks(axis: Scale) -> list[str]:
    return [text for _, text in axis.ticks]


def test_axes_end_at_round_numbers() -> None:
    assert ticks(linear(37)) == ["0", "10", "20", "30", "40"]
    assert ticks(linear(52, 38)) == ["35", "40", "45", "50", "55"]
    assert linear(0).part(0) == 0
    assert ticks(logarithmic(7, 130)) == ["5", "10", "20", "50", "100", "200"]
    assert ticks(logarithmic(0.3, 4000)) == ["1", "10", "100", "1000"]
    assert ticks(logarithmic(10, 10)) == ["10", "20"]


def test_an_axis_places_values_and_keeps_them_on_it() -> None:
    assert [linear(40).part(v) for v in (-1, 0, 10, 40, 99)] == [0, 0, 0.25, 1, 1]
    assert logarithmic(10, 1000).part(100) == pytest.approx(0.5)


def test_lines_go_in_steps_within_the_frame() -> None:
    frame = Frame(SMALL, linear(10), linear(10), ("x", "y"), "told")
    frame.line([(0, 0), (5, 0), (10, 10)], 0, "a line", steps=True)
    path = frame.svg[-1]
    middle, right = f"{(frame.left + frame.right) / 2:.1f}", f"{frame.right:.1f}"
    drawn = f"M{frame.left:.1f} {frame.bottom:.1f}V{frame.bottom:.1f}H{middle}V{frame.top:.1f}H{right}"
    assert path.get("d") == drawn


def second(
    number: int, answered: int, good: int, refused: int = 0, failed: int = 0, p99: float | None = 10.0
) -> Second:
    fates = {"answered": answered, "good": good, "refused": refused, "failed": failed}
    return Second(second=number, **fates, p50_ms=p99, p99_ms=p99)


def test_a_short_run_is_shown_second_by_second() -> None:
    found = spans([second(0, 10, 8, 2, 1), second(2, 4, 4, p99=30.0)], 3.0)
    assert [(s.start, s.good, s.late, s.refused, s.failed, s.p99) for s in found] == [
        (0, 8, 2, 2, 1, 10.0),
        (1, 0, 0, 0, 0, None),
        (2, 4, 0, 0, 0, 30.0),
    ]


def test_a_long_run_has_rates_of_several_seconds_and_their_worst_quantile() -> None:
    found = spans([second(i, 10, 10, p99=float(i + 1)) for i in range(121)], 121.0)
    assert len(found) == 41
    assert (found[0].good, found[0].p99) == (10, 3.0)
    assert (found[-1].start, found[-1].good) == (120, 10)  # one second only, and its own rate


def test_large_batches_share_a_column() -> None:
    found = dict(zip(NAMES, shares({1: 50, 3: 10, 5: 10, 8: 10, 100: 20}), strict=True))
    assert found == {"1": 0.5, "2": 0, "3": 0.1, "4": 0, "5–8": 0.2, "9–16": 0, "17–32": 0, "33–64": 0, ">64": 0.2}


def test_numbers_have_the_digits_that_matter() -> None:
    written = [formats.number(v) for v in (None, 0, 0.00214, 0.5, 9.996, 12.34, 204.4, 1478.2)]
    assert written == ["–", "0", "0.002", "0.500", "10.0", "12.3", "204", "1,478"]
    assert [formats.percent(v) for v in (None, 1, 0.9999, 0.995, 0.57, 0)] == [
        "–",
        "100 %",
        "99.9 %",
        "99.5 %",
        "57.0 %",
        "0 %",
    ]


def test_a_quantile_needs_an_answer_beyond_it() -> None:
    assert formats.quantile(5.0, 0.999, 1000) == "5.00"
    assert formats.quantile(5.0, 0.999, 999) == "–"


def test_a_capacity_is_confirmed_by_the_runs_at_its_own_rate() -> None:
    found = capacity()
    missed = found["tries"][2] | {"rate_per_s": 52.0, "passed": True}
    found["tries"].insert(2, missed)
    assert [r.rate_per_s for r in Capacity.model_validate(found).confirmed()] == [50.0]


def test_a_run_says_what_was_sent() -> None:
    assert Run.model_validate(run(rate=24.25)).load == "poisson, 24.25/s"
    assert Run.model_validate(run(rate=None, callers=8)).load == "8 callers, closed loop"
    assert Run.model_validate(run(outcomes=[Outcome("connection", 0.1, 0.0)])).latency_ms.p99 is None
