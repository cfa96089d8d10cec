"""Hugging Face's Inference API: the shapes that its clients read, and what is refused rather than ignored."""

from __future__ import annotations

import math
from typing import Any

import pytest
from booth import Booth, ask_hf, refused_hf

TEXT = "그는 어제 부산에 갔고 오늘은 집에 있다. 서울에서 열린 회의에는 사람들이 많이 왔다."
PAIR = {"text": "그는 어제 부산에 갔다.", "text_pair": "그는 집에 있다."}
LABELS = ["부산", "공원", "하루", "서울"]


def test_entities_are_groups_with_the_words_of_the_text(booth: Booth) -> None:
    want = booth.native("ner", text=TEXT)["entities"]
    got = ask_hf(booth, "ner", TEXT)
    assert want
    assert got == [
        {"entity_group": e["type"], "score": e["score"], "word": e["text"], "start": e["start"], "end": e["end"]}
        for e in want
    ]
    assert got == ask_hf(booth, "ner", TEXT, aggregation_strategy="simple", ignore_labels=["O"], stride=16)


@pytest.mark.parametrize("stride", [0, 8, 40])
def test_windows_of_a_long_text_overlap_as_they_are_asked_to(booth: Booth, stride: int) -> None:
    """The last window begins elsewhere, so its tokens are read with other neighbours."""
    text = (TEXT + " ") * 8
    got, own = ask_hf(booth, "ner", text, stride=stride), ask_hf(booth, "ner", text)
    assert got
    assert got != own
    assert all(e["word"] == text[e["start"] : e["end"]] for e in got)


def test_entities_of_ignored_types_are_left_out(booth: Booth) -> None:
    types = {e["entity_group"] for e in ask_hf(booth, "ner", TEXT)}
    gone = min(types)
    assert {e["entity_group"] for e in ask_hf(booth, "ner", TEXT, ignore_labels=["O", gone])} == types - {gone}


def test_without_aggregation_every_token_has_its_tag(booth: Booth) -> None:
    tags = booth.native("ner", text=TEXT, tags=True)["tags"]
    tokens = ask_hf(booth, "ner", TEXT, aggregation_strategy="none", ignore_labels=[])
    assert [t["index"] for t in tokens] == list(range(1, len(tokens) + 1))
    for t in tokens:
        assert t["entity"] == tags[t["start"]]
        assert t["word"].removeprefix("##") == TEXT[t["start"] : t["end"]]
        assert 0 < t["score"] <= 1
    kept = ask_hf(booth, "ner", TEXT, aggregation_strategy="none")
    assert kept == [t for t in tokens if t["entity"] != "O"]


def test_nested_entities_may_overlap(booth: Booth) -> None:
    want = booth.native("nested", text="慢性胃炎患者今天很好")["entities"]
    got = ask_hf(booth, "nested", "慢性胃炎患者今天很好", ignore_labels=[])
    assert [(e["start"], e["end"], e["entity_group"]) for e in got] == [(e["start"], e["end"], e["type"]) for e in want]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("ner", {"aggregation_strategy": "best"}, "parameters.aggregation_strategy: "),
        ("ner", {"stride": 55}, "parameters.stride: windows of 62 tokens share at most 54 with their neighbours"),
        ("ner", {"stride": -1}, "parameters.stride: "),
        ("nested", {"stride": 61}, "parameters.stride: "),
        ("ner", {"ignore_labels": []}, "parameters.ignore_labels: "),
        ("ner", {"top_k": 1}, "parameters.top_k: "),
        ("nested", {"aggregation_strategy": "none"}, "parameters.aggregation_strategy: "),
        ("nested", {"aggregation_strategy": "first"}, "parameters.aggregation_strategy: "),
        ("topic", {"function_to_apply": "tanh"}, "parameters.function_to_apply: "),
        ("topic", {"top_k": 0}, "parameters.top_k: "),
        ("topic", {"return_all_scores": True}, "parameters.return_all_scores: "),
        ("signs", {"function_to_apply": "softmax"}, "parameters.function_to_apply: "),
        ("tree", {"top_k": 1}, "parameters.top_k: "),
        ("topic", {"candidate_labels": ["a"]}, "parameters.candidate_labels: "),
        ("same", {"candidate_labels": ["a"]}, "parameters.candidate_labels: "),
        ("nli", {"candidate_labels": []}, "parameters.candidate_labels: "),
        ("nli", {"candidate_labels": ["a", " "]}, "parameters.candidate_labels: "),
        ("nli", {"candidate_labels": ["a"], "hypothesis_template": "about"}, "parameters.hypothesis_template: "),
        ("nli", {"candidate_labels": ["a"], "top_k": 1}, "parameters.top_k: "),
        ("nli", {"candidate_labels": ["a"] * 41}, "parameters.candidate_labels: 41 items; at most 40"),
    ],
)
def test_what_a_model_cannot_honour_is_refused_by_name(
    booth: Booth, name: str, parameters: dict[str, Any], message: str
) -> None:
    reply = booth.post(f"/models/{name}", {"inputs": TEXT, "parameters": parameters})
    assert reply.status == 422
    assert message in reply.json["error"]
    assert sum(booth.counts.outcomes.values()) == 1
    assert booth.takes == []


