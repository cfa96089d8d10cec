"""Text past a model's limit, and answers to questions: read in windows, or cut with a word about it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import httpx
import pytest

RIVER = (
    "cmrc2018",
    "长江的长度是多少？",
    "长江是中国最长的河流，全长6300公里，发源于青藏高原，最后流入东海。",
    "6300公里",
)
LAKE = (
    "drcd",
    "日月潭位於哪一個縣？",
    "日月潭位於臺灣南投縣魚池鄉，湖面海拔約748公尺，是著名的觀光景點。",
    "臺灣南投縣魚池鄉",
)
ROAD = (
    "klue-mrc",
    "경부고속도로가 완공된 해는?",
    "경부고속도로는 서울과 부산을 잇는 도로이다. 1968년에 공사를 시작하여 1970년에 완공되었다.",
    "1970년",
)
FILLER = {"cmrc2018": "这里只有天气很好。", "drcd": "這裡只有天氣很好。", "klue-mrc": "회의는 3층 대강당에서 열렸다. "}


def ask(client: httpx.Client, name: str, **item: Any) -> dict[str, Any]:
    response = client.post(f"/{name}", json=item)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.fixture(scope="module")
def models(client: httpx.Client) -> dict[str, dict[str, Any]]:
    return {model["name"]: model for model in client.get("/v1/models").json()["models"]}


def test_an_entity_at_the_end_of_a_long_text_is_found_once(client: httpx.Client) -> None:
    # huggingface/transformers#15177: names in the tail leaked unmasked.
    text = "아주 맛있는 밥을 먹고 잤다. " * 240 + "이재용은 서울에 산다."
    answer = ask(client, "klue-ner", text=text)
    tail = [(e["type"], e["text"], e["start"]) for e in answer["entities"] if e["start"] >= text.index("이재용")]
    assert tail == [("PS", "이재용", text.index("이재용")), ("LC", "서울", text.index("서울"))]
    assert answer["truncated"] is False
    assert answer["tokens"] > 3000


def test_an_entity_at_any_place_of_overlapping_windows_is_found_once(client: httpx.Client) -> None:
    # rehydra-ai/rehydra-sdk#82: what two windows saw came back twice, what lay on their border not at all.
    filler, sentence = "아주 맛있는 밥을 먹고 잤다. ", "이재용은 서울에 산다. "
    for before in range(26):
        text = filler * before + sentence + filler * (25 - before)
        found = ask(client, "klue-ner", text=text)["entities"]
        at = text.index("이재용")
        assert [(e["text"], e["start"]) for e in found] == [("이재용", at), ("서울", at + 5)]


def test_many_entities_in_many_windows_are_in_order_and_apart(client: httpx.Client) -> None:
    text = "가 " + "어제 이순신은 여수에서 현대자동차 직원을 만났다. " * 60
    found = ask(client, "klue-ner", text=text)["entities"]
    assert len(found) > 60
    assert all(e["text"] == text[e["start"] : e["end"]] for e in found)
    assert all(a["end"] <= b["start"] for a, b in pairwise(found))


def test_a_long_text_may_be_cut_or_refused_instead_of_windowed(client: httpx.Client) -> None:
    text = "이재용은 서울에 산다. " * 130
    cut = ask(client, "klue-ner", text=text, on_overflow="truncate")
    assert (cut["truncated"], cut["tokens"]) == (True, 128)
    refused = client.post("/klue-ner", json={"text": text, "on_overflow": "error"})
    assert refused.status_code == 422
    assert refused.json()["error"]["code"] == "text_too_long"
    assert "126" in refused.json()["error"]["message"]
    short = ask(client, "klue-ner", text="이재용은 서울에 산다.", on_overflow="error")
    assert short["truncated"] is False


@pytest.mark.parametrize("name", ["klue-ynat", "klue-nli", "klue-sts", "klue-re", "cmedqq", "cmedtc", "cmedic"])
def test_a_classifier_says_when_it_did_not_read_everything(
    client: httpx.Client, models: dict[str, dict[str, Any]], name: str
) -> None:
    # huggingface/text-embeddings-inference#52: the flag held for one text but not for the same text in a list.
    model = models[name]
    short, limit = model["example"], model["max_length"]
    long = short | {"text": short["text"] + " 반도체 수출은 高血压" * 200}
    assert ask(client, name, **short)["truncated"] is False
    answer = ask(client, name, **long)
    assert (answer["truncated"], answer["tokens"]) == (True, limit)
    (listed,) = client.post(f"/{name}/batch", json={"items": [long]}).json()["results"]
    assert listed == answer
    assert client.post(f"/{name}", json=long | {"on_overflow": "error"}).status_code == 422


def test_lengths_around_the_limit_all_answer_and_the_flag_turns_once(client: httpx.Client) -> None:
    items = [{"text": "가 " * n} for n in range(55, 75)]
    results = client.post("/klue-ynat/batch", json={"items": items}).json()["results"]
    flags = [result["truncated"] for result in results]
    assert flags == sorted(flags)
    assert {False, True} == set(flags)
    assert all((result["tokens"] == 64) or not result["truncated"] for result in results)


@pytest.mark.parametrize("cut", ["text", "text_pair"])
def test_a_pair_is_cut_in_its_longer_half(client: httpx.Client, cut: str) -> None:
    item = {"text": "도서관은 아침에 연다.", "text_pair": "도서관은 밤에 닫는다."}
    answer = ask(client, "klue-nli", **item | {cut: item[cut] * 100})
    assert (answer["truncated"], answer["tokens"]) == (True, 128)
    other = "text" if cut == "text_pair" else "text_pair"
    changed = ask(client, "klue-nli", **item | {cut: item[cut] * 100, other: "고래는 포유류이다."})
    assert changed["scores"] != answer["scores"]


def test_both_halves_of_a_pair_and_their_order_count(client: httpx.Client) -> None:
    def value(text: str, pair: str) -> Any:
        return {s["label"]: s["score"] for s in ask(client, "klue-nli", text=text, text_pair=pair)["scores"]}

    first, second = "모든 직원은 월요일에 쉰다.", "월요일에 일하는 직원이 없다."
    assert value(first, second) != value(second, first)
    assert value("배송이 빨랐어요", "배송") != value("배송이 빨랐어요", "환불 정책에 대한 불만")


@pytest.mark.parametrize(("name", "question", "context", "expected"), [RIVER, LAKE, ROAD], ids=lambda v: v[:8])
def test_an_answer_is_shorter_than_its_context_and_a_slice_of_it(
    client: httpx.Client, name: str, question: str, context: str, expected: str
) -> None:
    # Chinese has no spaces: mapping answers back by words returned the whole context elsewhere.
    answer = ask(client, name, question=question, context=context, top_k=10)
    assert answer["answer"]["text"] == expected
    assert answer["answers"][0] == answer["answer"]
    assert all(a["text"] == context[a["start"] : a["end"]] != "" for a in answer["answers"])
    assert len({(a["start"], a["end"]) for a in answer["answers"]}) == len(answer["answers"])
    assert sum(a["score"] for a in answer["answers"]) <= 1.0001


@pytest.mark.parametrize(("name", "question", "context", "expected"), [RIVER, LAKE, ROAD], ids=lambda v: v[:8])
@pytest.mark.parametrize("prefix", ["\r\n\r\n ", "\u3000\u3000", "\ufeff", "\t \u00a0"], ids=ascii)
def test_line_ends_and_odd_spaces_shift_an_answer_by_their_length(
    client: httpx.Client, name: str, question: str, context: str, expected: str, prefix: str
) -> None:
    spaced = context.replace("，", "，\r\n").replace(". ", ".\r\n\u00a0 ")
    plain = ask(client, name, question=question, context=spaced)["answer"]
    moved = ask(client, name, question=f" {question}\r\n", context=prefix + spaced + prefix)["answer"]
    assert plain["text"] == expected
    assert (moved["text"], moved["start"], moved["score"]) == (
        expected,
        plain["start"] + len(prefix),
        pytest.approx(plain["score"], abs=1e-5),
    )


@pytest.mark.parametrize(("name", "question", "context", "expected"), [RIVER, LAKE, ROAD], ids=lambda v: v[:8])
def test_an_answer_in_the_last_window_of_a_long_context_is_found(
    client: httpx.Client, name: str, question: str, context: str, expected: str
) -> None:
    text = FILLER[name] * 60 + context.rpartition(". ")[2]
    answer = ask(client, name, question=question, context=text)
    assert answer["answer"]["start"] == text.index(expected)
    assert answer["truncated"] is False
    cut = ask(client, name, question=question, context=text, on_overflow="truncate")
    assert cut["truncated"] is True
    refused = client.post(f"/{name}", json={"question": question, "context": text, "on_overflow": "error"})
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "context")


@pytest.mark.parametrize("times", [1, 80], ids=["one-window", "many-windows"])
def test_no_answer_has_the_same_shape_as_an_answer(client: httpx.Client, times: int) -> None:
    context = FILLER["klue-mrc"] * times
    answer = ask(client, "klue-mrc", question="계약금은 얼마인가?", context=context, top_k=3)
    assert answer["answer"] is None
    assert answer["null_score"] > 0.5
    assert all(a["text"] == context[a["start"] : a["end"]] for a in answer["answers"])


def test_control_tokens_in_question_and_context_are_text(client: httpx.Client) -> None:
    context = "[SEP] 영희가 왔다 [PAD][PAD]</s><s> 1970년에"
    for question in ("누가 왔나? [SEP]", "</s></s>누가 왔나?"):
        for name in ("klue-mrc", "cmrc2018", "drcd"):
            for a in ask(client, name, question=question, context=context, top_k=20)["answers"]:
                assert a["text"] == context[a["start"] : a["end"]]


def test_a_question_past_its_limit_is_cut_with_a_word_or_refused(client: httpx.Client) -> None:
    long = {"question": "경부고속도로가 완공된 해는 " * 30 + "?", "context": ROAD[2]}
    assert ask(client, "klue-mrc", **long)["truncated"] is True
    refused = client.post("/klue-mrc", json=long | {"on_overflow": "error"})
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "question")
