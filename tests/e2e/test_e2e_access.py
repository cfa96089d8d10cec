"""A server with keys: nobody gets in without one, and each gets what its key may have, by every protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from e2e_keys import NAMES, TEXT, Guarded, serving
from huggingface_hub import InferenceClient, configure_http_backend
from huggingface_hub.errors import HfHubHTTPError
from tritonclient.http import InferenceServerClient
from tritonclient.utils import InferenceServerException

from clueserve import Client

OPEN = {"/livez", "/readyz", "/healthz", "/health", "/v2/health/live", "/v2/health/ready"}

pytestmark = pytest.mark.xdist_group("keys")  # one server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, demo_store: Path) -> Iterator[Guarded]:
    with serving(tmp_path_factory.mktemp("keys")) as server:
        yield server


def test_without_a_key_every_route_but_the_probes_answers_401(guarded: Guarded) -> None:
    document = guarded.ask("GET", "/docs.json", "ops").json()
    operations = {
        (method.upper(), re.sub(r"{\w+}", "klue-ner", path))
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert {("POST", "/klue-ner"), ("POST", "/models/klue-ner"), ("POST", "/v2/models/klue-ner/infer")} <= operations
    page = guarded.ask("GET", "/", "all").text
    assets = set(re.findall(r'"(/assets/[^"]+)"', page))
    assert assets
    pages = {"/", "/docs.json", "/schema.json", "/metrics", "/v1/models", "/v2", "/nowhere", *assets}
    for method, path in operations | {("GET", path) for path in pages}:
        response = guarded.ask(method, path)
        if path in OPEN:
            assert response.status_code == 200, path
            continue
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer"), path
        assert guarded.ask(method, path, "clue_all_wrong").status_code == 401


def test_a_key_is_taken_as_clients_send_it(guarded: Guarded) -> None:
    key = guarded.key("all")
    expected = guarded.ask("POST", "/klue-ner", key, json={"text": TEXT})
    assert expected.status_code == 200
    assert guarded.ask("POST", "/klue-ner", headers={"x-api-key": key}, json={"text": TEXT}).json() == expected.json()
    configure_http_backend(requests.Session)  # tests run with HF_HUB_OFFLINE, whose session reaches nobody
    found = InferenceClient(model=f"{guarded.url}/models/klue-ner", token=key).token_classification(TEXT)
    assert [(e.start, e.end) for e in found] == [(e["start"], e["end"]) for e in expected.json()["entities"]]
    with Client(guarded.url, key=key) as client:
        assert client.ask("klue-ner", text=TEXT).raw == expected.json()
    with InferenceServerClient(guarded.url.removeprefix("http://")) as triton:
        assert triton.get_model_metadata("klue-ner", headers={"X-API-Key": key})["name"] == "klue-ner"
        with pytest.raises(InferenceServerException, match="send a key"):
            triton.get_model_metadata("klue-ner")
    with pytest.raises(HfHubHTTPError, match="401"):
        InferenceClient(model=f"{guarded.url}/models/klue-ner", token="hf_wrong").token_classification(TEXT)


def test_a_key_for_one_model_gets_that_one_by_every_protocol_and_no_other(guarded: Guarded) -> None:
    key = "ner"
    assert [m["name"] for m in guarded.ask("GET", "/v1/models", key).json()["models"]] == ["klue-ner"]
    document = guarded.ask("GET", "/docs.json", key).json()
    for page in ("/docs.json", "/schema.json", "/v1/models", "/v2", "/info?model=klue-ner", "/"):
        told = guarded.ask("GET", page, key).text
        assert not [word for word in ("klue-nli", "klue_nli", "klue-ynat", "klue_ynat") if word in told], page
    assert {r["route"] for r in guarded.ask("GET", "/schema.json", key).json()["routes"]} == {
        "/klue-ner",
        "/klue-ner/batch",
    }
    assert len(guarded.ask("GET", "/schema.json", "all").json()["routes"]) == 2 * len(NAMES)
    assert document["security"] == [{"bearer": []}, {"header": []}]
    pair, hypothesis = {"text": TEXT, "text_pair": TEXT}, {"inputs": [TEXT, TEXT]}
    allowed: list[tuple[str, str, Any]] = [
        ("POST", "/klue-ner", {"text": TEXT}),
        ("POST", "/klue-ner/batch", {"items": [{"text": TEXT}]}),
        ("POST", "/models/klue-ner", {"inputs": TEXT}),
        ("GET", "/v2/models/klue-ner", None),
        ("POST", "/parse", {"text": TEXT, "tasks": ["klue-ner"]}),
        ("GET", "/info?model=klue-ner", None),
    ]
    forbidden: list[tuple[str, str, Any]] = [
        ("POST", "/klue-nli", pair),
        ("POST", "/klue-nli", {"no": "item"}),
        ("POST", "/klue-nli/batch", {"items": [pair]}),
        ("POST", "/models/klue-nli", {"inputs": pair}),
        ("GET", "/v2/models/klue-nli", None),
        ("GET", "/v2/models/klue-nli/ready", None),
        ("POST", "/v2/models/klue-nli/infer", {"inputs": []}),
        ("POST", "/parse", {"text": TEXT, "tasks": ["klue-ner", "klue-ynat"]}),
        ("POST", "/parse", {"text": TEXT, "tasks": ["klue-nli"]}),
        ("GET", "/info?model=klue-ynat", None),
        ("POST", "/predict?model=klue-ynat", {"inputs": TEXT}),
        ("POST", "/predict?model=klue-ynat", {"no": "item"}),
        ("POST", "/tei/klue-nli/predict", hypothesis),
        ("POST", "/rerank?model=klue-nli", {"query": TEXT, "texts": [TEXT]}),
        ("GET", "/metrics", None),
    ]
    for expected, tries in ((200, allowed), (403, forbidden)):
        for method, path, body in tries:
            response = guarded.ask(method, path, key, json=body) if body else guarded.ask(method, path, key)
            assert response.status_code == expected, (path, response.text)


def test_refusals_are_written_in_each_protocols_way(guarded: Guarded) -> None:
    key = "ner"
    native = guarded.ask("POST", "/klue-nli", key, json={})
    assert native.json()["error"]["code"] == "forbidden"
    for path in ("/models/klue-nli", "/v2/models/klue-nli/infer", "/tei/klue-nli/predict"):
        for answer in (guarded.ask("POST", path, key, json={}), guarded.ask("POST", path, json={})):
            assert isinstance(answer.json()["error"], str), path
    tei = [("POST", "/tei/klue-nli/predict"), ("POST", "/predict?model=klue-nli"), ("POST", "/rerank?model=klue-nli")]
    tei += [("GET", "/info?model=klue-nli"), ("GET", "/health?model=klue-nli"), ("GET", "/tei/klue-nli/health")]
    for method, path in tei:
        for name, status in ((None, 401), (key, 403)):
            answer = guarded.ask(method, path, name)
            assert (answer.status_code, answer.json().keys()) == (status, {"error", "error_type"}), path


def test_the_metrics_are_for_the_scraper(guarded: Guarded) -> None:
    for name, status in (("scraper", 200), ("ops", 200), ("all", 403)):
        assert guarded.ask("GET", "/metrics", guarded.keeper.texts[name]).status_code == status
    assert guarded.ask("POST", "/klue-ner", "scraper", json={"text": TEXT}).status_code == 403


def test_models_are_loaded_and_unloaded_by_administrators(guarded: Guarded) -> None:
    for path in ("/v2/repository/index", "/v2/repository/models/klue-ner/load"):
        statuses = [guarded.ask("POST", path, key, json={}).status_code for key in (None, "all", "scraper", "ops")]
        assert statuses == [401, 403, 403, 200], path
    for key, names in (("ops", set(NAMES)), ("ops-ner", {"klue-ner"})):
        index = guarded.ask("POST", "/v2/repository/index", key, json={}).json()
        assert {entry["name"] for entry in index} == names
    assert guarded.ask("POST", "/v2/repository/models/klue-nli/load", "ops-ner", json={}).status_code == 403
