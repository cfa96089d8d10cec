"""The HTTP contract: documented answers, batches, pages. (What bad requests get is in test_e2e_errors.py.)"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2e_servers import DEMO, StartServer

JSON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (float,),
    "boolean": (bool,),
    "null": (type(None),),
}


def problems(schema: dict[str, Any], value: Any, document: Any, path: str = "$") -> Iterator[str]:
    """Where a value is not what its schema says; a number is a float, so that no score is an int or a string."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        if all(list(problems(one, value, document, path)) for one in schema["anyOf"]):
            yield f"{path}: {value!r} fits none of {schema['anyOf']}"
        return
    if "type" in schema and type(value) not in JSON_TYPES[schema["type"]]:
        yield f"{path}: {value!r} is not of type {schema['type']}"
        return
    if isinstance(value, dict) and "additionalProperties" in schema and "properties" not in schema:
        for name, one in value.items():
            yield from problems(schema["additionalProperties"], one, document, f"{path}.{name}")
    elif isinstance(value, dict):
        known = schema["properties"]
        yield from (f"{path}: {name} is missing" for name in schema.get("required", []) if name not in value)
        yield from (f"{path}: {name} is not documented" for name in value if name not in known)
        for name in value.keys() & known.keys():
            yield from problems(known[name], value[name], document, f"{path}.{name}")
    if isinstance(value, list):
        for i, one in enumerate(value):
            yield from problems(schema["items"], one, document, f"{path}[{i}]")


def near(expected: Any, got: Any) -> bool:
    """Equal, numbers within 1e-3."""
    if isinstance(expected, float):
        return isinstance(got, float) and abs(expected - got) < 1e-3
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(near(expected[k], got[k]) for k in expected)
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(near, expected, got))
    return bool(type(expected) is type(got) and expected == got)


@pytest.fixture(scope="module")
def document(client: httpx.Client) -> Any:
    return client.get("/docs.json").json()


@pytest.fixture(scope="module")
def models(client: httpx.Client) -> dict[str, dict[str, Any]]:
    return {model["name"]: model for model in client.get("/v1/models").json()["models"]}


@pytest.mark.parametrize("name", DEMO)
@pytest.mark.parametrize("form", ["", "/batch"])
def test_a_documented_example_gets_its_documented_answer(
    client: httpx.Client, document: Any, name: str, form: str
) -> None:
    operation = document["paths"][f"/{name}{form}"]["post"]
    example = operation["requestBody"]["content"]["application/json"]["example"]
    documented = operation["responses"]["200"]["content"]["application/json"]
    response = client.post(f"/{name}{form}", json=example)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert near(documented["example"], response.json())
    assert list(problems(documented["schema"], response.json(), document)) == []