def test_classes_are_nested_as_the_client_reads_them(booth: Booth) -> None:
    want = booth.native("topic", text=TEXT)["scores"]
    assert ask_hf(booth, "topic", TEXT) == [want]
    assert ask_hf(booth, "topic", TEXT, top_k=2, function_to_apply="softmax") == [want[:2]]
    assert ask_hf(booth, "topic", [TEXT, "네"]) == [want, booth.native("topic", text="네")["scores"]]


def test_functions_are_applied_to_the_logits(booth: Booth) -> None:
    probabilities = {s["label"]: s["score"] for s in booth.native("topic", text=TEXT)["scores"]}
    logits = {s["label"]: s["score"] for s in ask_hf(booth, "topic", TEXT, function_to_apply="none")[0]}
    total = sum(math.exp(x) for x in logits.values())
    assert {k: math.exp(x) / total for k, x in logits.items()} == pytest.approx(probabilities, abs=2e-6)
    sigmoids = ask_hf(booth, "topic", TEXT, function_to_apply="sigmoid", top_k=3)[0]
    assert len(sigmoids) == 3
    assert all(s["score"] == pytest.approx(1 / (1 + math.exp(-logits[s["label"]])), abs=2e-6) for s in sigmoids)


def test_a_number_is_a_class_named_after_its_side(booth: Booth) -> None:
    want = booth.native("sts", **PAIR)
    assert ask_hf(booth, "sts", PAIR) == [[{"label": want["label"], "score": want["value"]}]]
    assert ask_hf(booth, "sts", PAIR, function_to_apply="none") == ask_hf(booth, "sts", PAIR)


def test_documents_and_pairs_are_classes_too(booth: Booth) -> None:
    assert ask_hf(booth, "signs", "It rained in the city.") == [
        booth.native("signs", text="It rained in the city.")["scores"]
    ]
    assert ask_hf(booth, "nli", [PAIR]) == [booth.native("nli", **PAIR)["scores"]]


def test_two_texts_in_a_list_are_two_items_and_no_pair(booth: Booth) -> None:
    assert refused_hf(booth, "nli", ["a", "b"]).startswith("inputs.0.text_pair: ")
    assert len(ask_hf(booth, "topic", ["서울", "부산"])) == 2


def test_labels_are_ranked_by_how_far_the_text_entails_them(booth: Booth) -> None:
    template = "그는 {}에 갔다."
    logits = {}
    for label in LABELS:
        pair = {"text": TEXT, "text_pair": template.replace("{}", label)}
        logits[label] = {s["label"]: s["score"] for s in ask_hf(booth, "nli", pair, function_to_apply="none")[0]}
    yes, no = (booth.server.bundles["nli"].manifest.decoder[role] for role in ("entailment", "contradiction"))
    exclusive = {label: math.exp(z[yes]) for label, z in logits.items()}
    total = sum(exclusive.values())
    one = ask_hf(booth, "nli", TEXT, candidate_labels=LABELS, hypothesis_template=template)
    assert {s["label"]: s["score"] for s in one} == pytest.approx(
        {k: v / total for k, v in exclusive.items()}, abs=1e-5
    )
    assert [s["score"] for s in one] == sorted((s["score"] for s in one), reverse=True)
    several = ask_hf(booth, "nli", TEXT, candidate_labels=LABELS, hypothesis_template=template, multi_label=True)
    assert {s["label"]: s["score"] for s in several} == pytest.approx(
        {label: 1 / (1 + math.exp(z[no] - z[yes])) for label, z in logits.items()}, abs=1e-5
    )
    alone = ask_hf(booth, "nli", TEXT, candidate_labels=LABELS[0], hypothesis_template=template)
    assert alone == [s for s in several if s["label"] == LABELS[0]]


