"""Offsets: whatever Unicode a caller sends, spans are slices of the caller's own string."""

from __future__ import annotations

import json
import unicodedata
from itertools import pairwise
from typing import Any

import httpx
import pytest

NER = ("klue-ner", "bc5cdr", "ncbi-disease", "cehrner", "cmedqaner")
PERSON = "이순신은 부산에 갔다."
ODD = [
    "서울 ( 대한민국 ) 에서 1 , 000 명 이 모였다 ?",
    "  김철수는 \t 부산에\u00a0산다.  \r\n",
    "김철수는 １２３４원을 냈다. ＡＢＣ ㈜삼성전자 ㎏ ﬁn",
    "최민호라던데요~\u1112\u110b 부산에서 ㅋㅋㅋ",
    "𠮷野家와 🫠김민수 그리고 이영희 🙂 🇰🇷",
    "Rindfleischetikettierung GmbH moved from Wolfratshausen to Castrop-Rauxel.",
    "naïve e\u0301 cafe\u0301 Tom\u00adlives in Pa\u200bris\ufe0f.",
    "손님이 마포구\u110b\u116d 라고 말했다",
    "[CLS] 이순신 [SEP] <s> 여수 </s> [MASK] ##부산 ▁서울",
    "患者因肺癌。行肺叶切除术，术后行多西他赛化疗！",
    "宝宝\u3000感冒\u200b咳嗽，可以吃阿莫西林吗？",
    "Cisplatin-induced (acute) renal failure; β-blocker, 5\u2032-FU & aspirin.\x00",
    "\ufeff\u200b이순신\u2060은\u200d 여수\ufe0f에 갔다\u202e.",
    "นายสมชาย หิน์ दिल्ली में רָחֵל",
]


def entities(client: httpx.Client, name: str, text: str, **options: Any) -> list[dict[str, Any]]:
    response = client.post(f"/{name}", json={"text": text} | options)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["entities"]
    return found