@pytest.mark.parametrize("name", DEMO)
def test_options_do_not_change_the_shape_of_an_answer(
    client: httpx.Client, document: Any, models: dict[str, dict[str, Any]], name: str
) -> None:
    # huggingface/transformers#25251: the nesting of the answer depended on top_k.
    item = {k: v for k, v in models[name]["example"].items() if k != "top_k"}
    operation = document["paths"][f"/{name}"]["post"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    asked = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    fields = document["components"]["schemas"][asked]["properties"]
    thresholds = [{"threshold": 0.99}, {"threshold": None}] if "threshold" in fields else []
    numbers = [{"top_k": 1}, {"top_k": 2}] if "top_k" in fields else []
    for options in [{}, *thresholds, *numbers]:
        answer = client.post(f"/{name}", json=item | options).json()
        assert list(problems(schema, answer, document)) == [], options
        if options.get("top_k"):
            listed = next(answer[key] for key in ("answers", "candidates", "scores") if key in answer)
            assert len(listed) == (0 if models[name]["suite"] == "klue/sts" else options["top_k"])
            assert listed == sorted(listed, key=lambda one: -one["score"])


def test_every_model_is_listed_with_its_facts(models: dict[str, dict[str, Any]]) -> None:
    assert sorted(models) == sorted(DEMO)
    for name, model in models.items():
        assert model["ready"] is True
        assert model["endpoint"] == f"/{name}"
        assert model["language"] in {"ko", "zh", "zh-Hant", "en"}
        assert not any(re.fullmatch(r"LABEL_\d+", label) for label in model["labels"])
        assert all(isinstance(score["value"], float) and isinstance(score["n"], int) for score in model["scores"])


def test_the_openapi_document_covers_every_endpoint_and_resolves(client: httpx.Client, document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    native = {"/v1/models", "/parse"} | {f"/{name}{form}" for name in DEMO for form in ("", "/batch")}
    others = {"/models/{model}", "/v2", "/predict", "/rerank", "/info", "/health"}
    assert set(document["paths"]) >= native | others
    assert all(path.startswith(("/v2/", "/tei/")) for path in set(document["paths"]) - native - others)
    refs = re.findall(r'"\$ref":\s*"#/components/schemas/([^"]+)"', client.get("/docs.json").text)
    assert set(refs) <= set(document["components"]["schemas"])
    for path, operation in document["paths"].items():
        if "post" in operation:
            assert {"400", "413", "415", "422", "429", "503", "504"} <= set(operation["post"]["responses"]), path


@pytest.mark.parametrize("path", ["/", "/livez", "/healthz", "/readyz", "/metrics", "/docs.json", "/v1/models"])
def test_every_page_answers_get_and_head(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 200
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")


def test_an_answer_says_where_its_time_went(client: httpx.Client) -> None:
    headers = client.post("/klue-ner", json={"text": "이순신은 여수에 갔다."}).headers
    assert all(float(headers[f"x-{stage}-ms"]) >= 0 for stage in ("queue", "tokenize"))
    assert float(headers["x-inference-ms"]) > 0
    assert int(headers["x-batch-rows"]) >= 1


def test_a_batch_answers_in_order_and_keeps_errors_in_their_slots(client: httpx.Client) -> None:
    cities = ["서울", "부산", "여수"]
    good = [{"text": f"나는 {city}에 산다"} for city in cities]
    items = [good[0], {"text": ""}, good[1], {"text": None}, {"txt": "a"}, 3, good[2]]
    response = client.post("/klue-ner/batch", json={"items": items})
    assert response.status_code == 200
    results = response.json()["results"]
    assert [results[i]["entities"][0]["text"] for i in (0, 2, 6)] == cities
    errors = {i: (results[i]["error"]["code"], results[i]["error"]["field"]) for i in (1, 3, 4, 5)}
    assert errors == {
        1: ("empty_text", "items.1.text"),
        3: ("invalid_value", "items.3.text"),
        4: ("missing_field", "items.4.text"),
        5: ("invalid_value", "items.5"),
    }


def test_a_batch_error_names_the_nested_field(client: httpx.Client, models: dict[str, dict[str, Any]]) -> None:
    good = models["klue-re"]["example"]
    items = [good, good | {"subject": {"start": -1, "end": 2}}, good | {"object": {"start": 3, "end": 999}}]
    results = client.post("/klue-re/batch", json={"items": items}).json()["results"]
    fields = [result.get("error", {}).get("field") for result in results]
    assert fields == [None, "items.1.subject.start", "items.2.object.end"]


@pytest.mark.parametrize("name", DEMO)
def test_an_item_gets_the_same_answer_alone_and_in_a_batch(
    client: httpx.Client, models: dict[str, dict[str, Any]], name: str
) -> None:
    item = {k: v for k, v in models[name]["example"].items() if k != "top_k"}
    long = {k: v * 20 if k in ("text", "context") else v for k, v in item.items()}
    results = client.post(f"/{name}/batch", json={"items": [item, long, item]}).json()["results"]
    assert near([client.post(f"/{name}", json=one).json() for one in (item, long, item)], results)


@pytest.mark.parametrize(
    ("items", "code", "field"),
    [([], "invalid_value", "items"), ({}, "invalid_value", "items"), ([{}] * 1001, "batch_too_large", "items")],
    ids=["empty", "object", "too-many"],
)
def test_a_batch_that_is_no_batch_is_refused_as_a_whole(
    client: httpx.Client, items: Any, code: str, field: str
) -> None:
    response = client.post("/klue-ynat/batch", json={"items": items})
    assert response.status_code == 422
    assert (response.json()["error"]["code"], response.json()["error"]["field"]) == (code, field)


def test_a_multiple_choice_bundle_answers_from_a_folder(
    start_server: StartServer, bundle_of: Any, tmp_path: Path
) -> None:
    server = start_server({"NLU_MODELS": f"choose={bundle_of('multiple-choice')}"})
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
        document = client.get("/docs.json").json()
        operation = document["paths"]["/choose"]["post"]
        item = operation["requestBody"]["content"]["application/json"]["example"]
        answer = client.post("/choose", json=item).json()
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert list(problems(schema, answer, document)) == []
        assert [one["text"] for one in answer["scores"]] == item["choices"]
        assert answer["text"] == item["choices"][answer["choice"]]
        assert sum(one["score"] for one in answer["scores"]) == pytest.approx(1, abs=1e-4)
