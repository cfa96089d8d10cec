"""Triples in two steps: which pairs are asked about, in how many runs, and what their answers become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kit import Loaded

from service.bundle import Bundle
from service.errors import BundleError, InvalidItem
from service.tasks import family
from service.tasks.triple_extraction import Found, Span, TripleExtraction, listed
from service.tasks.windowed import WindowedItem
from service.types import Timing

Ask = Callable[[Any], Any]
TEXT = "糖尿病患者多饮，糖尿病用二甲双胍。"
SYMPTOM, DRUG, SYNONYM = "临床表现|症状", "药物治疗|药物", "同义词|疾病"


@dataclass
class Stage:
    """A stage that answers by a function, and remembers what it was asked at once."""

    answer: Ask
    asked: list[list[Any]] = field(default_factory=list)

    @property
    def Input(self) -> Any:
        return SimpleNamespace(model_validate=lambda request: request)

    def predict(self, items: Sequence[Any], run: Any, timings: Sequence[Timing]) -> list[Any]:
        self.asked.append(list(items))
        return [self.answer(item) for item in items]


def entities(*found: tuple[str, str, int, float], truncated: bool = False) -> dict[str, Any]:
    """The first step's answer: (role, text, start, score)."""
    return {
        "entities": [
            {"type": role, "text": text, "start": start, "end": start + len(text), "score": score}
            for role, text, start, score in found
        ],
        "truncated": truncated,
        "tokens": 10,
    }


def pair(request: dict[str, Any]) -> tuple[str, str]:
    s, o = request["subject"], request["object"]
    return request["text"][s["start"] : s["end"]], request["text"][o["start"] : o["end"]]


def by_table(table: dict[tuple[str, str], tuple[str, float]], otherwise: str) -> Ask:
    def answer(request: Any) -> Any:
        label, score = table.get(pair(request), (otherwise, 0.9))
        return {"label": label, "score": score, "truncated": False, "tokens": 5}

    return answer


@pytest.fixture
def pipeline(bundle_of: Callable[[str], Path]) -> TripleExtraction:
    bundle = Bundle(bundle_of("cblue/cmeie"))
    task = family(bundle)(bundle)
    assert isinstance(task, TripleExtraction)
    return task


def staged(
    task: TripleExtraction, found: Ask | dict[str, Any], table: dict[tuple[str, str], tuple[str, float]] | Ask
) -> tuple[Loaded, Stage]:
    answer = by_table(table, "no relation") if isinstance(table, dict) else table
    relations = Stage(answer)
    task.tasks = {"entities": Stage(found if callable(found) else lambda _: found), "relations": relations}  # type: ignore[dict-item]
    return Loaded(task, SimpleNamespace(run=lambda *_, **__: [])), relations  # type: ignore[arg-type]


MENTIONS = (
    ("subject", "糖尿病", 0, 0.9),
    ("object", "糖尿病", 0, 0.8),
    ("object", "多饮", 5, 0.7),
    ("subject", "糖尿病", 8, 0.95),
    ("object", "二甲双胍", 12, 0.99),
)
TABLE = {("糖尿病", "多饮"): (SYMPTOM, 0.75), ("糖尿病", "二甲双胍"): (DRUG, 0.6)}
PLACES = {"codepoint": (1, 4, 6, 8), "utf16": (2, 5, 7, 9), "byte": (4, 13, 19, 25)}


def test_pairs_that_have_a_relation_become_triples(pipeline: TripleExtraction) -> None:
    model, _ = staged(pipeline, entities(*MENTIONS), TABLE)
    subject = {"text": "糖尿病", "start": 0, "end": 3, "type": "疾病"}
    assert model.ask(text=TEXT) == {
        "triples": [
            {
                "subject": subject,
                "predicate": "临床表现",
                "object": {"text": "多饮", "start": 5, "end": 7, "type": "症状"},
                "score": 0.7,
            },
            {
                "subject": subject,
                "predicate": "药物治疗",
                "object": {"text": "二甲双胍", "start": 12, "end": 16, "type": "药物"},
                "score": 0.6,
            },
        ],
        "truncated": False,
        "tokens": 20,
    }


