"""Text Embeddings Inference: `/predict`, `/rerank`, `/info`, `/health`, by query or by path."""

from __future__ import annotations

import math
from typing import Any

import pytest
from booth import Booth, Reply

A, B = "오늘은 집에 있다", "그는 어제 부산에 갔다"


def tei(booth: Booth, name: str, action: str, **body: Any) -> Any:
    """An answer, which is the same by either path."""
    reply = booth.post(f"/{action}?model={name}", body)
    assert reply.status == 200, reply.body
    assert booth.post(f"/tei/{name}/{action}", body).json == reply.json
    return reply.json


def scores(native: Any) -> list[dict[str, Any]]:
    return [{"score": s["score"], "label": s["label"]} for s in native["scores"]]


def test_a_text_and_a_pair_get_a_list_and_a_batch_a_list_of_lists(booth: Booth) -> None:
    one, pair = scores(booth.native("topic", text=A)), scores(booth.native("nli", text=A, text_pair=B))
    assert tei(booth, "topic", "predict", inputs=A) == one
    assert tei(booth, "topic", "predict", inputs=[A]) == one
    assert tei(booth, "nli", "predict", inputs=[A, B]) == pair
    assert tei(booth, "topic", "predict", inputs=[[A], [A]]) == [one, one]
    assert tei(booth, "nli", "predict", inputs=[[A, B]]) == [pair]


def test_a_flat_list_of_two_is_a_pair_here_and_nowhere_else(booth: Booth) -> None:
    for path in ("/predict?model=topic", "/tei/topic/predict"):
        reply = booth.post(path, {"inputs": [A, B]})
        assert reply.status == 422
        assert reply.json["error"].startswith("inputs.1: ")
    assert len(booth.post("/models/topic", {"inputs": [A, B]}).json) == 2
    tensor = {"name": "text", "datatype": "BYTES", "shape": [2], "data": [A, B]}
    assert booth.post("/v2/models/topic/infer", {"inputs": [tensor]}).json["outputs"][0]["shape"] == [2]


def test_raw_scores_are_logits(booth: Booth) -> None:
    probabilities = {s["label"]: s["score"] for s in booth.native("topic", text=A)["scores"]}
    raw = tei(booth, "topic", "predict", inputs=A, raw_scores=True)
    total = sum(math.exp(s["score"]) for s in raw)
    assert {s["label"]: math.exp(s["score"]) / total for s in raw} == pytest.approx(probabilities, abs=2e-6)
    assert [s["score"] for s in raw] == sorted((s["score"] for s in raw), reverse=True)


def test_a_number_is_raw_in_any_case(booth: Booth) -> None:
    native = booth.native("sts", text=A, text_pair=B)
    want = [{"score": native["value"], "label": native["label"]}]
    assert tei(booth, "sts", "predict", inputs=[A, B]) == want
    assert tei(booth, "sts", "predict", inputs=[A, B], raw_scores=True) == want


def test_text_past_the_limit_is_cut_or_refused_as_asked(booth: Booth) -> None:
    long = ", " * 100
    cut = scores(booth.native("topic", text=long))
    assert tei(booth, "topic", "predict", inputs=long) == cut
    assert tei(booth, "topic", "predict", inputs=long, truncate=True, truncation_direction="Right") == cut
    assert booth.post("/tei/topic/predict", {"inputs": long, "truncate": False}).error[0] == 422
    reply = booth.post("/tei/topic/predict", {"inputs": long, "truncate": True, "truncation_direction": "left"})
    assert (reply.status, reply.json["error_type"]) == (422, "Validation")
    assert reply.json["error"] == "truncation_direction: topic cuts texts on the other side"


@pytest.mark.parametrize("name", ["nli", "same", "sts"])
def test_texts_are_ranked_by_the_class_that_stands_for_a_yes(booth: Booth, name: str) -> None:
    texts = [B, "네", "공원", A]
    decoder = booth.server.bundles[name].manifest.decoder
    relevant = decoder.get("entailment") or decoder.get("positive")
    want = []
    for text in texts:
        native = booth.native(name, text=A, text_pair=text)
        want.append(native["value"] or next((s["score"] for s in native["scores"] if s["label"] == relevant), None))
    ranked = tei(booth, name, "rerank", query=A, texts=texts, return_text=True)
    assert [one["score"] for one in ranked] == sorted(want, reverse=True)
    assert all(one["score"] == want[one["index"]] and one["text"] == texts[one["index"]] for one in ranked)
    assert "text" not in tei(booth, name, "rerank", query=A, texts=texts)[0]


def test_ranks_are_the_same_by_probability_and_by_logit_of_two_classes(booth: Booth) -> None:
    texts = [B, "네", "공원"]
    raw = tei(booth, "same", "rerank", query=A, texts=texts, raw_scores=True)
    assert sorted(one["index"] for one in raw) == [0, 1, 2]
    assert [one["score"] for one in raw] == sorted((one["score"] for one in raw), reverse=True)


