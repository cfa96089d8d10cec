"""Triples in two steps through the real graphs: how rows are batched, that batches change nothing, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from kit import Loaded
from tiny import checkpoint, tiny_suite

from exporters.export import export
from service.bundle import Bundle
from service.errors import InvalidItem
from service.loading import open_bundle
from service.tasks.triple_extraction import TripleExtraction
from service.types import Outputs, Row, Timing

TEXTS = [
    "糖尿病@糖尿病患者常有多饮、多尿的症状，可口服二甲双胍治疗。",
    "肺结核由结核分枝杆菌引起，胸部CT检查有助于诊断。",
    "急性阑尾炎的主要表现为转移性右下腹痛，确诊后多行阑尾切除术。" * 4,
    "糖尿病",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose first step finds subjects and objects, as that of the default seed does not."""
    torch.set_num_threads(1)
    suite = tiny_suite("cblue/cmeie")
    suite = suite.model_copy(update={"decoder": suite.decoder | {"max_pairs": 24}})
    source = checkpoint("bert", suite, tmp_path_factory.mktemp("checkpoint"), seed=9)
    return Path(export(str(source), suite, name="triples", out=tmp_path_factory.mktemp("bundle")).place)


class Counting:
    """A chain that remembers the sizes of its calls, by stage."""

    def __init__(self, chain: Any) -> None:
        self.chain = chain
        self.calls: list[tuple[str, int]] = []

    def run(self, rows: list[Row], *, stage: str) -> list[Outputs]:
        self.calls.append((stage, len(rows)))
        answers: list[Outputs] = self.chain.run(rows, stage=stage)
        return answers


@pytest.fixture
def model(folder: Path) -> Loaded:
    task, chain = open_bundle(Bundle(folder), "cpu")
    return Loaded(task, Counting(chain))  # type: ignore[arg-type]


def thirty(model: Loaded) -> list[Any]:
    """Items with 5 subjects and 6 objects each, whatever the first graph finds."""
    text = "".join(f"{c}病" for c in "甲乙丙丁戊") + "".join(f"{c}症" for c in "子丑寅卯辰巳")
    found = [("subject" if i < 5 else "object", text[2 * i : 2 * i + 2], 2 * i) for i in range(11)]
    answer = {
        "entities": [{"type": r, "text": t, "start": a, "end": a + 2, "score": 0.9} for r, t, a in found],
        "truncated": False,
        "tokens": 24,
    }
    model.task.tasks["entities"].decode = lambda item, encoded, outputs: answer
    model.task.params = model.task.params.model_copy(update={"max_pairs": 64})
    return [model.item(text=text), model.item(text=text)]


def test_thirty_pairs_are_rows_of_one_run(model: Loaded) -> None:
    items, timing = thirty(model)[:1], Timing()
    (answer,) = model.task.predict(items, model.session.run, [timing])
    assert model.session.calls == [("entities", 1), ("relations", 30)]  # type: ignore[attr-defined]
    assert timing.rows == 31
    assert timing.inference > 0
    assert answer["tokens"] == 24 + 30 * (2 + 4 + 22)


def test_pairs_of_all_items_are_run_together(model: Loaded) -> None:
    items = thirty(model)
    timings = [Timing() for _ in items]
    one, two = model.task.predict(items, model.session.run, timings)
    assert one == two
    assert model.session.calls == [("entities", 2), ("relations", 60)]  # type: ignore[attr-defined]


def test_a_triple_is_a_slice_of_the_callers_text_of_a_row_of_the_schema(model: Loaded) -> None:
    rows = {tuple(row) for row in model.task.params.relations}
    found = 0
    for text in TEXTS:
        answer = model.ask(text=text)
        found += len(answer["triples"])
        for triple in answer["triples"]:
            subject, object_ = triple["subject"], triple["object"]
            for part in (subject, object_):
                assert part["text"] == text[part["start"] : part["end"]] != ""
            assert subject["text"] != object_["text"]
            assert (subject["type"], triple["predicate"], object_["type"]) in rows
            assert 0 < triple["score"] <= 1
        assert len({str(triple) for triple in answer["triples"]}) == len(answer["triples"])
    assert found > 20, "an empty answer proves nothing"


def test_answers_do_not_depend_on_who_else_is_asked(model: Loaded) -> None:
    together = model.ask_all([{"text": text} for text in TEXTS])
    alone = [model.ask(text=text) for text in TEXTS]
    for a, b in zip(together, alone, strict=True):
        assert [drop(t) for t in a["triples"]] == [drop(t) for t in b["triples"]]
        assert [t["score"] for t in a["triples"]] == pytest.approx([t["score"] for t in b["triples"]], abs=2e-6)
        assert (a["truncated"], a["tokens"]) == (b["truncated"], b["tokens"])


def drop(triple: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in triple.items() if key != "score"}


def test_long_text_is_read_in_windows_unless_the_caller_says_otherwise(model: Loaded) -> None:
    text = TEXTS[2]
    model.ask(text=text)
    assert dict(model.session.calls)["entities"] > 1  # type: ignore[attr-defined]
    cut = model.ask(text=text, on_overflow="truncate")
    assert cut["truncated"] is True
    assert all(t[role]["end"] <= 62 for t in cut["triples"] for role in ("subject", "object"))
    with pytest.raises(InvalidItem) as refused:
        model.ask(text=text, on_overflow="error")
    assert (refused.value.field, refused.value.reason) == ("text", "text_too_long")


def test_spans_too_far_apart_are_no_pair(model: Loaded) -> None:
    text = "甲病" + "，" * 70 + "子症"
    found = [("subject", "甲病", 0), ("object", "子症", 72)]
    model.task.tasks["entities"].decode = lambda item, encoded, outputs: {
        "entities": [{"type": r, "text": t, "start": a, "end": a + 2, "score": 0.9} for r, t, a in found],
        "truncated": False,
        "tokens": 24,
    }
    assert model.ask(text=text) == {"triples": [], "truncated": True, "tokens": 24}


@pytest.mark.parametrize(
    ("fields", "path", "reason"),
    [({"text": " \u200b"}, "text", "empty_text"), ({"text": "a" + "\u0301" * 99}, "text", "invalid_text")],
)
def test_text_that_no_model_reads_is_refused(model: Loaded, fields: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(InvalidItem) as refused:
        model.item(**fields)
    assert (refused.value.field, refused.value.reason) == (path, reason)


def test_text_without_a_known_character_is_refused(model: Loaded) -> None:
    with pytest.raises(InvalidItem, match="no characters that the model knows") as refused:
        model.ask(text="\x07")
    assert refused.value.field == "text"


def test_a_bundle_opens_with_its_stages(folder: Path) -> None:
    task, chain = open_bundle(Bundle(folder), "cpu")
    assert isinstance(task, TripleExtraction)
    assert task.tasks.keys() == chain.sessions.keys() == {"entities", "relations"}  # type: ignore[union-attr]
