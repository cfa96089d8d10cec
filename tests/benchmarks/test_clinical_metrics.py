"""Clinical scores against values worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import suites
from benchmarks.metrics import METRICS
from benchmarks.records import Record
from suites import Suite


def suite(*labels: str, **decoder: Any) -> Suite:
    return suites.load("klue/ynat").model_copy(update={"labels": list(labels), "decoder": decoder})


def records(*golds: Any) -> list[Record]:
    return [Record(str(i), {}, gold) for i, gold in enumerate(golds)]


def risks(*values: float) -> list[dict[str, Any]]:
    """Answers of a model that tells death (the second label) from survival."""
    return [{"scores": [{"label": "death", "score": p}, {"label": "survival", "score": 1 - p}]} for p in values]


MORTALITY = suite("survival", "death")
# By falling risk: death, survival, death, survival, survival.
DEATHS = records("death", "survival", "death", "survival", "survival")
RISKS = risks(0.9, 0.8, 0.7, 0.2, 0.1)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        # Of the 2 x 3 pairs of a death and a survival, 5 are in the right order.
        ("roc_auc_macro", 5 / 6),
        ("roc_auc_micro", 5 / 6),
        # Precision at recall 0, 1/2, 1/2, 1: 1, 1, 1/2, 2/3; trapezoids of 1/2 each but where recall stands.
        ("auprc", 0.5 * (1 + 1) / 2 + 0.5 * (1 / 2 + 2 / 3) / 2),
        # The third threshold: precision 2/3, sensitivity 1.
        ("min_precision_sensitivity", 2 / 3),
    ],
)
def test_the_risk_of_the_second_of_two_labels(metric: str, value: float) -> None:
    assert METRICS[metric](DEATHS, RISKS, MORTALITY) == pytest.approx(100 * value)
    assert METRICS[metric](DEATHS, risks(0.9, 0.3, 0.7, 0.2, 0.1), MORTALITY) == pytest.approx(100)


@pytest.mark.parametrize(("metric", "value"), [("roc_auc_macro", 0.5), ("auprc", (1 + 0.4) / 2)])
def test_equal_risks_are_one_threshold(metric: str, value: float) -> None:
    assert METRICS[metric](DEATHS, risks(*[0.5] * 5), MORTALITY) == pytest.approx(100 * value)


def test_a_refused_record_has_the_worst_risk() -> None:
    given: list[dict[str, Any]] = [{}, *risks(0.8, 0.7, 0.2), {}]
    # Now a survival stands at 1 and a death at 0: of the six pairs only 0.7 before 0.2 is in the right order.
    assert METRICS["roc_auc_macro"](DEATHS, given, MORTALITY) == pytest.approx(100 / 6)


PHENOTYPES = suite("anemia", "sepsis", "shock")
SEEN = records(["anemia"], ["anemia", "sepsis"], [], ["sepsis"])


def phenotypes(*rows: tuple[float, float, float]) -> list[dict[str, Any]]:
    return [
        {"scores": [{"label": label, "score": p} for label, p in zip(PHENOTYPES.labels, row, strict=True)]}
        for row in rows
    ]


def test_phenotypes_are_averaged_where_some_have_them_and_some_do_not() -> None:
    given = phenotypes((0.9, 0.6, 0.5), (0.3, 0.8, 0.5), (0.4, 0.7, 0.5), (0.2, 0.1, 0.5))
    # anemia: pairs 0.9 > 0.4, 0.9 > 0.2, 0.3 < 0.4, 0.3 > 0.2: 3/4. sepsis: 0.8 above both, 0.1 below both: 2/4.
    # shock: nobody has it.
    assert METRICS["roc_auc_macro"](SEEN, given, PHENOTYPES) == pytest.approx(100 * (3 / 4 + 2 / 4) / 2)
    # All together: 0.9 above all 8 others, 0.3 above 0.2, 0.8 above all 8, 0.1 above none.
    assert METRICS["roc_auc_micro"](SEEN, given, PHENOTYPES) == pytest.approx(100 * (8 + 1 + 8 + 0) / 32)


def test_without_an_event_there_is_nothing_to_score() -> None:
    for metric in ("roc_auc_macro", "roc_auc_micro", "auprc", "min_precision_sensitivity"):
        assert METRICS[metric](records("survival", "survival"), risks(0.1, 0.2), MORTALITY) == 0


STAGES = suite("one", "two", "three", "four", class_values={"one": 0.5, "two": 1.5, "three": 4, "four": 20})


def test_kappa_weighs_by_the_distance_of_stages() -> None:
    golds = records("one", "two", "three", "four")
    given = [{"label": label} for label in ("one", "three", "three", "one")]
    # Distances: 0 + 1 + 0 + 3 of 4 records. By chance each gold meets one, three, three, one:
    # (0+2+2+0 + 1+1+1+1 + 2+0+0+2 + 3+1+1+3) / 4.
    assert METRICS["linear_kappa"](golds, given, STAGES) == pytest.approx(100 * (1 - 4 / (20 / 4)))
    assert METRICS["linear_kappa"](golds, [{"label": r.gold} for r in golds], STAGES) == 100
    assert METRICS["linear_kappa"](golds[:1], given[:1], STAGES) == 0  # chance alone cannot be wrong


def test_a_refused_stage_is_the_farthest() -> None:
    golds = records("one", "two", "three", "four")
    right: list[dict[str, Any]] = [{"label": record.gold} for record in golds]
    for i, farthest in enumerate(("four", "four", "one", "one")):
        worst = [*right[:i], {"label": farthest}, *right[i + 1 :]]
        refused = [*right[:i], {}, *right[i + 1 :]]
        assert METRICS["linear_kappa"](golds, refused, STAGES) == METRICS["linear_kappa"](golds, worst, STAGES)


def test_the_deviation_is_in_the_unit_of_the_values() -> None:
    hours = suite(score_range=(0, 100))
    given: list[dict[str, Any]] = [{"value": 10.0}, {"value": 50.0}, {}]
    # 2 off, 20 off, and of 30 the far end of the scale.
    assert METRICS["mean_absolute_deviation"](records(12.0, 30.0, 30.0), given, hours) == pytest.approx(
        (2 + 20 + 70) / 3
    )


def test_stages_with_values_are_scored_as_both() -> None:
    golds = records({"label": "one", "value": 0.7}, {"label": "four", "value": 30.0})
    given: list[dict[str, Any]] = [{"label": "one", "value": 0.5}, {}]
    # The second was refused: the farthest class, and the far end of the classes' values, which is 0.5.
    assert METRICS["mean_absolute_deviation"](golds, given, STAGES) == pytest.approx((0.2 + 29.5) / 2)
    assert METRICS["linear_kappa"](golds, given, STAGES) == pytest.approx(100 * (1 - 3 / ((0 + 0 + 3 + 3) / 2)))


@pytest.mark.parametrize(
    "metric", ["roc_auc_macro", "roc_auc_micro", "auprc", "min_precision_sensitivity", "linear_kappa"]
)
def test_a_record_with_a_weight_is_as_many_records(metric: str) -> None:
    score = METRICS[metric]
    answers = [
        {"label": "death" if s > 0.5 else "survival"} | a for s, a in zip((0.9, 0.8, 0.7, 0.2, 0.1), RISKS, strict=True)
    ]
    drawn = [0, 1, 1, 2, 4, 4, 4]
    weights = np.bincount(drawn, minlength=5).astype(float)
    expected = score([DEATHS[i] for i in drawn], [answers[i] for i in drawn], MORTALITY)
    assert score.weighted(DEATHS, answers, MORTALITY)(weights) == pytest.approx(expected)
