"""`POST /parse` of a running server answers what the models answer alone."""

from __future__ import annotations

from typing import Any

import httpx

TASKS = ["klue-ner", "klue-dp", "klue-ynat", "pubmedqa", "cmedqaner-gp"]
TEXTS = [
    "이순신은 여수에 갔다.",
    "삼성전자 이재용 회장은 5월 3일 서울에서 기자들을 만났다.",
    "孩子感冒发烧了，可以吃布洛芬吗？ 👍🏽",
]


def natively(client: httpx.Client, task: str, text: str, **options: Any) -> Any:
    return client.post(f"/{task}", json={"text": text, **options}).json()


def near(one: Any, other: Any) -> bool:
    """Equal, but for what padding does to the last decimals of a score."""
    if isinstance(one, float):
        return abs(one - other) < 1e-4
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(near, one, other))
    return bool(one == other)


def test_texts_by_tasks_get_the_answers_of_each_model_alone(client: httpx.Client) -> None:
    response = client.post("/parse", json={"text": TEXTS, "tasks": TASKS, "offset_unit": "byte"})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    alone = {task: [natively(client, task, text, offset_unit="byte") for text in TEXTS] for task in TASKS}
    assert near(response.json(), alone)


def test_one_text_gets_a_document_keyed_by_task(client: httpx.Client) -> None:
    document = client.post("/parse", json={"text": TEXTS[0], "tasks": TASKS[:2]}).json()
    assert near(document, {task: natively(client, task, TEXTS[0]) for task in TASKS[:2]})


def test_a_bad_text_fails_alone_and_a_bad_task_fails_the_request(client: httpx.Client) -> None:
    answers = client.post("/parse", json={"text": ["", TEXTS[0]], "tasks": ["klue-ner"]}).json()["klue-ner"]
    assert answers[0]["error"] | {"message": ""} == {"code": "empty_text", "message": "", "field": "text.0"}
    assert answers[1]["entities"]
    for task, code in (("klue-nli", "unfit_task"), ("klue-xx", "unknown_task")):
        response = client.post("/parse", json={"text": "a", "tasks": ["klue-ner", task]})
        assert response.status_code == 422
        assert (response.json()["error"]["code"], response.json()["error"]["field"]) == (code, "tasks.1")


def test_the_documented_example_runs_and_its_answer_is_the_documented_one(client: httpx.Client) -> None:
    operation = client.get("/docs.json").json()["paths"]["/parse"]["post"]
    request = operation["requestBody"]["content"]["application/json"]["example"]
    documented = operation["responses"]["200"]["content"]["application/json"]["example"]
    assert near(client.post("/parse", json=request).json(), documented)


def test_the_list_of_models_says_how_large_requests_may_be(client: httpx.Client) -> None:
    assert client.get("/v1/models").json()["limits"] == {
        "max_batch_items": 1000,
        "max_body_bytes": 1 << 20,
        "max_text_chars": 100_000,
    }
