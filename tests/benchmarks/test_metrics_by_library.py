"""Our metrics beside the libraries that the official scripts call, on random answers: equal, draw by draw."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as library

import suites
from benchmarks.bootstrap import interval
from benchmarks.metrics import METRICS
from benchmarks.metrics.base import Metric
from benchmarks.records import Record

NER, RE, STS, YNAT, DP = (suites.load(f"klue/{name}") for name in ("ner", "re", "sts", "ynat", "dp"))
SEEDS = range(5)


def records(golds: list[Any], items: list[dict[str, Any]] | None = None) -> list[Record]:
    return [Record(str(i), items[i] if items else {}, gold) for i, gold in enumerate(golds)]


def draw(labels: list[str], n: int, seed: int) -> list[str]:
    """Labels of very different frequency, some of which do not occur."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(len(labels), 0.4))
    return [str(label) for label in rng.choice(labels, n, p=weights)]


@pytest.mark.parametrize("seed", SEEDS)
def test_macro_f1(seed: int) -> None:
    gold, found = draw(YNAT.labels, 80, seed), draw(YNAT.labels, 80, seed + 100)
    ours = METRICS["macro_f1"](records(gold), [{"label": label} for label in found], YNAT)
    assert ours == pytest.approx(100 * library.f1_score(gold, found, average="macro"))


@pytest.mark.parametrize("seed", SEEDS)
def test_character_macro_f1(seed: int) -> None:
    gold, found = draw(NER.labels, 60, seed), draw(NER.labels, 60, seed + 100)
    outside = NER.labels[-1]
    ours = METRICS["char_macro_f1"](records([{"tags": gold}], [{"text": "가" * 60}]), [{"tags": found}], NER)
    flat = [[outside, *tags, outside] for tags in (gold, found)]
    assert ours == pytest.approx(100 * library.f1_score(*flat, labels=NER.labels, average="macro", zero_division=1))


@pytest.mark.parametrize("seed", SEEDS)
def test_relation_micro_f1_and_area(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gold = draw(RE.labels, 90, seed)
    table = np.round(rng.dirichlet(np.full(len(RE.labels), 0.3), 90), 2)  # with ties
    answers = [
        {
            "label": RE.labels[int(row.argmax())],
            "scores": [{"label": label, "score": float(p)} for label, p in zip(RE.labels, row, strict=True)],
        }
        for row in table
    ]
    found = [answer["label"] for answer in answers]
    ours = METRICS["relation_micro_f1"](records(gold), answers, RE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours == pytest.approx(100 * library.f1_score(gold, found, labels=RE.labels[1:], average="micro"))
    areas = []
    for i, label in enumerate(RE.labels):
        if label in gold:
            precision, recall, _ = library.precision_recall_curve([g == label for g in gold], table[:, i])
            areas.append(library.auc(recall, precision))
    assert METRICS["relation_auprc"](records(gold), answers, RE) == pytest.approx(100 * np.mean(areas))


@pytest.mark.parametrize("seed", SEEDS)
def test_heads_and_relations(seed: int) -> None:
    """The official script's steps: rare relations merged, relations of wrong heads replaced, then macro-F1."""
    rng = np.random.default_rng(seed)
    heads, found_heads = rng.integers(0, 6, 70), rng.integers(0, 6, 70)
    relations, found_relations = rng.integers(0, 20, 70), rng.integers(0, 20, 70)
    gold = [[int(h), DP.labels[r]] for h, r in zip(heads, relations, strict=True)]
    answer = {
        "words": [{"head": int(h), "relation": DP.labels[r]} for h, r in zip(found_heads, found_relations, strict=True)]
    }
    relations[relations >= 15] = -3
    found_relations[found_relations >= 15] = -3
    found_relations[heads != found_heads] = -2
    for name, pair in (("uas_macro_f1", (heads, found_heads)), ("las_macro_f1", (relations, found_relations))):
        ours = METRICS[name](records([gold]), [answer], DP)
        assert ours == pytest.approx(100 * library.f1_score(*pair, average="macro"))


@pytest.mark.parametrize("seed", SEEDS)
def test_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gold, found = rng.uniform(0, 5, 50), rng.uniform(-1, 6, 50)
    answers = [{"value": float(value)} for value in found]
    ours = {name: METRICS[name](records(gold.tolist()), answers, STS) for name in ("pearson", "binary_f1")}
    assert ours["pearson"] == pytest.approx(100 * np.corrcoef(gold, found)[0, 1])
    assert ours["binary_f1"] == pytest.approx(100 * library.f1_score(gold >= 3, found >= 3))


def cases() -> list[tuple[str, suites.Suite, list[Record], list[Any]]]:
    rng = np.random.default_rng(7)
    labels, found = draw(YNAT.labels, 40, 1), draw(YNAT.labels, 40, 2)
    relations = draw(RE.labels[:4], 40, 3)
    table = rng.dirichlet(np.ones(4), 40)
    scored = [
        {"scores": [{"label": label, "score": float(p)} for label, p in zip(RE.labels, row, strict=False)]}
        for row in table
    ]
    values = rng.uniform(0, 5, 40)
    return [
        ("accuracy", YNAT, records(labels), [{"label": label} for label in found]),
        ("macro_f1", YNAT, records(labels), [{"label": label} for label in found]),
        ("relation_auprc", RE, records(relations), scored),
        ("pearson", STS, records(values.tolist()), [{"value": float(v)} for v in rng.uniform(0, 5, 40)]),
    ]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0])
def test_a_weight_is_how_often_a_record_counts(case: tuple[str, suites.Suite, list[Record], list[Any]]) -> None:
    name, suite, asked, answers = case
    metric = METRICS[name]
    score = metric.weighted(asked, answers, suite)
    assert score(np.ones(len(asked))) == metric(asked, answers, suite)
    rng = np.random.default_rng(3)
    for _ in range(5):
        drawn = rng.integers(len(asked), size=len(asked))
        weights = np.bincount(drawn, minlength=len(asked)).astype(float)
        again = metric([asked[i] for i in drawn], [answers[i] for i in drawn], suite)
        assert score(weights) == pytest.approx(again)


def test_the_interval_is_that_of_draws_with_replacement() -> None:
    """Of a share p of n records the percentile interval is close to p ± 1.96 sqrt(p (1 - p) / n)."""
    asked = records(["정치"] * 400)
    answers = [{"label": "정치" if i % 4 else "경제"} for i in range(400)]
    found = interval(METRICS["accuracy"], asked, answers, YNAT)
    half = 196 * (0.75 * 0.25 / 400) ** 0.5
    assert found.value == 75
    assert found.low == pytest.approx(75 - half, abs=0.6)
    assert found.high == pytest.approx(75 + half, abs=0.6)
    assert found == interval(METRICS["accuracy"], asked, answers, YNAT)
    right: Metric = METRICS["accuracy"]
    assert interval(right, asked[:1], answers[1:2], YNAT) == (100, 100, 100)