def test_texts_to_rank_are_one_batch(booth: Booth) -> None:
    body = {"query": A, "texts": [f"{B} {i}" for i in range(12)]}
    (reply,) = booth.behind(lambda: booth.ask("POST", "/tei/same/rerank", body))
    assert (reply.headers["x-batch-rows"], booth.takes) == ("12", [1, 12])


def test_headers_tell_the_time_in_milliseconds(booth: Booth) -> None:
    headers = booth.post("/tei/topic/predict", {"inputs": A}).headers
    stages = [int(headers[f"x-{stage}-time"]) for stage in ("tokenization", "queue", "inference")]
    assert 0 <= max(stages) <= int(headers["x-total-time"]) + 1
    assert "x-inference-ms" in headers


def test_info_says_what_is_served(booth: Booth) -> None:
    told = booth.get("/info?model=topic").json
    assert told == booth.get("/tei/topic/info").json
    labels = booth.server.bundles["topic"].manifest.labels
    assert told["model_type"]["classifier"]["id2label"] == {str(i): label for i, label in enumerate(labels)}
    assert (told["model_id"], told["max_client_batch_size"], told["model_sha"]) == ("topic", 40, booth.version("topic"))
    assert booth.get("/tei/ner/info").json["model_type"] == {}


def test_health_is_that_of_one_model_or_of_all(booth: Booth) -> None:
    paths = ("/health", "/health?model=topic", "/tei/topic/health")
    assert [booth.get(path).status for path in paths] == [200, 200, 200]
    runner = booth.server.runners.pop("topic")
    try:
        replies = [booth.get(path) for path in (*paths, "/health?model=ner")]
    finally:
        booth.server.runners["topic"] = runner
    assert [reply.status for reply in replies] == [503, 503, 503, 200]
    assert replies[0].json["error_type"] == "Unhealthy"


def kind(reply: Reply) -> tuple[int, str, str]:
    return reply.status, reply.json["error_type"], reply.json["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "error_type", "message"),
    [
        ("/tei/topic/predict", {"inputs": " "}, 400, "Empty", "inputs: the text is empty"),
        ("/tei/topic/predict", {"inputs": []}, 400, "Empty", "inputs: there are no texts"),
        ("/tei/topic/predict", {"inputs": [["a"], [""]]}, 400, "Empty", "inputs.1: the text is empty"),
        ("/tei/nli/predict", {"inputs": ["a", ""]}, 400, "Empty", "inputs.1: the text is empty"),
        ("/tei/nli/predict", {"inputs": [["a", "b"], ["a", ""]]}, 400, "Empty", "inputs.1.1: the text is empty"),
        ("/tei/topic/predict", {"inputs": [["a"]] * 41}, 413, "Validation", "inputs: 41 items; at most 40"),
        ("/tei/topic/predict", {"inputs": ["a", "b", "c"]}, 422, "Validation", "inputs: give a text"),
        ("/tei/topic/predict", {"inputs": [["a"], "b"]}, 422, "Validation", "inputs: give a text"),
        ("/tei/topic/predict", {"inputs": [["a"], []]}, 422, "Validation", "inputs.1: give a text"),
        ("/tei/topic/predict", {"inputs": {"text": "a"}}, 422, "Validation", "inputs: give a text"),
        ("/tei/nli/predict", {"inputs": "a"}, 422, "Validation", "inputs.text_pair: "),
        ("/tei/topic/predict", {"inputs": "a", "normalize": True}, 422, "Validation", "normalize: "),
        ("/tei/topic/predict", {"inputs": "a", "truncate": 1}, 422, "Validation", "truncate: "),
        ("/tei/ner/predict", {"inputs": "a"}, 422, "Validation", "model: ner is a token-classification model"),
        ("/tei/signs/predict", {"inputs": "a", "raw_scores": True}, 422, "Validation", "raw_scores: "),
        ("/tei/topic/rerank", {"query": "a", "texts": ["b"]}, 422, "Validation", "model: topic is a text"),
        ("/tei/same/rerank", {"query": "a", "texts": []}, 400, "Empty", "texts: "),
        ("/tei/same/rerank", {"query": "", "texts": ["a"]}, 400, "Empty", "query: "),
        ("/tei/same/rerank", {"query": "a", "texts": ["b", " "]}, 400, "Empty", "texts.1: "),
        ("/tei/same/rerank", {"query": "a", "texts": ["b"] * 41}, 413, "Validation", "texts: "),
        ("/predict", {"inputs": "a"}, 422, "Validation", "model: say which"),
        ("/predict?model=none", {"inputs": "a"}, 404, "Validation", "there is no such model"),
    ],
)
def test_refusals_have_teis_statuses_and_types(
    booth: Booth, path: str, body: Any, status: int, error_type: str, message: str
) -> None:
    reply = booth.post(path, body)
    assert kind(reply)[:2] == (status, error_type)
    assert kind(reply)[2].startswith(message)


def test_the_only_model_need_not_be_named(booth_of: Any) -> None:
    single = booth_of("topic")
    assert single.post("/predict", {"inputs": A}).json == scores(single.native("topic", text=A))
    assert single.get("/info").json["model_id"] == "topic"
