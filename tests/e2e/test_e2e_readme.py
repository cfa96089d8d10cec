"""Every request that the README shows, run as it stands, gives the answer that the README shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.loading import difference

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```sh\n(curl .*)\n```\n```json\n(.*)\n```", README)


def test_the_readme_shows_at_least_entities_inference_and_reading() -> None:
    assert len(SHOWN) >= 3


@pytest.mark.parametrize(("command", "answer"), SHOWN)
def test_a_request_of_the_readme_gives_its_answer(client: httpx.Client, command: str, answer: str) -> None:
    arguments = shlex.split(command)
    url = next(a for a in arguments if a.startswith("localhost:3000"))
    name, _, value = arguments[arguments.index("-H") + 1].partition(": ")
    body = arguments[arguments.index("-d") + 1]
    response = client.post(url.removeprefix("localhost:3000"), content=body.encode(), headers={name: value})
    got: Any = response.json()
    assert response.status_code == 200
    assert difference(json.loads(answer), got, tolerance=1e-4) is None