def test_labels_may_be_one_string_and_texts_several(booth: Booth) -> None:
    listed = ask_hf(booth, "nli", TEXT, candidate_labels=LABELS)
    assert ask_hf(booth, "nli", TEXT, candidate_labels=", ".join(LABELS)) == listed
    assert ask_hf(booth, "nli", [TEXT, TEXT], candidate_labels=LABELS) == [listed, listed]


@pytest.mark.parametrize(("version", "older"), [("0.36.2", True), ("1.1.4", True), ("1.1.5", False), ("2.4.0", False)])
def test_clients_of_before_read_labels_and_scores_apart(booth: Booth, version: str, older: bool) -> None:
    listed = ask_hf(booth, "nli", TEXT, candidate_labels=LABELS)
    got = ask_hf(booth, "nli", TEXT, f"unknown/None; hf_hub/{version}; python/3.11", candidate_labels=LABELS)
    apart = {"labels": [s["label"] for s in listed], "scores": [s["score"] for s in listed]}
    assert got == (apart if older else listed)


def test_one_text_over_twenty_labels_is_one_batch(booth: Booth) -> None:
    labels = [f"제목 {i}" for i in range(20)]
    body = {"inputs": TEXT, "parameters": {"candidate_labels": labels}}
    (reply,) = booth.behind(lambda: booth.ask("POST", "/models/nli", body))
    assert len(reply.json) == 20
    assert reply.headers["x-batch-rows"] == "20"
    assert booth.takes == [1, 20]
    assert booth.counts.outcomes["nli", "ok"] == 20


def test_other_families_get_their_native_answer(booth: Booth) -> None:
    want = booth.native("tree", text=TEXT)
    assert ask_hf(booth, "tree", TEXT) == want
    assert ask_hf(booth, "tree", [{"words": TEXT.split()}]) == [booth.native("tree", words=TEXT.split())]


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("topic", [], "inputs: give at least one item"),
        ("topic", 3, "inputs: give an object with text"),
        ("topic", ["a", None], "inputs.1: give an object with text"),
        ("reading", "a", "inputs: give an object with question, context"),
        ("topic", ["a", " "], "inputs.1: the text is empty"),
        ("nli", [PAIR, PAIR | {"text_pair": ""}], "inputs.1.text_pair: the text is empty"),
        ("nli", [PAIR | {"extra": 1}], "inputs.0.extra: "),
        ("topic", {"text": "a", "top_k": 1}, "inputs.top_k: this is asked for by parameters here"),
        ("ner", {"text": "a", "tags": True}, "inputs.tags: "),
        ("topic", "가" * 2001, "inputs: the text has more than 2000 characters"),
        ("topic", ["a"] * 41, "inputs: 41 items; at most 40"),
    ],
)
def test_an_item_is_refused_with_its_path(booth: Booth, name: str, inputs: Any, message: str) -> None:
    reply = booth.post(f"/models/{name}", {"inputs": inputs})
    assert reply.status == 422
    assert reply.json["error"].startswith(message)
    assert not any(outcome == "ok" and name != "topic" for name, outcome in booth.counts.outcomes)


def test_a_label_that_makes_no_hypothesis_is_named(booth: Booth) -> None:
    marks = "a" + "\u0301" * 40
    message = refused_hf(booth, "nli", TEXT, candidate_labels=["서울", marks])
    assert message.startswith("parameters.candidate_labels.1: ")
    message = refused_hf(booth, "nli", PAIR, candidate_labels=["서울"])
    assert message == "inputs.text_pair: the labels make the second text"


def test_native_options_of_an_item_are_kept(booth: Booth) -> None:
    text = "😀 " + TEXT
    points, units = (ask_hf(booth, "ner", {"text": text, "offset_unit": unit}) for unit in ("codepoint", "utf16"))
    assert points
    assert [len(text[: e["start"]].encode("utf-16-le")) // 2 for e in points] == [e["start"] for e in units]
