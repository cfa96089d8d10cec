"""Every request that the README and docs/tasks.md show, run as it stands, gives the answer that they show."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.loading import difference

ROOT = Path(__file__).parents[2]


def shown(page: str) -> list[tuple[str, str]]:
    """Requests to the models that are served by default, and their answers."""
    text = (ROOT / page).read_text(encoding="utf-8").partition("## On request")[0]
    return re.findall(r"```sh\n(curl .*)\n```\n```json\n(.*)\n```", text)


def test_the_readme_shows_at_least_entities_inference_and_reading() -> None:
    assert len(shown("README.md")) >= 3


def test_the_tasks_page_shows_every_family(client: httpx.Client) -> None:
    paths = {re.search(r"localhost:3000/(\S+)", command)[1] for command, _ in shown("docs/tasks.md")}  # type: ignore[index]
    served = {model["name"]: model["family"] for model in client.get("/v1/models").json()["models"]}
    assert {served[path] for path in paths} == set(served.values())
    assert len(set(served.values())) >= 8


@pytest.mark.parametrize(("command", "answer"), [*shown("README.md"), *shown("docs/tasks.md")])
def test_a_request_that_is_shown_gives_its_answer(client: httpx.Client, command: str, answer: str) -> None:
    arguments = shlex.split(command)
    url = next(a for a in arguments if a.startswith("localhost:3000"))
    name, _, value = arguments[arguments.index("-H") + 1].partition(": ")
    body = arguments[arguments.index("-d") + 1]
    response = client.post(url.removeprefix("localhost:3000"), content=body.encode(), headers={name: value})
    got: Any = response.json()
    assert response.status_code == 200
    assert difference(json.loads(answer), got, tolerance=1e-4) is None
