"""Other protocols' own clients against the server: their answers are those of the native endpoints."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from e2e_clients import BENTO, HUB, TRITON, run
from e2e_http import Comparison
from e2e_servers import DEMO, StartServer

NER = "이순신은 1592년 부산에서 배를 띄웠다."
TOPIC = "코스피 외국인 매도에 1% 하락 마감"
PAIR = {"text": "도서관은 평일 아침 아홉 시에 문을 연다.", "text_pair": "도서관은 평일 아침에 연다."}
ASKED = {
    "question": "경부고속도로가 완공된 해는?",
    "context": "경부고속도로는 서울과 부산을 잇는 도로이다. 1968년에 공사를 시작하여 1970년에 완공되었다.",
}
ASPIRIN = "Aspirin can cause gastric ulcer in elderly patients."
LABELS = ["경제", "스포츠", "정치", "날씨"]
TEMPLATE = "이 글은 {}에 관한 것이다."


def native(client: httpx.Client, name: str, **fields: Any) -> Any:
    response = client.post(f"/{name}", json=fields)
    assert response.status_code == 200, response.text
    return response.json()


def same(expected: Any, got: Any) -> None:
    """Equal, but for the last digits of a score that was computed beside other rows."""
    comparison = Comparison()
    comparison.add(expected, got)
    assert comparison.different == []


def hub(url: str, *calls: tuple[str, str, dict[str, Any]]) -> list[Any]:
    return run(HUB, url, calls)


def test_huggingfaces_client_gets_the_native_answers(server: str, client: httpx.Client) -> None:
    zero = {"text": TOPIC, "candidate_labels": LABELS, "hypothesis_template": TEMPLATE}
    calls = [
        ("klue-ner", "token_classification", {"text": NER}),
        ("klue-ner", "token_classification", {"text": NER, "aggregation_strategy": "none"}),
        ("klue-ynat", "text_classification", {"text": TOPIC}),
        ("klue-ynat", "text_classification", {"text": TOPIC, "top_k": 2, "function_to_apply": "softmax"}),
        ("klue-mrc", "question_answering", ASKED),
        ("klue-mrc", "question_answering", ASKED | {"top_k": 3}),
        ("klue-nli", "zero_shot_classification", zero),
        ("klue-nli", "zero_shot_classification", zero | {"multi_label": True}),
    ]
    ner, tokens, all_topics, topics, answer, answers, one, several = (r["answer"] for r in hub(server, *calls))
    entities = native(client, "klue-ner", text=NER, tags=True)
    same([(e["type"], e["text"], e["start"], e["end"], e["score"]) for e in entities["entities"]], groups(ner))
    assert [t["entity"] for t in tokens] == [entities["tags"][t["start"]] for t in tokens]
    scores = native(client, "klue-ynat", text=TOPIC)["scores"]
    same(scores, all_topics)
    same(scores[:2], topics)
    spans = [
        {"answer": s["text"], "score": s["score"], "start": s["start"], "end": s["end"]}
        for s in native(client, "klue-mrc", **ASKED, top_k=3)["answers"]
    ]
    same(spans[0], {k: answer[k] for k in spans[0]})
    same(spans, [{k: s[k] for k in spans[0]} for s in answers])
    by_pair = {}
    for label in LABELS:
        scored = native(client, "klue-nli", text=TOPIC, text_pair=TEMPLATE.replace("{}", label))["scores"]
        p = {s["label"]: s["score"] for s in scored}
        by_pair[label] = p["entailment"] / (p["entailment"] + p["contradiction"])
    assert {s["label"]: s["score"] for s in several} == pytest.approx(by_pair, abs=1e-4)
    assert {s["label"] for s in one} == set(LABELS)
    assert sum(s["score"] for s in one) == pytest.approx(1, abs=1e-5)


def test_huggingfaces_client_may_spell_out_every_parameter(server: str) -> None:
    reading = {"doc_stride": 128, "max_answer_len": 15, "max_seq_len": 384, "max_question_len": 64, "top_k": 1}
    rest = {"handle_impossible_answer": False, "align_to_words": True}
    calls = [
        ("klue-mrc", "question_answering", ASKED | reading | rest),
        ("klue-ner", "token_classification", {"text": NER, "aggregation_strategy": "simple", "stride": 16}),
        *(("bc5cdr", "token_classification", {"text": ASPIRIN, "aggregation_strategy": s}) for s in ("first", "max")),
    ]
    answer, simple, *by_word = (r["answer"] for r in hub(server, *calls))
    assert answer["answer"] == ASKED["context"][answer["start"] : answer["end"]] != ""
    assert [e["word"] for e in simple] == [NER[e["start"] : e["end"]] for e in simple] != []
    for found in by_word:
        assert [(e["entity_group"], e["word"]) for e in found] == [
            ("Chemical", "Aspirin"),
            ("Disease", "gastric ulcer"),
        ]


def groups(entities: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(e["entity_group"], e["word"], e["start"], e["end"], e["score"]) for e in entities]


def test_huggingfaces_client_hears_what_is_wrong(server: str) -> None:
    calls = [
        ("klue-ner", "token_classification", {"text": NER, "stride": 1000}),
        ("klue-ner", "token_classification", {"text": " "}),
        ("klue-mrc", "question_answering", ASKED | {"max_seq_len": 15}),
        ("none", "text_classification", {"text": TOPIC}),
    ]
    stride, empty, length, unknown = hub(server, *calls)
    assert stride["status"] == empty["status"] == length["status"] == 422
    assert "parameters.stride: windows of " in stride["error"]["error"]
    assert empty["error"] == {"error": "inputs: the text is empty", "error_type": "empty_text"}
    assert "parameters.max_seq_len: windows of 15 tokens" in length["error"]["error"]
    assert unknown["status"] == 404


def test_every_example_is_answered_under_models_too(client: httpx.Client) -> None:
    for model in client.get("/v1/models").json()["models"]:
        item = {k: v for k, v in model["example"].items() if k not in ("top_k", "tags")}
        response = client.post(f"/models/{model['name']}", json={"inputs": item})
        assert response.status_code == 200, response.text
        if model["family"] in {"dependency-parsing", "dialogue-state", "triple-extraction"}:
            same(native(client, model["name"], **item), response.json())


@pytest.mark.alone
def test_one_text_over_twenty_labels_is_one_batch_of_twenty_rows(start_server: StartServer) -> None:
    """A single worker that may take all that waits: it is shared between workers and cut to NLU_TAKE_MS otherwise."""
    url = start_server({"NLU_MODELS": "klue-nli:latest", "NLU_THREADS": "1", "NLU_TAKE_MS": "10000"}).url
    labels = [f"제목 {i}" for i in range(20)]
    body = {"inputs": TOPIC, "parameters": {"candidate_labels": labels, "hypothesis_template": TEMPLATE}}
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        response = client.post("/models/klue-nli", json=body)
    assert len(response.json()) == 20
    assert response.headers["x-batch-rows"] == "20"


@pytest.mark.parametrize("binary", [True, False])
def test_tritons_client_gets_the_native_answers(server: str, client: httpx.Client, binary: bool) -> None:
    questions = {name: [text] * 2 for name, text in ASKED.items()}
    calls = [
        ("klue-ner", {"text": [NER, "네"]}, {"binary": binary, "outputs": ["output"]}),
        ("klue-nli", {k: [v] for k, v in PAIR.items()}, {"binary": binary, "request_id": "seven"}),
        ("klue-mrc", questions, {"binary": binary}),
        ("klue-mrc", questions, {"binary": binary, "outputs": ["output"], "timeout": 30_000_000}),
        ("klue-ynat", {"input-0": [TOPIC]}, {"binary": binary}),
    ]
    ner, nli, mrc, whole, topic, state = run(TRITON, server, calls)
    same(
        [native(client, "klue-ner", text=text) for text in (NER, "네")],
        [json.loads(x) for x in ner["outputs"]["output"]],
    )
    pair = native(client, "klue-nli", **PAIR)
    labels = client.get("/v2/models/klue-nli").json()["outputs"][1]["parameters"]["labels"]
    scores = {s["label"]: s["score"] for s in pair["scores"]}
    assert nli["id"] == "seven"
    assert nli["outputs"]["label"] == [pair["label"]]
    assert nli["outputs"]["probs"] == pytest.approx([scores[label] for label in labels], abs=1e-5)
    span = native(client, "klue-mrc", **ASKED)["answer"]
    assert mrc["outputs"]["answer"] == [span["text"]] * 2
    assert (mrc["outputs"]["start"], mrc["outputs"]["end"]) == ([span["start"]] * 2, [span["end"]] * 2)
    assert mrc["outputs"]["score"] == pytest.approx([span["score"]] * 2, abs=1e-5)
    same([native(client, "klue-mrc", **ASKED)] * 2, [json.loads(x) for x in whole["outputs"]["output"]])
    assert topic["outputs"]["label"] == [native(client, "klue-ynat", text=TOPIC)["label"]]
    assert state["ready"] == [True, True, True, False]
    assert state["metadata"]["name"] == "clueserve"


def test_tritons_client_names_a_version_and_hears_what_is_wrong(server: str, client: httpx.Client) -> None:
    version = client.get("/v2/models/klue-ynat").json()["versions"][0]
    calls = [
        ("klue-ynat", {"text": [TOPIC]}, {"model_version": version}),
        ("klue-ynat", {"text": [TOPIC]}, {"model_version": "none"}),
        ("klue-ynat", {"text": [TOPIC, " "]}, {}),
        ("klue-ynat", {"text": [TOPIC]}, {"priority": 3}),
        ("klue-ynat", {"text": [TOPIC]}, {"request_compression_algorithm": "gzip"}),
    ]
    fine, other, empty, priority, packed, _ = run(TRITON, server, calls)
    assert fine["version"] == version
    assert other["status"] == "404"
    assert (empty["status"], empty["error"]) == ("422", "inputs.text.1: the text is empty")
    assert (priority["status"], priority["error"]) == ("422", "parameters.priority: this parameter is not supported")
    assert packed["status"] == "415"


def test_a_tei_client_gets_the_native_answers(client: httpx.Client) -> None:
    want = [{"score": s["score"], "label": s["label"]} for s in native(client, "klue-nli", **PAIR)["scores"]]
    for path in ("/predict?model=klue-nli", "/tei/klue-nli/predict"):
        response = client.post(path, json={"inputs": list(PAIR.values()), "truncate": True})
        same(want, response.json())
        assert int(response.headers["x-total-time"]) >= int(response.headers["x-inference-time"]) - 1
    query, texts = "高血压病人可以喝牛奶吗", ["感冒怎么办", "有高血压能不能喝牛奶"]
    ranked = client.post("/rerank?model=cmedqq", json={"query": query, "texts": texts}).json()
    scored = [native(client, "cmedqq", text=query, text_pair=text)["scores"] for text in texts]
    best = [next(s["score"] for s in scores if s["label"] == "1") for scores in scored]
    assert [one["index"] for one in ranked] == [1, 0]
    assert [one["score"] for one in ranked] == pytest.approx(sorted(best, reverse=True), abs=1e-5)


def test_bentomls_client_gets_the_native_answer_of_every_model(server: str, client: httpx.Client) -> None:
    models = client.get("/v1/models").json()["models"]
    assert {model["name"] for model in models} == set(DEMO)
    answers = run(BENTO, server, [(model["name"].replace("-", "_"), model["example"]) for model in models])
    for model, answer in zip(models, answers, strict=True):
        same(native(client, model["name"], **model["example"]), answer)


FORMS = {
    "/models/klue-ynat": lambda text: {"inputs": text},
    "/v2/models/klue-ynat/infer": lambda text: {
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}]
    },
    "/tei/klue-ynat/predict": lambda text: {"inputs": text},
}


def test_overload_and_deadlines_are_told_in_each_form(start_server: StartServer) -> None:
    """No time at all: what is not refused for the wait that is predicted is given up."""
    url = start_server({"NLU_MODELS": "klue-ynat:latest", "NLU_TIMEOUT_MS": "1"}).url
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        responses = [client.post(path, json=form("코스피 " * 30)) for path, form in FORMS.items() for _ in range(10)]
    assert {response.status_code for response in responses} <= {429, 504}
    for response in responses:
        assert isinstance(response.json()["error"], str)
        assert (response.status_code == 429) == ("retry-after" in response.headers)


@pytest.mark.parametrize("path", FORMS)
def test_a_canary_text_is_in_no_answer_of_an_error(client: httpx.Client, path: str) -> None:
    text = "canary" + "\u0301" * 40
    response = client.post(path, json=FORMS[path](text))
    assert response.status_code == 422
    assert "canary" not in response.text
