"""What README.md and docs/ show is what happens: every request gets its answer, every Python block runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from docblocks import HOST, ROOT, Block, Command, blocks, pages, request
from e2e_servers import store

from service.loading import difference

# It asks a server of its own: test_e2e_tutorial.py.
TUTORIAL = "docs/tutorial.md"
TRIED = [block for page in pages() if page != TUTORIAL for block in blocks(page) if block.excuse is None]
REQUESTS = [
    pytest.param(block, command, id=f"{block.place}-{i}")
    for block in TRIED
    if block.language == "sh"
    for i, command in enumerate(block.commands)
    if command.name == "curl"
]
ASKING = [
    pytest.param(block, command, id=f"{block.place}-{i}")
    for block in TRIED
    if block.language == "sh"
    for i, command in enumerate(block.commands)
    if command.name == "clueserve" and command.words[1] in ("ask", "parse", "models")
]
PYTHON = sorted({block.page for block in TRIED if block.language == "python"})

# Runs the blocks of a page one after another, as one program, and tells what each printed.
RUNNER = """\
import contextlib, io, json, sys
names, printed = {"__name__": "__main__"}, []
for place, source in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(source, place, "exec"), names)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


@pytest.mark.parametrize(("block", "command"), REQUESTS)
def test_a_request_that_is_shown_gets_its_answer(client: httpx.Client, block: Block, command: Command) -> None:
    asked = request(command)
    response = client.request(asked.method, asked.path, content=asked.body or None, headers=asked.headers)
    shown = json.loads(block.shows) if block.shows and command == block.commands[-1] else None
    refused = isinstance(shown, dict) and set(shown) == {"error"}
    assert response.is_client_error if refused else response.is_success, response.text
    if shown is not None:
        assert difference(lasting(shown), lasting(response.json()), tolerance=1e-4) is None


def lasting(answer: Any) -> Any:
    """An answer without the versions of bundles: each machine's export has its own."""
    if isinstance(answer, dict):
        return {key: lasting(value) for key, value in answer.items() if key not in ("version", "model_version")}
    return [lasting(value) for value in answer] if isinstance(answer, list) else answer


@pytest.mark.parametrize(("block", "command"), ASKING)
def test_a_question_on_the_command_line_gets_its_answer(server: str, block: Block, command: Command) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CLUESERVE_URL": server, **command.env}
    asked = [sys.executable, "-m", "clueserve", *command.words[1:]]
    done = subprocess.run(asked, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    if block.shows is not None and command == block.commands[-1]:
        assert done.stdout.split() == block.shows.split()


@pytest.mark.parametrize("page", PYTHON)
def test_the_python_of_a_page_runs_from_top_to_bottom(server: str, page: str, tmp_path: Path) -> None:
    shown = [block for block in TRIED if block.page == page and block.language == "python"]
    address = server.removeprefix("http://")
    # Forbidden for tests at large, it would forbid huggingface_hub's client to ask this machine.
    inherited = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    program = [(block.place, block.text.replace(HOST, address)) for block in shown]
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(program),
        cwd=tmp_path,
        env={**inherited, "PYTHONPATH": str(ROOT), "BENTOML_HOME": str(store())},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    for block, printed in zip(shown, json.loads(done.stdout), strict=True):
        if block.shows is not None:
            assert printed.strip() == block.shows.strip(), block.place


def test_the_tasks_page_shows_every_family(client: httpx.Client) -> None:
    shown = {param.values[1].words[2] for param in REQUESTS if param.values[0].page == "docs/tasks.md"}
    paths = {match[1] for url in shown if (match := re.fullmatch(rf"{HOST}/([^/]+)", url))}
    served = {model["name"]: model["family"] for model in client.get("/v1/models").json()["models"]}
    assert {served[path] for path in paths} == set(served.values())
    assert len(set(served.values())) >= 8
