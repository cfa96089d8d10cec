"""Biomedical files as they are published: text from tokens, entities, pairs, and what a file is refused for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import suites
from benchmarks.readers import READERS, files
from benchmarks.readers.biomed import written
from benchmarks.records import ReaderError, Record

OFFICIAL = Path(__file__).parents[1] / "official"


def read(name: str, path: Path | None = None) -> list[Record]:
    suite = suites.load(name)
    return READERS[name](path or next(OFFICIAL.glob(f"{name}.*")), suite)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("Risk of lung , but not of breast , cancer .", "Risk of lung, but not of breast, cancer."),
        ("non - syndromic deafness ( NSD )", "non-syndromic deafness (NSD)"),
        ("ibuprofen / codeine : 5 %", "ibuprofen/codeine: 5%"),
        ("Parkinson ' s disease", "Parkinson's disease"),
        ("[ 3 H ] dopamine ; p < 0 . 05", "[3 H] dopamine; p < 0. 05"),
        ("one", "one"),
    ],
)
def test_tokens_are_joined_as_english_is_written(tokens: str, text: str) -> None:
    pieces = tokens.split()
    found, starts = written(pieces)
    assert found == text
    assert [found[start : start + len(piece)] for start, piece in zip(starts, pieces, strict=True)] == pieces


def test_a_tagged_sentence_keeps_the_tag_and_the_place_of_every_token() -> None:
    records = read("biomed/ncbi-disease")
    assert len(records) == 4
    assert records[1].item == {
        "text": "No mutation was found in patients with non-syndromic deafness (NSD).",
        "tags": True,
    }
    assert [
        (records[1].item["text"][start:].split()[0], tag)
        for start, tag in zip(records[1].gold["starts"], records[1].gold["tags"], strict=True)
        if tag.startswith("B-")
    ] == [("non-syndromic", "B-Disease"), ("NSD).", "B-Disease")]
    assert set(records[2].gold["tags"]) == {"O"}


def test_types_of_the_other_corpus_are_refused() -> None:
    with pytest.raises(ReaderError, match="line 1: expected one of the suite's labels, found 'B-Chemical'"):
        read("biomed/ncbi-disease", OFFICIAL / "biomed" / "bc5cdr.tsv")
    assert [len(record.gold["tags"]) for record in read("biomed/bc5cdr")] == [11, 9, 11]


def test_a_question_and_its_abstract_are_one_document() -> None:
    records = read("biomed/pubmedqa")
    assert [record.gold for record in records] == ["yes", "no", "maybe"]
    text = "Is the colour of the ward associated with the length of stay? Wards were painted blue or yellow by lot. "
    assert records[1] == Record("90000002", {"text": text + "Stays lasted 5.1 and 5.0 days."}, "no")


def test_a_mention_that_is_not_at_its_offset_is_no_gold() -> None:
    records, asked = read("chineseblue/cehrner"), read("chineseblue/cmedqaner")
    assert records[0].gold == [[3, 5, "解剖部位"], [5, 7, "症状"], [11, 17, "手术"], [22, 25, "药物"]]
    assert [len(record.gold) for record in records] == [4, 3, 0]
    assert asked[1].gold == [[0, 3, "disease"], [4, 8, "treatment"]]
    for record in [*records, *asked]:
        assert all(record.item["text"][start:end] for start, end, _ in record.gold)


def test_labelled_lines_lose_the_white_space_around_their_texts() -> None:
    assert read("chineseblue/cmedqq")[2] == Record(
        "2", {"text": "血压多少算偏高", "text_pair": "血压高的标准是多少?"}, "1"
    )
    assert read("chineseblue/cmedtc")[0].item == {"text": "1. 年龄满18周岁,不超过65周岁;"}
    assert [record.gold for record in read("chineseblue/cmedic")] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("biomed/bc5cdr", "aspirin B-Chemical\n", "line 1: expected a token, a tab and its tag"),
        ("biomed/bc5cdr", "\tO\n", "line 1: expected a token, a tab and its tag"),
        ("biomed/pubmedqa", "[]", "the file: expected an object of records by PubMed id"),
        (
            "biomed/pubmedqa",
            '{"1": {"QUESTION": "a", "CONTEXTS": [1]}}',
            "1: expected 'CONTEXTS' to be a list of texts",
        ),
        ("chineseblue/cmedic", "1\ta\tb\n", "line 1: expected 2 columns"),
        ("chineseblue/cmedqq", "2\ta\tb\n", "line 1: expected one of the suite's labels, found '2'"),
        ("chineseblue/cehrner", '{"text": "a"}\n{\n', "line 1: expected an object with the key 'mention_data'"),
        ("chineseblue/cehrner", "{\n", "line 1: expected a JSON value"),
    ],
)
def test_a_file_that_breaks_its_format_is_refused_with_the_place(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    path = tmp_path / "file"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReaderError, match=complaint) as caught:
        read(name, path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("offset", "complaint"), [("-1", "expected an offset"), (True, "str or int"), (None, "str or int")]
)
def test_offsets_are_digits(tmp_path: Path, offset: object, complaint: str) -> None:
    path = tmp_path / "file"
    mention = {"mention": "咳嗽", "type": "symptom", "offset": offset}
    path.write_text(json.dumps({"text": "咳嗽", "mention_data": [mention]}), encoding="utf-8")
    with pytest.raises(ReaderError, match=f"line 1: {complaint}|line 1: expected 'offset' to be {complaint}"):
        read("chineseblue/cmedqaner", path)


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes("\ufeff가\u2028나\r\n다\x0b라\n".encode())
    assert list(files.lines(path)) == [(1, "가\u2028나"), (2, "다\x0b라")]
    path.write_bytes(b"\xff")
    with pytest.raises(ReaderError, match="byte 0: expected UTF-8 text"):
        list(files.lines(path))