def test_a_string_is_asked_about_once_at_its_first_mention_and_never_with_itself(pipeline: TripleExtraction) -> None:
    model, relations = staged(pipeline, entities(*MENTIONS), TABLE)
    model.ask(text=TEXT)
    (asked,) = relations.asked
    assert [pair(request) for request in asked] == [("糖尿病", "多饮"), ("糖尿病", "二甲双胍")]
    assert {request["subject"]["start"] for request in asked} == {0}


def test_the_subjects_type_is_that_of_the_relations_row(pipeline: TripleExtraction) -> None:
    rows = {f"{p}|{o}": (s, p, o) for s, p, o in pipeline.params.relations}
    assert len(rows) == 53
    for label, (subject, predicate, kind) in rows.items():
        model, _ = staged(pipeline, entities(*MENTIONS), {("糖尿病", "多饮"): (label, 0.5)})
        (triple,) = model.ask(text=TEXT)["triples"]
        assert (triple["subject"]["type"], triple["predicate"], triple["object"]["type"]) == (subject, predicate, kind)


@pytest.mark.parametrize("unit", PLACES)
def test_offsets_count_what_the_caller_counts(pipeline: TripleExtraction, unit: str) -> None:
    found = entities(("subject", "糖尿病", 1, 0.9), ("object", "多饮", 6, 0.9))
    model, relations = staged(pipeline, found, TABLE)
    (triple,) = model.ask(text="😀糖尿病常有多饮", offset_unit=unit)["triples"]
    got = (triple["subject"]["start"], triple["subject"]["end"], triple["object"]["start"], triple["object"]["end"])
    assert got == PLACES[unit]
    assert relations.asked[0][0]["subject"] == {"start": 1, "end": 4}


@pytest.mark.parametrize(("threshold", "count"), [(0.0, 2), (0.6, 2), (0.65, 1), (0.71, 0)])
def test_triples_below_the_threshold_are_left_out(pipeline: TripleExtraction, threshold: float, count: int) -> None:
    model, _ = staged(pipeline, entities(*MENTIONS), TABLE)
    assert len(model.ask(text=TEXT, threshold=threshold)["triples"]) == count


def test_triples_that_read_the_same_are_one_with_the_first_place_and_the_best_score() -> None:
    text = "肺炎发热，肺炎发热"
    kinds = [("疾病", "临床表现", "症状"), ("症状", "临床表现", "其他")]
    found = [
        Found(Span(5, 7), Span(7, 9), kinds[0], 0.9),
        Found(Span(0, 2), Span(7, 9), kinds[0], 0.4),
        Found(Span(0, 2), Span(2, 4), kinds[0], 0.6),
        Found(Span(0, 2), Span(2, 4), kinds[1], 0.7),
    ]
    (triple,) = listed(WindowedItem(text=text), found)
    assert (triple["subject"]["start"], triple["object"]["start"]) == (0, 2)
    assert triple["object"]["type"] == "其他", "of types at one place the more probable"
    assert triple["score"] == 0.9


def test_of_too_many_pairs_the_most_probable_are_read(pipeline: TripleExtraction) -> None:
    text = "".join(f"{c}病" for c in "甲乙丙丁戊己")
    found = entities(
        ("subject", "甲病", 0, 0.9),
        *(("object", text[i : i + 2], i, score) for i, score in ((2, 0.5), (4, 0.95), (6, 0.6), (8, 0.7))),
    )
    pipeline.params = pipeline.params.model_copy(update={"max_pairs": 3})
    model, relations = staged(pipeline, found, lambda r: {"label": SYNONYM, "score": 1.0, "truncated": 0, "tokens": 1})
    answer = model.ask(text=text)
    assert [o for _, o in map(pair, relations.asked[0])] == ["丙病", "戊病", "丁病"]
    assert answer["truncated"] is True
    assert [triple["object"]["text"] for triple in answer["triples"]] == ["丙病", "丁病", "戊病"]


