"""KLUE's files as they are published: what becomes of each record, and what a file is refused for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import suites
from benchmarks.readers import READERS
from benchmarks.records import ReaderError, Record

OFFICIAL = Path(__file__).parents[1] / "official" / "klue"


def read(name: str, path: Path | None = None) -> list[Record]:
    suite = suites.load(f"klue/{name}")
    return READERS[suite.reader](path or next(OFFICIAL.glob(f"{name}.*")), suite)


def refused(name: str, path: Path, text: str, complaint: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReaderError, match=complaint) as caught:
        read(name, path)
    assert str(path) in str(caught.value)


def test_headlines_and_premises() -> None:
    topics, pairs = read("ynat"), read("nli")
    assert topics[0] == Record("ynat-own_00000", {"text": "시의회 임시회 개회…조례안 스무 건 심의"}, "정치")
    assert [record.gold for record in topics[1:]] == ["경제", "사회", "생활문화", "IT과학", "스포츠"]
    assert [record.gold for record in pairs] == ["entailment", "contradiction", "neutral", "neutral"]
    assert pairs[2].item == {
        "text": "우리는 산 아래 민박에서 하룻밤을 묵었다.",
        "text_pair": "민박의 주인은 친절했다.",
    }


def test_similarity_is_the_annotators_mean_and_not_the_rounded_label() -> None:
    assert [record.gold for record in read("sts")] == [4.714285714285714, 4.428571428571429, 1.8571428571428572, 0, 3]


def test_entity_ends_become_exclusive_and_guessed_positions_are_marked() -> None:
    first, *_, last = read("re")
    assert first.item["subject"] == {"start": 0, "end": 4, "type": "ORG"}
    assert first.item["text"][0:4] == "한빛전자"
    assert (first.gold, first.uncertain) == ("org:top_members/employees", None)
    assert last.uncertain == "the position of the subject was guessed"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"end_idx": 4}, "record 0, subject: expected '한빛전자' at 0 to 4, found '한빛전자의'"),
        ({"start_idx": "0"}, "record 0, subject: expected 'start_idx' to be int, found '0'"),
        ({"end_idx": 400}, "record 0, subject: expected '한빛전자' at 0 to 400"),
    ],
)
def test_spans_that_do_not_hold_their_word_are_refused(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    data = json.loads((OFFICIAL / "re.json").read_text(encoding="utf-8"))
    data[0]["subject_entity"] |= change
    refused("re", tmp_path / "re.json", json.dumps(data), complaint)


def test_every_accepted_answer_is_gold_and_an_unanswerable_question_has_none() -> None:
    records = read("mrc")
    assert [record.gold for record in records] == [
        ["두 달가량", "두 달"],
        ["어부들이", "어부들"],
        [],
        ["둘레부터", "둘레"],
    ]
    assert records[2].id == "klue-mrc-own_00002"
    assert records[0].item["question"] == "도서관을 다시 열기 전 공사는 얼마나 걸렸나?"
    assert records[0].item["context"] == records[2].item["context"] != records[3].item["context"]


def test_a_dialogue_is_a_record_for_every_turn_of_the_user() -> None:
    records = read("wos")
    assert [record.id for record in records] == [f"wos-own_00000-{k}" for k in (0, 1, 2)] + [
        "wos-own_00001-0",
        "wos-own_00001-1",
    ]
    assert [len(record.item["turns"]) for record in records] == [1, 3, 5, 1, 3]
    assert all(record.item["turns"][-1]["role"] == "user" for record in records)
    assert records[1].item["turns"][1] == {"role": "sys", "text": "네, 두 곳이 있습니다. 더 원하시는 조건이 있나요?"}
    assert records[3].gold == {}


def test_dashes_after_the_second_belong_to_the_slots_value() -> None:
    assert read("wos")[2].gold == {
        "숙소-지역": "서울 남쪽",
        "숙소-가격대": "저렴",
        "숙소-주차 가능": "yes",
        "숙소-이름": "강변 하우스-2호점",
        "숙소-예약 명수": "2",
    }


def test_text_is_the_column_of_characters_with_its_spaces() -> None:
    records = read("ner")
    assert [record.item["text"] for record in records] == [
        "오세진 대표는 지난 3일 강릉에 갔다.",
        "한빛전자는 오전 9시부터 신제품 다섯 종을 판다!!",
        "정말 오래 기다렸는데 #재미없다 ㅠㅠ",
        "푸른 재단 윤가람 이사장",
        "세 사람이 춘천-원주 길을 걸었다",
    ]
    assert records[3].id == "klue-ner-own_00003"
    assert records[3].item["tags"] is True
    assert records[3].gold == {"tags": ["B-OG", *["I-OG"] * 4, "O", "B-PS", "I-PS", "I-PS", *["O"] * 4]}


def test_words_have_heads_relations_and_parts_of_speech() -> None:
    first = read("dp")[0]
    assert first.id == "klue-dp-own_00000"
    assert first.item == {
        "words": ["빵집은", "아침에", "문을", "연다."],
        "pos": ["NNG+JX", "NNG+JKB", "NNG+JKO", "VV+EF+SF"],
    }
    assert first.gold == [[4, "NP_SBJ"], [4, "NP_AJT"], [4, "NP_OBJ"], [0, "VP"]]


def test_the_last_sentence_needs_no_blank_line_and_sentences_may_touch(tmp_path: Path) -> None:
    path = tmp_path / "ner.tsv"
    path.write_text("## a\t가\n가\tO\n## b\t나\n나\tB-PS", encoding="utf-8")
    assert [(r.id, r.item["text"], r.gold) for r in read("ner", path)] == [
        ("a", "가", {"tags": ["O"]}),
        ("b", "나", {"tags": ["B-PS"]}),
    ]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("ner", "## a\t가\n가 O\n", "line 2: expected 2 columns separated by tabs, found '가 O'"),
        ("ner", "## a\t가나\n가나\tO\n", "line 2: expected one character and its tag, found '가나'"),
        ("ner", "## a\t가\n가\tB-XX\n", "line 2: expected one of the suite's labels, found 'B-XX'"),
        ("ner", "가\tO\n", "line 1: expected a line '## id<tab>sentence' before the sentence"),
        ("dp", "## a\t연다.\n2\t연다.\t열다\tVV\t0\tVP\n", "line 2: expected word 1 of the sentence, found '2'"),
        ("dp", "## a\t연다.\n1\t연다.\t열다\tVV\t2\tVP\n", "line 2: expected a head between 0 and 1, found '2'"),
        ("dp", "## a\t연다.\n1\t연다.\t열다\tVV\t0\tROOT\n", "line 2: expected one of the suite's labels"),
        ("ynat", "{}", "the file: expected a list of records"),
        ("ynat", "[1]", "record 0: expected an object"),
        ("ynat", "[{", "the file: expected JSON"),
        ("ynat", '[{"guid": "a", "title": "b"}]', "record 0: expected an object with the key 'label'"),
        ("nli", '[{"guid": "a", "premise": 1}]', "record 0: expected 'premise' to be str, found 1"),
        ("sts", '[{"guid": "a", "sentence1": "b", "sentence2": "c", "labels": {"real-label": true}}]', "int or float"),
        ("mrc", '{"data": [{"paragraphs": [{"context": "a"}]}]}', "article 0: expected an object with the key 'qas'"),
        ("wos", '[{"guid": "w", "dialogue": [{"role": "bot", "text": "a"}]}]', "w: expected the role user or sys"),
        (
            "wos",
            '[{"guid": "w", "dialogue": [{"role": "user", "text": "a", "state": ["식당-종류"]}]}]',
            "w, turn 1: expected domain-slot-value, found '식당-종류'",
        ),
    ],
)
def test_a_file_that_breaks_its_format_is_refused_with_the_place(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    refused(name, tmp_path / "file", text, complaint)
