"""Standard terms through the real graphs, and the catalogue that a bundle brings along."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import Loaded, edit

from service.bundle import Bundle, sha256
from service.errors import BundleError, InvalidItem
from service.graph.session import Chain
from service.loading import open_bundle, open_graph
from service.tasks import family
from service.tasks.term_normalization import read_catalogue
from service.types import Outputs, Row, Timing

SUITE = "cblue/chip-cdn"
Copy = Callable[..., Path]


class Counting:
    """A chain that remembers the sizes of its calls, by stage."""

    def __init__(self, chain: Any) -> None:
        self.chain = chain
        self.calls: list[tuple[str, int]] = []

    def run(self, rows: list[Row], *, stage: str) -> list[Outputs]:
        self.calls.append((stage, len(rows)))
        answers: list[Outputs] = self.chain.run(rows, stage=stage)
        return answers


def opened(folder: Path) -> Loaded:
    task, chain = open_bundle(Bundle(folder), "cpu")
    return Loaded(task, Counting(chain))  # type: ignore[arg-type]


@pytest.fixture
def model(bundle_of: Callable[[str], Path]) -> Loaded:
    return opened(bundle_of(SUITE))


def catalogue(folder: Path, text: str) -> Path:
    """Give a bundle another catalogue."""
    path = folder / "catalogue.tsv"
    path.write_text(text, encoding="utf-8")
    edit(folder, files={"catalogue.tsv": sha256(path)})
    return folder


def test_all_candidates_are_rows_of_one_run(copy_of: Copy) -> None:
    folder = catalogue(copy_of(SUITE), "".join(f"糖尿病{i}期\tE{i}\n" for i in range(240)))
    bundle = Bundle(folder)
    model = Loaded(family(bundle)(bundle), Counting(_chain(folder)))  # type: ignore[arg-type]
    timing = Timing()
    (answer,) = model.task.predict([model.item(text="糖尿病7期", top_k=500)], model.session.run, [timing])
    assert model.session.calls == [("counter", 1), ("ranker", 200)]  # type: ignore[attr-defined]
    assert timing.rows == 201
    assert len(answer["candidates"]) == 200


def test_names_are_read_in_half_width_and_answered_as_they_stand(copy_of: Copy) -> None:
    """Else a text in half width has few characters in common with its own term."""
    wide = "２型糖尿病（伴Ａ，Ｂ）"
    folder = catalogue(copy_of(SUITE), f'{wide}\tE11\n"高血压"\tI10\n慢性胃炎\n')
    bundle = Bundle(folder)
    task = family(bundle)(bundle)
    assert task._names == ["2型糖尿病(伴A,B)", "高血压", "慢性胃炎"]
    assert float(task._recall.scores("2型糖尿病(伴A,B)")[0]) == pytest.approx(2.0)
    model = Loaded(task, Counting(_chain(folder)))  # type: ignore[arg-type]
    assert wide in [c["name"] for c in model.ask(text="2型糖尿病", top_k=3)["candidates"]]


def _chain(folder: Path) -> Any:
    """Graphs alone: golden records are those of another catalogue."""
    stages = Bundle(folder).stages
    return Chain({name: open_graph(stage) for name, stage in stages.items()})


def test_answers_do_not_depend_on_who_else_is_asked(model: Loaded) -> None:
    requests = [
        {"text": text, "top_k": 11} for text in ("高血压病伴糖尿病", "右肺上叶恶性肿瘤？", "慢性胃炎" * 20, "病")
    ]
    together = model.ask_all(requests)
    assert [stage for stage, _ in model.session.calls] == ["counter", "ranker"]  # type: ignore[attr-defined]
    for got, request in zip(together, requests, strict=True):
        want = model.ask(**request)
        for key in ("terms", "candidates"):
            assert [c["name"] for c in got[key]] == [c["name"] for c in want[key]]
            assert [c["score"] for c in got[key]] == pytest.approx([c["score"] for c in want[key]], abs=2e-6)
        assert (got["truncated"], got["tokens"]) == (want["truncated"], want["tokens"])
    assert [answer["truncated"] for answer in together] == [False, False, True, False]


@pytest.mark.parametrize("text", ['"', '""\uff02', "\x07"])
def test_text_of_which_nothing_is_left_is_refused(model: Loaded, text: str) -> None:
    with pytest.raises(InvalidItem, match="no characters that the model knows") as refused:
        model.ask(text=text)
    assert refused.value.field == "text"


@pytest.mark.parametrize(("text", "reason"), [("  ", "empty_text"), ("a" + "\u0301" * 99, "invalid_text")])
def test_text_that_no_model_reads_is_refused(model: Loaded, text: str, reason: str) -> None:
    with pytest.raises(InvalidItem) as refused:
        model.item(text=text)
    assert (refused.value.field, refused.value.reason) == ("text", reason)


def test_a_catalogue_has_names_and_perhaps_codes(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.tsv"
    path.write_text("\ufeff高血压\tI10\n肺恶性肿瘤\n高血压\tI11\n 胃炎 \t\n", encoding="utf-8")
    assert read_catalogue(path) == [("高血压", "I10"), ("肺恶性肿瘤", None), (" 胃炎 ", None)]


@pytest.mark.parametrize(
    ("text", "line"), [("", 1), ("高血压\n\n胃炎\n", 2), ("高血压\n\tI10\n", 2), ("高血压\tI10\t原发性\n", 1)]
)
def test_a_line_without_a_name_is_refused_by_its_number(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "catalogue.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BundleError, match=f"line {line} is not a name, or a name, a tab and a code"):
        read_catalogue(path)


def test_a_bundle_without_its_catalogue_is_refused(copy_of: Copy) -> None:
    folder = copy_of(SUITE)
    manifest = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    del manifest["files"]["catalogue.tsv"]
    (folder / "bundle.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(BundleError, match=r"catalogue\.tsv is not listed under files"):
        family(Bundle(folder))(Bundle(folder))


@pytest.mark.parametrize(
    ("stage", "changes", "why"),
    [
        (None, {"decoder": {"match": "yes"}}, r"stage ranker has no label 'yes', but \['0', '1'\]"),
        (None, {"decoder": {"candidates": 0}}, r"decoder\.candidates"),
        (None, {"decoder": {"top": 3}}, r"decoder\.top"),
        ("counter", {"labels": ["one", "2", "3+"]}, r"labels of stage counter begin with no number: \['one'\]"),
    ],
)
def test_a_bundle_that_does_not_fit_is_refused(
    copy_of: Copy, stage: str | None, changes: dict[str, Any], why: str
) -> None:
    folder = copy_of(SUITE)
    edit(folder / stage if stage else folder, **changes)
    with pytest.raises(BundleError, match=why):
        family(Bundle(folder))(Bundle(folder))
