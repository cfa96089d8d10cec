"""Open Inference Protocol v2: metadata, health, and inference in JSON and in binary tensors."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from booth import Booth, Reply
from kit import copy

A, B = "오늘은 집에 있다", "그는 어제 부산에 갔다"
ASKED = {"question": "오늘은 어디에 있다?", "context": "그는 어제 부산에 갔고 오늘은 집에 있다."}


def texts(name: str, *values: str, shape: list[int] | None = None) -> dict[str, Any]:
    return {"name": name, "datatype": "BYTES", "shape": shape or [len(values)], "data": list(values)}


def infer(booth: Booth, model: str, *inputs: Any, **rest: Any) -> Any:
    reply = booth.post(f"/v2/models/{model}/infer", {"inputs": list(inputs)} | rest)
    assert reply.status == 200, reply.body
    return reply.json


def read(answer: Any) -> dict[str, Any]:
    return {output["name"]: output["data"] for output in answer["outputs"]}


def refused(booth: Booth, name: str, status: int, *inputs: Any, **rest: Any) -> str:
    reply = booth.post(f"/v2/models/{name}/infer", {"inputs": list(inputs)} | rest)
    assert reply.status == status, reply.body
    assert set(reply.json) == {"error"}
    return str(reply.json["error"])


def packed(*values: str | bytes) -> bytes:
    encoded = [v.encode() if isinstance(v, str) else v for v in values]
    return b"".join(struct.pack("<I", len(v)) + v for v in encoded)


def binary(booth: Booth, model: str, head: Any, blob: bytes, length: str | None = None) -> Reply:
    start = head if isinstance(head, bytes) else json.dumps(head).encode()
    return booth.post(
        f"/v2/models/{model}/infer",
        start + blob,
        content_type="application/octet-stream",
        inference_header_content_length=str(len(start)) if length is None else length,
    )


def tensor(blob: bytes, shape: list[int], name: str = "text", datatype: str = "BYTES", **more: Any) -> dict[str, Any]:
    parameters = {"binary_data_size": len(blob)} | more
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": parameters}


def test_the_server_says_what_it_is_and_whether_it_lives(booth: Booth) -> None:
    about = booth.get("/v2").json
    assert (about["name"], about["extensions"]) == ("clueserve", ["binary_tensor_data"])
    assert booth.get("/v2/health/live").json == {"live": True}
    assert booth.get("/v2/health/ready").json == {"ready": True}
    for base in ("/v2/models/nli", f"/v2/models/nli/versions/{booth.version('nli')}"):
        assert booth.get(f"{base}/ready").json == {"name": "nli", "ready": True}


def test_a_server_without_all_of_its_models_is_not_ready(booth: Booth) -> None:
    runner = booth.server.runners.pop("nli")
    try:
        replies = [
            booth.get(f"/v2/{path}") for path in ("health/live", "health/ready", "models/nli/ready", "models/ner/ready")
        ]
    finally:
        booth.server.runners["nli"] = runner
    assert [reply.status for reply in replies] == [200, 503, 503, 200]
    assert replies[1].json == {"error": "loading nli"}


def test_metadata_come_of_the_native_request_and_answer(booth: Booth) -> None:
    told = booth.get("/v2/models/nli").json
    version = booth.version("nli")
    assert told == booth.get(f"/v2/models/nli/versions/{version}").json
    assert (told["name"], told["versions"]) == ("nli", [version])
    assert [(i["name"], i["datatype"], i["shape"]) for i in told["inputs"][:2]] == [
        ("text", "BYTES", [-1]),
        ("text_pair", "BYTES", [-1]),
    ]
    assert {i["name"] for i in told["inputs"] if i["parameters"]["optional"]} == {"on_overflow", "offset_unit"}
    labels = booth.server.bundles["nli"].manifest.labels
    assert told["outputs"][1] == {
        "name": "probs",
        "datatype": "FP32",
        "shape": [-1, 3],
        "parameters": {"labels": labels},
    }
    outputs = {n: [o["name"] for o in booth.get(f"/v2/models/{n}").json["outputs"]] for n in booth.server.bundles}
    assert outputs == {
        "ner": ["output"],
        "nested": ["output"],
        "tree": ["output"],
        "nli": ["label", "probs", "output"],
        "same": ["label", "probs", "output"],
        "topic": ["label", "probs", "output"],
        "sts": ["value", "label", "output"],
        "signs": ["labels", "probs", "output"],
        "reading": ["answer", "score", "start", "end", "output"],
        "unsure": ["answer", "score", "start", "end", "output"],
        "sure": ["answer", "score", "start", "end", "output"],
    }


def test_classes_are_labels_and_probabilities_in_the_order_of_the_bundle(booth: Booth) -> None:
    answer = infer(booth, "topic", texts("text", A, B), id="a-7")
    natives = [booth.native("topic", text=text) for text in (A, B)]
    labels = booth.server.bundles["topic"].manifest.labels
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("topic", booth.version("topic"), "a-7")
    assert read(answer)["label"] == [native["label"] for native in natives]
    scores = [{s["label"]: s["score"] for s in native["scores"]} for native in natives]
    assert read(answer)["probs"] == [row[label] for row in scores for label in labels]
    assert answer["outputs"][1]["shape"] == [2, 7]
    assert "id" not in infer(booth, "topic", texts("text", A))


def test_numbers_and_sets_of_classes_have_outputs_of_their_own(booth: Booth) -> None:
    native = booth.native("sts", text=A, text_pair=B)
    got = read(infer(booth, "sts", texts("text", A), texts("text_pair", B)))
    assert got == {"value": [native["value"]], "label": [native["label"]]}
    native = booth.native("signs", text=A)
    got = read(infer(booth, "signs", texts("text", A)))
    assert [json.loads(one) for one in got["labels"]] == [native["labels"]]
    assert sorted(got["probs"], reverse=True) == [s["score"] for s in native["scores"]]


def test_a_span_that_answers_is_four_outputs(booth: Booth) -> None:
    native = booth.native("sure", **ASKED)["answer"]
    got = read(infer(booth, "sure", *(texts(name, text) for name, text in ASKED.items())))
    assert got == {
        "answer": [native["text"]],
        "score": [native["score"]],
        "start": [native["start"]],
        "end": [native["end"]],
    }


def test_no_answer_is_an_empty_text_at_minus_one(booth: Booth) -> None:
    native = booth.native("unsure", **ASKED)
    got = read(infer(booth, "unsure", *(texts(name, text) for name, text in ASKED.items())))
    assert native["answer"] is None
    assert got == {"answer": [""], "score": [native["null_score"]], "start": [-1], "end": [-1]}


def test_other_answers_are_json_texts(booth: Booth) -> None:
    answer = infer(booth, "ner", texts("text", A, B))
    (output,) = answer["outputs"]
    assert (output["datatype"], output["parameters"]) == ("BYTES", {"content_type": "hg_jsonlist"})
    assert [json.loads(one) for one in output["data"]] == [booth.native("ner", text=text) for text in (A, B)]


def test_every_family_gives_its_whole_answer_to_who_asks_for_it(booth: Booth) -> None:
    answer = infer(booth, "nli", texts("text", A), texts("text_pair", B), outputs=[{"name": "output"}])
    assert [json.loads(one) for one in read(answer)["output"]] == [booth.native("nli", text=A, text_pair=B)]


@pytest.mark.parametrize("alias", ["args", "array_inputs", "input-0"])
@pytest.mark.parametrize("shape", [[2], [2, 1]])
def test_generic_clients_call_the_first_input_otherwise(booth: Booth, alias: str, shape: list[int]) -> None:
    want = read(infer(booth, "topic", texts("text", A, B)))
    assert read(infer(booth, "topic", texts(alias, A, B, shape=shape))) == want
    nested = {"name": alias, "datatype": "BYTES", "shape": [2, 1], "data": [[A], [B]]}
    assert read(infer(booth, "topic", nested)) == want


def test_inputs_that_are_no_text_are_json(booth: Booth) -> None:
    words = texts("words", json.dumps(A.split()), json.dumps(B.split()))
    got = read(infer(booth, "tree", words))["output"]
    assert [json.loads(one) for one in got] == [booth.native("tree", words=text.split()) for text in (A, B)]
    assert refused(booth, "tree", 400, texts("words", "[1")) == "inputs.words.0: the element is not JSON"


def test_options_are_parameters_or_inputs(booth: Booth) -> None:
    want = [booth.native("ner", text=A, tags=True, threshold=0.5)]
    by_parameter = infer(booth, "ner", texts("text", A), parameters={"tags": True, "threshold": 0.5})
    tags = {"name": "tags", "datatype": "BOOL", "shape": [1], "data": [True]}
    threshold = {"name": "threshold", "datatype": "FP32", "shape": [1], "data": [0.5]}
    by_input = infer(booth, "ner", texts("text", A), tags, threshold)
    assert [json.loads(one) for one in read(by_parameter)["output"]] == want
    assert [json.loads(one) for one in read(by_input)["output"]] == want


def test_all_elements_are_one_batch(booth: Booth) -> None:
    body = {"inputs": [texts("text", *(f"{A} {i}" for i in range(9)))]}
    (reply,) = booth.behind(lambda: booth.ask("POST", "/v2/models/topic/infer", body))
    assert (reply.headers["x-batch-rows"], booth.takes) == ("9", [1, 9])


def test_a_timeout_is_in_microseconds(booth: Booth) -> None:
    assert infer(booth, "topic", texts("text", A), parameters={"timeout": 10_000_000})
    assert infer(booth, "topic", texts("text", A), parameters={"timeout": 0})
    body = {"inputs": [texts("text", A)], "parameters": {"timeout": 40_000}}
    (reply,) = booth.behind(lambda: booth.ask("POST", "/v2/models/topic/infer", body))
    assert reply.status in {429, 504}
    message = refused(booth, "topic", 422, texts("text", A), parameters={"timeout": "1"})
    assert message == "parameters.timeout: not a number of microseconds"


def test_binary_tensors_go_in_and_out(booth: Booth) -> None:
    want = read(infer(booth, "nli", texts("text", A, B), texts("text_pair", B, A)))
    first, second = packed(A, B), packed(B, A)
    inputs = [tensor(first, [2], content_type="str"), tensor(second, [2], "text_pair")]
    head = {"inputs": inputs, "parameters": {"binary_data_output": True}}
    reply = binary(booth, "nli", head, first + second)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/octet-stream")
    size = int(reply.headers["inference-header-content-length"])
    told, rest = json.loads(reply.body[:size]), reply.body[size:]
    label, probs = told["outputs"]
    assert "data" not in label
    assert rest[: label["parameters"]["binary_data_size"]] == packed(*want["label"])
    floats = np.frombuffer(rest[label["parameters"]["binary_data_size"] :], "<f4")
    assert floats.tolist() == np.array(want["probs"], "<f4").tolist()
    assert probs["parameters"]["binary_data_size"] == 4 * 6
    assert probs["parameters"]["labels"]


def test_each_output_says_for_itself_whether_it_is_binary(booth: Booth) -> None:
    wanted = [{"name": "score", "parameters": {"binary_data": True}}, {"name": "start"}, {"name": "answer"}]
    inputs = [texts(name, text) for name, text in ASKED.items()]
    reply = booth.post("/v2/models/sure/infer", {"inputs": inputs, "outputs": wanted})
    told = json.loads(reply.body[: int(reply.headers["inference-header-content-length"])])
    assert [(o["name"], "data" in o) for o in told["outputs"]] == [("score", False), ("start", True), ("answer", True)]
    native = booth.native("sure", **ASKED)["answer"]
    assert reply.body[-4:] == struct.pack("<f", native["score"])
    assert told["outputs"][1]["data"] == [native["start"]]
    off = {"inputs": inputs, "outputs": [{"name": "start", "parameters": {"binary_data": False}}]}
    off["parameters"] = {"binary_data_output": True}  # type: ignore[assignment]
    assert "inference-header-content-length" not in booth.post("/v2/models/sure/infer", off).headers


def test_numbers_come_in_binary_of_any_width(booth: Booth) -> None:
    want = booth.native("reading", **ASKED, top_k=3)
    for datatype, code in (("INT64", "<q"), ("INT32", "<i"), ("UINT8", "<B")):
        blob = struct.pack(code, 3)
        inputs = [texts(name, text) for name, text in ASKED.items()]
        head = {"inputs": [*inputs, tensor(blob, [1], "top_k", datatype)], "outputs": [{"name": "output"}]}
        reply = binary(booth, "reading", head, blob)
        assert json.loads(reply.json["outputs"][0]["data"][0]) == want


TEXT = packed(A)
HEAD = {"inputs": [tensor(TEXT, [1])]}


@pytest.mark.parametrize(
    ("head", "blob", "length", "message"),
    [
        (HEAD, TEXT, "abc", "is not the length of a JSON"),
        (HEAD, TEXT, "-1", "is not the length of a JSON"),
        (HEAD, TEXT, "²", "is not the length of a JSON"),
        (HEAD, TEXT, "99999999999999999999999", "is not the length of a JSON"),
        (HEAD, TEXT, "4096", "is not the length of a JSON"),
        (HEAD, TEXT, "3", "Invalid JSON"),
        (HEAD, TEXT[:-1], None, f"there are {len(TEXT) - 1} bytes behind the JSON"),
        (HEAD, TEXT + b"a", None, "the inputs declare"),
        ({"inputs": [texts("text", A)]}, b"a", None, "the inputs declare 0 bytes"),
        ({"inputs": [tensor(TEXT, [1]) | {"data": [A]}]}, TEXT, None, "give either data or binary_data_size"),
        ({"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1]}]}, b"", None, "give either data or"),
        ({"inputs": [tensor(TEXT, [1], binary_data_size=-4)]}, TEXT, None, "not a number of bytes"),
        ({"inputs": [tensor(TEXT, [1], binary_data_size=True)]}, TEXT, None, "not a number of bytes"),
        ({"inputs": [tensor(TEXT, [1], binary_data_size=10**30)]}, TEXT, None, "binary_data_size: there are"),
        ({"inputs": [tensor(b"\1\0\0", [1])]}, b"\1\0\0", None, "an element's length is cut off"),
        ({"inputs": [tensor(b"\xff\xff\xff\xffa", [1])]}, b"\xff\xff\xff\xffa", None, "an element of 4294967295 bytes"),
        ({"inputs": [tensor(packed(b"\xff\xfe"), [1])]}, packed(b"\xff\xfe"), None, "an element is not UTF-8"),
        ({"inputs": [tensor(packed(A, B), [1])]}, packed(A, B), None, "the shape says 1 elements, there are more"),
        ({"inputs": [tensor(TEXT, [2])]}, TEXT, None, "the shape says 2 elements, there are 1"),
        ({"inputs": [tensor(b"", [1])]}, b"", None, "the shape says 1 elements, there are 0"),
        ({"inputs": [tensor(TEXT, [])]}, TEXT, None, "give [n] or [n, 1]"),
        ({"inputs": [tensor(TEXT, [0])]}, TEXT, None, "give [n] or [n, 1]"),
        ({"inputs": [tensor(TEXT, [1, 2])]}, TEXT, None, "give [n] or [n, 1]"),
        ({"inputs": [tensor(TEXT, [1], datatype="FP32")]}, TEXT, None, "the datatype is BYTES, not FP32"),
        ({"inputs": [tensor(b"\0" * 7, [1], "top_k", "INT64")]}, b"\0" * 7, None, "7 bytes are not 1 elements of 8"),
        ({"inputs": [tensor(b"\0" * 8, [1], "top_k", "INT7")]}, b"\0" * 8, None, "there is no datatype 'INT7'"),
    ],
)
def test_a_malformed_binary_is_a_bad_request_with_a_reason(
    booth: Booth, head: Any, blob: bytes, length: str | None, message: str
) -> None:
    reply = binary(booth, "reading" if "top_k" in str(head) else "topic", head, blob, length)
    assert (reply.status, set(reply.json)) == (400, {"error"})
    assert message in reply.json["error"]
    assert sum(booth.counts.outcomes.values()) == 1


@pytest.mark.parametrize(
    ("status", "inputs", "rest", "message"),
    [
        (400, [texts("text", A) | {"data": [1]}], {}, "inputs.text: an element is not of datatype BYTES"),
        (400, [texts("text", A) | {"data": [[A], B]}], {}, "inputs.text: the shape says 1 elements, there are more"),
        (400, [texts("text", A), texts("on_overflow", "error", "error")], {}, "inputs: inputs of 1 and 2 elements"),
        (422, [texts("text", A) | {"shape": [-1]}], {}, "inputs.0.shape.0: "),
        (422, [texts("text", A) | {"shape": [10**12]}], {}, "inputs.text: 1000000000000 items; at most 40"),
        (422, [texts("text", *["a"] * 41)], {}, "inputs.text: 41 items; at most 40"),
        (422, [texts("txt", A)], {}, "inputs.0.name: give once any of text, "),
        (422, [texts("text", A), texts("args", B)], {}, "inputs.1.name: give once any of text, "),
        (422, [texts("top_k", A)], {}, "inputs.0.name: "),
        (422, [texts("on_overflow", "error")], {}, "inputs.text: Field required"),
        (422, [texts("text", A), texts("on_overflow", "never")], {}, "inputs.on_overflow.0: "),
        (422, [texts("text", A, " ")], {}, "inputs.text.1: the text is empty"),
        (422, [], {}, "inputs: "),
        (422, [texts("text", A)], {"model": "a"}, "model: "),
        (422, [texts("text", A)], {"parameters": {"priority": 1}}, "parameters.priority: this parameter is not"),
        (422, [texts("text", A)], {"parameters": {"top_k": 1}}, "parameters.top_k: this parameter is not"),
        (422, [texts("text", A)], {"parameters": {"on_overflow": "never"}}, "parameters.on_overflow: "),
        (422, [texts("text", A)], {"parameters": {"binary_data_output": 1}}, "parameters.binary_data_output: "),
        (422, [texts("text", A)], {"outputs": [{"name": "logits"}]}, "outputs.0.name: ask once for any of label, "),
        (422, [texts("text", A)], {"outputs": [{"name": "label"}] * 2}, "outputs.1.name: ask once"),
        (
            422,
            [texts("text", A)],
            {"outputs": [{"name": "probs", "parameters": {"classification": 2}}]},
            "outputs.0.parameters.classification: this parameter is not",
        ),
        (
            422,
            [texts("text", A) | {"parameters": {"shared_memory_region": "a"}}],
            {},
            "inputs.text.parameters.shared_memory_region: this parameter is not",
        ),
        (
            422,
            [texts("text", A) | {"parameters": {"content_type": "np"}}],
            {},
            "inputs.text.parameters.content_type: this input has str",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    booth: Booth, status: int, inputs: list[Any], rest: dict[str, Any], message: str
) -> None:
    assert refused(booth, "topic", status, *inputs, **rest).startswith(message)
    assert sum(booth.counts.outcomes.values()) in {1, 2}


def test_a_compressed_body_is_not_taken(booth: Booth) -> None:
    reply = booth.post("/v2/models/topic/infer", b"\x1f\x8b", content_encoding="gzip")
    assert (reply.status, reply.json) == (415, {"error": "send the body as it is, not as gzip"})


@pytest.mark.parametrize(
    "path", ["/v2/models/none/infer", "/v2/models/topic/versions/2/infer", "/v2/models/topic/config"]
)
def test_a_model_or_version_that_is_not_there(booth: Booth, path: str) -> None:
    assert booth.post(path, {"inputs": [texts("text", A)]}).status == 404


def test_a_bundle_of_the_store_has_its_version(bundle_of: Any, tmp_path: Path) -> None:
    folder = copy(bundle_of("klue/ynat"), tmp_path / "0123456789abcdef")
    (folder / "model.yaml").write_text("version: 0123456789abcdef\n", encoding="utf-8")
    stored = Booth({"topic": folder})
    try:
        assert stored.get("/v2/models/topic").json["versions"] == ["0123456789abcdef"]
        assert stored.get("/v2/models/topic/versions/0123456789abcdef/ready").status == 200
    finally:
        stored.close()