def lies(found: list[dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    return [(e["type"], e["text"], e["start"], e["end"]) for e in found]


def splits_a_character(text: str, at: int) -> bool:
    """Before a mark or a joiner, or between the jamo of one syllable."""
    if not 0 < at < len(text):
        return False
    joint = unicodedata.normalize("NFC", text[at - 1 : at + 1])
    return unicodedata.category(text[at])[0] == "M" or (len(joint) == 1 and ord(text[at]) in range(0x1161, 0x1200))


@pytest.mark.parametrize("name", NER)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_every_entity_is_a_slice_of_the_callers_text(client: httpx.Client, name: str, form: Any) -> None:
    # huggingface/transformers#3058, #18738, huggingface/tokenizers#1201, KLUE-benchmark/KLUE#40.
    for text in [unicodedata.normalize(form, text) for text in (PERSON, *ODD, " ".join(ODD))]:
        last = 0
        for e in entities(client, name, text):
            assert e["text"] == text[e["start"] : e["end"]] != ""
            assert e["start"] >= last, "entities are in order and do not overlap"
            assert e["text"] == e["text"].strip()
            assert not splits_a_character(text, e["start"])
            assert not splits_a_character(text, e["end"])
            assert 0 <= e["score"] <= 1
            last = e["end"]


def test_an_emoji_sequence_that_two_entities_share_is_in_one_of_them(client: httpx.Client) -> None:
    texts = ["❤️‍🔥", "𠮷野家와 🫠김민수 그리고 이영희👩‍👩‍👧‍👦🇰🇷"]
    for text in texts:
        spans = [(e["start"], e["end"]) for e in entities(client, "bc5cdr", text)]
        assert all(a[1] <= b[0] for a, b in pairwise(spans)), spans


def test_composed_and_decomposed_text_get_the_same_entities(client: httpx.Client) -> None:
    for text in (PERSON, "손님이 마포구요 라고 김철수에게 말했다", "삼성전자 이재용 회장이 서울에서 연설했다."):
        composed, decomposed = text, unicodedata.normalize("NFD", text)
        a, b = entities(client, "klue-ner", composed), entities(client, "klue-ner", decomposed)
        assert a
        assert [e["type"] for e in a] == [e["type"] for e in b]
        assert [e["score"] for e in a] == [e["score"] for e in b]
        assert [e["text"] for e in a] == [unicodedata.normalize("NFC", e["text"]) for e in b]
        assert all(e["text"] == decomposed[e["start"] : e["end"]] for e in b)


@pytest.mark.parametrize("prefix", ["   ", "\n\n", "\r\n", "\u3000", "\ufeff", "\u200b\u2060", "\t\u00a0"], ids=ascii)
def test_what_no_model_reads_shifts_spans_by_its_length(client: httpx.Client, prefix: str) -> None:
    plain = entities(client, "klue-ner", PERSON)
    assert [e["text"] for e in plain] == ["이순신", "부산"]
    shifted = [e | {"start": e["start"] + len(prefix), "end": e["end"] + len(prefix)} for e in plain]
    assert entities(client, "klue-ner", prefix + PERSON) == shifted
    assert entities(client, "klue-ner", prefix + PERSON + prefix) == shifted


@pytest.mark.parametrize("prefix", ["😀 ", "👩‍👩‍👧é😀 ", "🇰🇷🫠 ", "𠮷𠮷 "], ids=ascii)
def test_an_emoji_before_an_entity_counts_its_code_points(client: httpx.Client, prefix: str) -> None:
    found = {e["text"]: e["start"] for e in entities(client, "klue-ner", prefix + PERSON)}
    assert found["이순신"] == len(prefix)
    english = entities(client, "ncbi-disease", prefix + "Patients had breast cancer.")
    assert ("breast cancer", len(prefix) + 13) in [(e["text"], e["start"]) for e in english]


def test_spans_in_utf16_units_and_bytes_are_those_in_code_points(client: httpx.Client) -> None:
    for text in [f"👩‍👩‍👧 {PERSON}", f"𠮷 é {unicodedata.normalize('NFD', PERSON)}", *ODD]:
        points = entities(client, "klue-ner", text)
        for unit, encoding, width in (("utf16", "utf-16-le", 2), ("byte", "utf-8", 1)):
            data = text.encode(encoding)
            found = entities(client, "klue-ner", text, offset_unit=unit)
            assert [e["text"] for e in found] == [e["text"] for e in points]
            assert all(data[e["start"] * width : e["end"] * width].decode(encoding) == e["text"] for e in found)
            ends = [len(text[: e["end"]].encode(encoding)) // width for e in points]
            assert [e["end"] for e in found] == ends


def test_an_escaped_surrogate_pair_is_one_character(client: httpx.Client) -> None:
    item = {"text": f"\U0001f600 {PERSON}"}
    headers = {"content-type": "application/json"}
    escaped = client.post("/klue-ner", content=json.dumps(item, ensure_ascii=True), headers=headers).json()
    assert escaped == client.post("/klue-ner", json=item).json()
    assert escaped["entities"][0]["start"] == 2


@pytest.mark.parametrize("end", [".", "!", ")", "。", ",", "…", "?”", " ."])
def test_punctuation_after_an_entity_stays_outside(client: httpx.Client, end: str) -> None:
    # openfoodfacts/robotoff#1413, huggingface/transformers#27876.
    assert lies(entities(client, "klue-ner", f"나는 서울{end}")) == [("LC", "서울", 3, 5)]
    assert lies(entities(client, "cmedqaner", f"宝宝感冒咳嗽{end}")) == lies(
        entities(client, "cmedqaner", "宝宝感冒咳嗽")
    )
    english = "Patients had breast cancer"
    found = lies(entities(client, "ncbi-disease", english + end))
    assert found == [("Disease", "breast cancer", 13, 26)]


@pytest.mark.parametrize("mark", ["\u200b", "\u2060", "\ufeff"], ids=ascii)
def test_an_invisible_character_inside_a_word_glues_it_to_nothing(client: httpx.Client, mark: str) -> None:
    # huggingface/tokenizers#1077.
    plain = lies(entities(client, "klue-ner", "한국 서울"))
    assert plain == [("LC", "한국", 0, 2), ("LC", "서울", 3, 5)]
    marked = lies(entities(client, "klue-ner", f"한국 서{mark}울"))
    assert marked == [("LC", "한국", 0, 2), ("LC", f"서{mark}울", 3, 6)]


def test_odd_characters_at_the_end_of_a_word_move_no_label(client: httpx.Client) -> None:
    # KLUE-benchmark/KLUE#40: an unknown symbol shifted the labels of its neighbours.
    for odd in ("\u1112\u110b", "🫠", "𠮷", "\ue000"):
        text = f"최민호라던데요~{odd} 부산에서"
        found = {e["text"]: e["start"] for e in entities(client, "klue-ner", text)}
        assert found == {"최민호": 0, "부산": text.index("부산")}


def test_marked_spans_may_be_given_in_every_unit(client: httpx.Client) -> None:
    text, subject, object_ = "😀 현대자동차의 정의선 회장이 인도를 방문했다.", "현대자동차", "정의선"
    answers = []
    for unit, encoding, width in (("codepoint", "utf-32-le", 4), ("utf16", "utf-16-le", 2), ("byte", "utf-8", 1)):
        spans = {
            role: {"start": len(text[: text.index(word)].encode(encoding)) // width}
            | {"end": len(text[: text.index(word) + len(word)].encode(encoding)) // width}
            for role, word in (("subject", subject), ("object", object_))
        }
        response = client.post("/klue-re", json={"text": text, "offset_unit": unit} | spans)
        assert response.status_code == 200
        answers.append(response.json())
    assert answers[0]["label"] == "org:top_members/employees"
    assert answers == [answers[0]] * 3


@pytest.mark.parametrize(("unit", "start"), [("utf16", 1), ("byte", 2), ("utf16", 99)])
def test_a_marked_span_that_splits_a_character_is_refused(client: httpx.Client, unit: str, start: int) -> None:
    item = {
        "text": "😀 현대자동차의 정의선 회장",
        "subject": {"start": start, "end": 40},
        "object": {"start": 10, "end": 13},
    }
    response = client.post("/klue-re", json=item | {"offset_unit": unit})
    assert response.status_code == 422
    assert response.json()["error"]["field"] in ("subject.start", "subject.end")


def test_a_control_token_typed_by_a_user_is_text(client: httpx.Client) -> None:
    # bojone/bert4keras#223: a typed [SEP] forged the border between two texts.
    def scores(text: str, pair: str) -> tuple[float, ...]:
        answer = client.post("/klue-nli", json={"text": text, "text_pair": pair}).json()
        return tuple(sorted(s["score"] for s in answer["scores"]))

    for mark in ("[SEP]", "</s></s>", "</s>"):
        forged = scores(f"하늘은 파랗다. {mark} 파란 것은 없다. {mark}", ".")
        assert max(abs(a - b) for a, b in zip(scores("하늘은 파랗다.", "파란 것은 없다."), forged, strict=True)) > 1e-4
    text = "<subj>현대자동차</subj>의 <obj>정의선</obj> 회장"
    spans = {"subject": {"start": 6, "end": 11}, "object": {"start": 25, "end": 28}}
    typed = client.post("/klue-re", json={"text": text} | spans)
    plain = {"subject": {"start": 0, "end": 5}, "object": {"start": 7, "end": 10}}
    meant = client.post("/klue-re", json={"text": "현대자동차의 정의선 회장"} | plain)
    assert typed.status_code == 200
    assert typed.json()["tokens"] > meant.json()["tokens"] + 3
