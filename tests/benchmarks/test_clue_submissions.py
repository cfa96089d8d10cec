"""CLUE's prediction files: names, shapes, and the line that a leaderboard would refuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import suites
from benchmarks.readers import READERS
from benchmarks.records import ReaderError, Record
from benchmarks.submissions import CHECKS, SUBMISSIONS
from benchmarks.submissions.answered import Unanswered

OFFICIAL = Path(__file__).parents[1] / "official" / "clue"


def entities(record: Record) -> dict[str, Any]:
    text = record.item["text"]
    return {"entities": [{"type": t, "start": s, "end": e, "text": text[s:e]} for s, e, t in record.gold or []]}


GOLDEN: dict[str, Callable[[Record], dict[str, Any]]] = {
    "cmrc2018": lambda r: {"answer": {"text": r.gold[0]}},
    "drcd": lambda r: {"answer": {"text": r.gold[0]}},
    "chid": lambda r: {"blanks": [{"blank": blank, "choice": choice} for blank, choice in r.gold.items()]},
    "c3": lambda r: {"choice": r.gold},
    "cluener": entities,
    "diagnostics": lambda r: {"label": "neutral"},
}


def written(name: str, folder: Path, source: str = "dev.json", **changes: dict[str, Any]) -> Path:
    """Predictions that are the gold answers, of the official file under the name `source`; `changes` are by record."""
    suite = suites.load(f"clue/{name}")
    (folder / "data").mkdir()
    data = Path(shutil.copy(OFFICIAL / f"{name}.json", folder / "data" / source))
    if name == "chid":
        shutil.copy(OFFICIAL / "chid_answer.json", data.with_name(f"{data.stem}_answer.json"))
    records = READERS[suite.reader](data, suite)
    golden = GOLDEN.get(name, lambda r: {"label": r.gold})
    answers = [changes.get(f"record_{record.id}", golden(record)) for record in records]
    path = SUBMISSIONS[suite.reader](records, answers, suite, data, folder)
    assert path.parent == folder
    return path


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check(name: str, path: Path) -> None:
    suite = suites.load(f"clue/{name}")
    CHECKS[suite.reader](path, suite, path.parent / "data" / "dev.json")


@pytest.mark.parametrize(
    ("name", "source", "file"),
    [
        ("afqmc", "test.json", "afqmc_predict.json"),
        ("tnews", "test1.0.json", "tnews10_predict.json"),
        ("tnews", "test1.1.json", "tnews11_predict.json"),
        ("iflytek", "test.json", "iflytek_predict.json"),
        ("cmnli", "test.json", "cmnli_predict.json"),
        ("ocnli", "test.json", "ocnli_50k_predict.json"),
        ("diagnostics", "diagnostics_test.json", "diagnostics_predict.json"),
        ("csl", "test.json", "csl_predict.json"),
        ("wsc2020", "test1.0.json", "cluewsc10_predict.json"),
        ("wsc2020", "test1.1.json", "cluewsc11_predict.json"),
        ("cmrc2018", "test_2k.json", "cmrc2018_predict.json"),
        ("drcd", "test.json", "drcd_predict.json"),
        ("chid", "test1.0.json", "chid10_predict.json"),
        ("chid", "test1.1.json", "chid11_predict.json"),
        ("c3", "test1.0.json", "c310_predict.json"),
        ("c3", "test1.1.json", "c311_predict.json"),
        ("cluener", "test.json", "cluener_predict.json"),
    ],
)
def test_files_have_the_names_that_the_leaderboard_wants(name: str, source: str, file: str, tmp_path: Path) -> None:
    assert written(name, tmp_path, source).name == file


def test_a_label_is_a_line_with_the_place_in_the_file(tmp_path: Path) -> None:
    assert rows(written("tnews", tmp_path)) == [
        {"id": 0, "label": "103"},
        {"id": 1, "label": "107"},
        {"id": 2, "label": "115"},
        {"id": 3, "label": "100"},
    ]


def test_truth_is_a_string(tmp_path: Path) -> None:
    assert [row["label"] for row in rows(written("wsc2020", tmp_path))] == ["true", "false", "false", "true"]


def test_answers_are_one_object_by_question(tmp_path: Path) -> None:
    path = written("cmrc2018", tmp_path, record_DEV_1_QUERY_0={"answer": None}, record_DEV_0_QUERY_0={})
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "DEV_0_QUERY_0": "",
        "DEV_0_QUERY_1": "《兰江县志》",
        "DEV_1_QUERY_0": "",
    }


def test_idioms_are_one_object_by_blank(tmp_path: Path) -> None:
    answers = json.loads((OFFICIAL / "chid_answer.json").read_text(encoding="utf-8"))
    assert json.loads(written("chid", tmp_path).read_text(encoding="utf-8")) == answers


def test_choices_are_indexes_by_question(tmp_path: Path) -> None:
    assert rows(written("c3", tmp_path)) == [{"id": i, "label": label} for i, label in enumerate([1, 0, 1, 0])]


def test_entities_have_inclusive_ends(tmp_path: Path) -> None:
    path = written("cluener", tmp_path, record_2={})
    source = rows(OFFICIAL / "cluener.json")
    assert rows(path) == [{"id": i, "label": line["label"]} for i, line in enumerate(source)]


@pytest.mark.parametrize("name", ["afqmc", "chid", "c3"])
def test_a_record_that_was_refused_leaves_no_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(Unanswered, match="record 1 was refused by the server"):
        written(name, tmp_path, record_1={})
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]


@pytest.mark.parametrize(
    ("line", "text", "complaint"),
    [
        (0, '{"id": 0, "label": 1}', "line 1: expected 'label' to be str, found 1"),
        (1, '{"id": 1, "label": "2"}', "line 2: expected one of the suite's labels, found '2'"),
        (1, '{"id": 2, "label": "1"}', "line 2: expected the id 1, found 2"),
        (2, '{"label": "1"}', "line 3: expected an object with the key 'id'"),
        (3, "", "the file: expected 4 lines, one a record, found 3"),
        (3, '{"id": 3', "line 4: expected a JSON value"),
        (3, '{"id": 3, "label": "0"}\n{"id": 4, "label": "0"}', "expected 4 lines, one a record, found 5"),
    ],
)
def test_a_line_that_would_be_refused_is_named(line: int, text: str, complaint: str, tmp_path: Path) -> None:
    path = written("afqmc", tmp_path)
    check("afqmc", path)
    edited = path.read_text(encoding="utf-8").splitlines()
    edited[line] = text
    path.write_text("\n".join(edited), encoding="utf-8")
    with pytest.raises(ReaderError, match=complaint):
        check("afqmc", path)


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("chid", {"#idiom000104#": 10}, r"record 1: expected '#idiom000104#' to be an index below 10, found 10"),
        ("chid", {"#idiom000104#": "8"}, "record 1: expected '#idiom000104#' to be int"),
        ("chid", {"#idiom000999#": 1}, "#idiom000999#: expected no other keys than those of the test file"),
        ("drcd", {"9001-1-2": None}, "record 9001-1-2: expected '9001-1-2' to be str"),
        ("drcd", {"9001-1-9": "1997年"}, "9001-1-9: expected no other keys"),
    ],
)
def test_a_key_that_would_be_refused_is_named(
    name: str, change: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    path = written(name, tmp_path)
    check(name, path)
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(data | change, ensure_ascii=False), encoding="utf-8")
    with pytest.raises(ReaderError, match=complaint):
        check(name, path)
    path.write_text(json.dumps(dict(list(data.items())[:-1])), encoding="utf-8")
    with pytest.raises(ReaderError, match=f"expected an object with the key '{list(data)[-1]}'"):
        check(name, path)


@pytest.mark.parametrize(
    ("name", "row", "complaint"),
    [
        ("c3", {"id": 1, "label": 3}, "line 2: expected 'label' to be an index below 3, found 3"),
        ("c3", {"id": 1, "label": -1}, "line 2: expected 'label' to be an index below 3, found -1"),
        ("cluener", {"id": 1, "label": {"book": {"《夜航船》": [[0, 5]]}}}, "line 2: expected '《夜航船》' at 0"),
        ("cluener", {"id": 1, "label": {"song": {"《": [[0, 0]]}}}, "found 'song'"),
        ("cluener", {"id": 1, "label": []}, "line 2: expected 'label' to be dict"),
    ],
)
def test_a_choice_or_an_entity_that_cannot_be_is_named(
    name: str, row: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    path = written(name, tmp_path)
    edited = rows(path)
    edited[1] = row
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in edited), encoding="utf-8")
    with pytest.raises(ReaderError, match=complaint):
        check(name, path)


def test_another_name_is_refused(tmp_path: Path) -> None:
    path = written("afqmc", tmp_path)
    with pytest.raises(ReaderError, match=r"expected the name afqmc_predict\.json"):
        check("afqmc", path.rename(tmp_path / "afqmc.json"))
