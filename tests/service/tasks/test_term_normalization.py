"""Standard terms: what recall and models are asked, how ranking and count decide, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kit import Loaded

from service.bundle import Bundle
from service.errors import InvalidItem
from service.tasks import family
from service.tasks.recall import Recall
from service.tasks.term_normalization import TermNormalization, fused
from service.types import Timing

SUITE = "cblue/chip-cdn"
CODES = {"高血压": "I10.x00", "糖尿病": "E14.900", "2型糖尿病": "E11.900", "肺恶性肿瘤": None}


@dataclass
class Stage:
    """A stage that answers by a function, and remembers what it was asked at once."""

    answer: Callable[[dict[str, Any]], Any]
    asked: list[list[dict[str, Any]]] = field(default_factory=list)

    @property
    def Input(self) -> Any:
        return SimpleNamespace(model_validate=lambda request: request)

    def predict(self, items: Sequence[dict[str, Any]], run: Any, timings: Sequence[Timing]) -> list[Any]:
        self.asked.append(list(items))
        return [self.answer(item) for item in items]


def answered(label: str, **scores: float) -> dict[str, Any]:
    listed = [{"label": key.removeprefix("l"), "score": score} for key, score in scores.items()]
    return {"label": label, "scores": listed, "truncated": False, "tokens": 5}


@pytest.fixture
def task(bundle_of: Callable[[str], Path]) -> TermNormalization:
    bundle = Bundle(bundle_of(SUITE))
    made = family(bundle)(bundle)
    assert isinstance(made, TermNormalization)
    return made


def decided(task: TermNormalization, probabilities: dict[str, float], number: str = "1") -> tuple[Loaded, Stage, Stage]:
    """The task with stages that give these probabilities (0.1 to other names) and this number."""
    ranker = Stage(lambda r: answered("1", l1=probabilities.get(r["text_pair"], 0.1), l0=0.0))
    counter = Stage(lambda r: answered(number))
    task.tasks = {"ranker": ranker, "counter": counter}  # type: ignore[dict-item]
    return Loaded(task, SimpleNamespace(run=lambda *_, **__: [])), ranker, counter  # type: ignore[arg-type]


def names(answer: dict[str, Any]) -> list[str]:
    return [term["name"] for term in answer["terms"]]


def likeness(task: TermNormalization, text: str, name: str) -> float:
    known = [name for name, _ in task._catalogue]
    return float(Recall(known).scores(text)[known.index(name)])


def test_the_best_term_has_its_code_and_the_mean_of_both_scores(task: TermNormalization) -> None:
    model, _, _ = decided(task, {"高血压": 0.8, "糖尿病": 0.7})
    answer = model.ask(text="高血压病")
    score = (likeness(task, "高血压病", "高血压") / 2 + 0.8) / 2
    assert answer == {
        "terms": [{"name": "高血压", "code": "I10.x00", "score": pytest.approx(score, abs=1e-6)}],
        "candidates": [],
        "truncated": False,
        "tokens": 5 * 12,
    }


def test_the_order_is_that_of_the_fused_score_not_of_the_ranker_alone(task: TermNormalization) -> None:
    model, _, _ = decided(task, {"糖尿病": 0.6, "高血压": 0.65}, "2")
    assert names(model.ask(text="糖尿病")) == ["糖尿病", "高血压"]


@pytest.mark.parametrize(
    ("text", "number", "kept"),
    [
        ("糖尿病", "1", 1),
        ("糖尿病", "2", 2),
        ("糖尿病", "3+", 3),
        ("糖尿病伴高血压", "1", 2),
        ("糖尿病及高血压", "1", 2),
        ("糖尿病;高血压", "1", 2),
        ("糖尿病及高血压伴胃炎", "1", 3),
        ("糖尿病;高血压;胃炎;溃疡", "2", 4),
        ("糖尿病伴高血压", "3+", 3),
        ("糖尿病；高血压", "1", 1),  # joints are counted in the text as it was written
        ("糖尿病、高血压", "1", 1),
    ],
)
def test_as_many_terms_as_the_counter_says_or_the_joints_ask_for(
    task: TermNormalization, text: str, number: str, kept: int
) -> None:
    model, _, _ = decided(task, {name: 0.9 for name, _ in task._catalogue}, number)
    assert len(model.ask(text=text)["terms"]) == kept


@pytest.mark.parametrize(("probability", "kept"), [(0.499999, False), (0.5, True)])
def test_a_term_counts_from_a_probability_of_one_half(task: TermNormalization, probability: float, kept: bool) -> None:
    model, _, _ = decided(task, {"糖尿病": probability}, "3+")
    none = [{"name": "“糖尿病”，", "code": None, "score": None}]
    answer = model.ask(text="“糖尿病”，")
    assert names(answer) == ["糖尿病"] if kept else answer["terms"] == none, "without a term the text itself"


def test_models_read_half_width_and_one_separator(task: TermNormalization) -> None:
    model, ranker, counter = decided(task, {})
    model.ask(text='"２型糖尿病？高血压、Ａ／Ｂ：１．５～２，\\"')
    assert [request["text"] for request in counter.asked[0]] == ["2型糖尿病;高血压;A;B;1;5-2;;"]
    assert {request["text"] for request in ranker.asked[0]} == {"2型糖尿病;高血压;A;B;1;5-2;;"}
    assert ranker.asked[0][0]["text_pair"] == "2型糖尿病"


def test_names_in_half_width_are_read_as_the_catalogue_has_them(task: TermNormalization) -> None:
    model, ranker, _ = decided(task, {})
    model.ask(text="肺癌")
    assert {request["text_pair"] for request in ranker.asked[0]} == {name for name, _ in task._catalogue}


@pytest.mark.parametrize(("top_k", "count"), [(None, 0), (1, 1), (3, 3), (99, 11)])
def test_candidates_are_the_ranking_whether_or_not_they_are_answers(
    task: TermNormalization, top_k: int | None, count: int
) -> None:
    model, _, _ = decided(task, {"高血压": 0.8})
    answer = model.ask(text="高血压", top_k=top_k)
    assert len(answer["candidates"]) == count
    scores = [candidate["score"] for candidate in answer["candidates"]]
    assert scores == sorted(scores, reverse=True)
    assert answer["candidates"][:1] == answer["terms"][:count]
    assert {c["name"]: c["code"] for c in answer["candidates"]}.items() & CODES.items() or not count


def test_only_so_many_terms_are_recalled(task: TermNormalization) -> None:
    task.params = task.params.model_copy(update={"candidates": 4})
    model, ranker, _ = decided(task, {})
    model.ask(text="慢性胃炎")
    assert ranker.asked[0][0]["text_pair"] == "慢性胃炎"
    assert len(ranker.asked[0]) == 4


def test_fusion_breaks_ties_by_likeness() -> None:
    ranking = fused(np.array([7, 3, 5]), np.array([1.0, 0.8, 0.6]), np.array([0.5, 0.6, 0.9]))
    assert ranking.terms.tolist() == [5, 7, 3]
    assert ranking.scores.tolist() == pytest.approx([0.6, 0.5, 0.5])


def test_a_name_that_the_ranker_cannot_read_means_nothing(task: TermNormalization) -> None:
    model, ranker, _ = decided(task, {"糖尿病": 0.9, "高血压": 0.9}, "3+")
    fine, unread = ranker.answer, InvalidItem("no characters", field="text_pair", code="no_tokens")
    ranker.answer = lambda r: unread if r["text_pair"] == "高血压" else fine(r)
    assert names(model.ask(text="高血压")) == ["糖尿病"]


@pytest.mark.parametrize("step", ["ranker", "counter"])
def test_a_failure_stays_with_its_item(task: TermNormalization, step: str) -> None:
    model, ranker, counter = decided(task, {"糖尿病": 0.9})
    stage = ranker if step == "ranker" else counter
    fine = stage.answer
    stage.answer = lambda r: RuntimeError(step) if "坏" in r["text"] else fine(r)
    items = [model.item(text=f"{c}糖尿病") for c in "好坏好"]
    one, bad, two = task.predict(items, model.session.run, [Timing() for _ in items])
    assert isinstance(bad, RuntimeError)
    assert one == two
    assert names(one) == ["糖尿病"]


def test_what_one_model_did_not_read_is_told(task: TermNormalization) -> None:
    model, ranker, _ = decided(task, {})
    fine = ranker.answer
    ranker.answer = lambda r: fine(r) | {"truncated": r["text_pair"] == "十二指肠溃疡"}
    assert model.ask(text="糖尿病")["truncated"] is True