def test_a_pair_that_cannot_be_read_at_once_is_no_triple_and_is_told(pipeline: TripleExtraction) -> None:
    far = InvalidItem("the two spans lie 70 tokens apart", field="text", code="text_too_long")
    near = by_table(TABLE, SYMPTOM)
    model, _ = staged(pipeline, entities(*MENTIONS), lambda r: far if pair(r)[1] == "二甲双胍" else near(r))
    answer = model.ask(text=TEXT)
    assert [triple["object"]["text"] for triple in answer["triples"]] == ["多饮"]
    assert answer["truncated"] is True


def test_what_the_first_step_did_not_read_is_told(pipeline: TripleExtraction) -> None:
    model, _ = staged(pipeline, entities(truncated=True), {})
    assert model.ask(text=TEXT) == {"triples": [], "truncated": True, "tokens": 10}


@pytest.mark.parametrize("step", ["entities", "relations"])
def test_a_failure_stays_with_its_item(pipeline: TripleExtraction, step: str) -> None:
    def fails(of: Ask) -> Ask:
        return lambda request: RuntimeError(step) if request["text"].startswith("坏") else of(request)

    found: Ask = lambda _: entities(("subject", "糖尿病", 1, 0.9), ("object", "多饮", 6, 0.9))  # noqa: E731
    relation = by_table(TABLE, SYMPTOM)
    first, second = (fails(found), relation) if step == "entities" else (found, fails(relation))
    model, relations = staged(pipeline, first, second)
    items = [model.item(text=f"{c}糖尿病常有多饮") for c in "好坏好"]
    one, bad, two = model.task.predict(items, model.session.run, [Timing() for _ in items])
    assert isinstance(bad, RuntimeError)
    assert one == two
    assert [triple["predicate"] for triple in one["triples"]] == ["临床表现"]
    assert len(relations.asked[0]) == (2 if step == "entities" else 3)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (lambda rows: [*rows, ["症状", rows[0][1], rows[0][2]]], "rows repeat a predicate with an object type"),
        (lambda rows: [*rows, ["疾病", "新", "其他"]], r"stage relations has no labels \['新\|其他'\]"),
        (lambda rows: rows[:-1], "one label of stage relations is no relation, of .* which"),
        (lambda rows: [], "decoder.relations"),
    ],
)
def test_relations_that_do_not_fit_the_second_step_are_refused(
    copy_of: Callable[..., Path], changes: Ask, why: str
) -> None:
    rows = Bundle(copy_of("cblue/cmeie")).manifest.decoder["relations"]
    bundle = Bundle(copy_of("cblue/cmeie", decoder={"relations": changes(rows)}))
    with pytest.raises(BundleError, match=why):
        family(bundle)(bundle)


def test_roles_are_labels_of_the_first_step(copy_of: Callable[..., Path]) -> None:
    bundle = Bundle(copy_of("cblue/cmeie", decoder={"roles": ["object", "thing"]}))
    with pytest.raises(BundleError, match=r"finds \['subject', 'object'\], not \['object', 'thing'\]"):
        family(bundle)(bundle)
    turned = Bundle(copy_of("cblue/cmeie", decoder={"roles": ["object", "subject"]}))
    task = family(turned)(turned)
    assert isinstance(task, TripleExtraction)
    model, relations = staged(task, entities(*MENTIONS[1:4]), {})
    model.ask(text=TEXT)
    assert [pair(request) for request in relations.asked[0]] == [("多饮", "糖尿病")]


def test_so_many_pairs_that_nobody_could_list_them_are_no_matter(pipeline: TripleExtraction) -> None:
    text = "".join(chr(0x4E00 + i) for i in range(8000))
    found = [(role, text[i], i, 0.5 + i / 20_000) for i in range(8000) for role in ("subject", "object")]
    model, relations = staged(pipeline, entities(*found), {})
    assert model.ask(text=text)["truncated"] is True
    (asked,) = relations.asked
    assert len(asked) == pipeline.params.max_pairs
    places = [(r["subject"]["start"], r["object"]["start"]) for r in asked]
    assert all(s != o for s, o in places)
    assert min(min(place) for place in places) == 8000 - 17, "17 of either make 17 x 16 pairs, 16 only 240"
