"""Our client and our command against a running server: their answers are the native ones."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from e2e_servers import DEMO, ROOT

from clueserve import Answer, AsyncClient, BadRequest, Client, Entities
from clueserve.answers import FAMILIES
from clueserve.cli.fields import example
from service.loading import difference

TEXT = "삼성전자 이재용 회장은 5월 3일 서울에서 기자들을 만났다."
Command = Callable[..., subprocess.CompletedProcess[str]]


def same(expected: Any, got: Any) -> bool:
    return difference(expected, got, tolerance=1e-4) is None


@pytest.fixture(scope="module")
def ours(server: str) -> Any:
    with Client(server) as client:
        yield client


@pytest.fixture
def command(server: str) -> Command:
    """`command("ask", "klue-ner", "...")`: the command, run as a person runs it."""

    def run(*arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "clueserve", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "CLUESERVE_URL": server, "PYTHONUTF8": "1", **env},
            timeout=120,
        )

    return run


@pytest.mark.parametrize("name", DEMO)
def test_either_client_answers_what_the_server_answers(
    client: httpx.Client, server: str, ours: Client, name: str
) -> None:
    model = next(one for one in ours.models() if one.name == name)
    native = client.post(f"/{name}", json=model.example).json()
    answer = ours.ask(name, **model.example)
    assert type(answer) is FAMILIES[model.family]
    assert same(native, answer.raw)
    assert answer.timing is not None
    assert answer.timing.inference_ms > 0

    async def ask() -> Answer:
        async with AsyncClient(server) as other:
            return await other.ask(name, **model.example)

    assert same(native, asyncio.run(ask()).raw)


def test_a_batch_larger_than_the_server_takes_is_answered_in_order(ours: Client) -> None:
    texts = [f"이순신은 {i}일에 여수에 갔다." for i in range(1050)]
    outcomes = ours.batch("klue-ynat", [{"text": text, "top_k": 1} for text in [*texts, ""]], timeout=250)
    assert all(isinstance(one, Answer) for one in outcomes[:-1])
    assert isinstance(outcomes[-1], BadRequest)
    assert (outcomes[-1].code, outcomes[-1].field) == ("empty_text", "items.1050.text")
    for i in (0, 999, 1000, 1049):
        assert same(outcomes[i].raw, ours.ask("klue-ynat", text=texts[i], top_k=1).raw)  # type: ignore[union-attr]


def test_parse_gives_typed_answers_a_task(ours: Client, client: httpx.Client) -> None:
    document = ours.parse([TEXT, "여수"], ["klue-ner", "klue-dp"])
    native = client.post("/parse", json={"text": [TEXT, "여수"], "tasks": ["klue-ner", "klue-dp"]}).json()
    assert same(native, {task: [one.raw for one in column] for task, column in document.items()})  # type: ignore[union-attr]
    (found, _), _ = document.values()
    assert isinstance(found, Entities)
    assert [entity.text for entity in found.entities] == ["삼성전자", "이재용", "5월 3일", "서울"]


def test_several_async_calls_share_a_client(server: str) -> None:
    async def ask() -> list[Answer]:
        async with AsyncClient(server) as client:
            return await asyncio.gather(
                *(client.ask("klue-ner", text=f"나는 {c}에 산다") for c in ("서울", "부산", "여수"))
            )

    assert [one.entities[0].text for one in asyncio.run(ask()) if isinstance(one, Entities)] == ["서울", "부산", "여수"]


@pytest.mark.parametrize("name", DEMO)
def test_the_command_answers_every_models_example(command: Command, ours: Client, name: str) -> None:
    model = next(one for one in ours.models() if one.name == name)
    arguments = shlex.split(example(model))[1:]
    ran = command(*arguments, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert same(ours.ask(name, **model.example).raw, json.loads(ran.stdout))


def test_the_command_shows_entities_in_their_text(command: Command) -> None:
    ran = command("ask", "klue-ner", "-", stdin=TEXT + "\n")
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[0] == (
        "[삼성전자 OG] [이재용 PS] 회장은 [5월 3일 DT] [서울 LC]에서 기자들을 만났다."
    )


def test_the_command_lists_parses_and_explains(command: Command) -> None:
    assert all(name in command("models").stdout for name in DEMO)
    assert "└── 여수에  NP_AJT" in command("parse", "이순신은 여수에 갔다.", "--tasks", "klue-dp,klue-ner").stdout
    wrong = command("ask", "klue-nerr", "a")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "did you mean klue-ner" in wrong.stderr
    refused = command("ask", "klue-ner", "")
    assert (refused.returncode, refused.stderr) == (1, "clueserve ask: text: the text is empty (empty_text)\n")


def test_the_command_serves_exports_and_measures(command: Command, demo_store: Any) -> None:
    assert "usage: python -m exporters" in command("export", "--help").stdout
    assert "usage: python -m benchmarks" in command("bench", "--help").stdout
    assert "suite" in command("export", "nowhere", "--suite", "klue/nix").stderr


def test_a_server_that_the_command_starts_is_waited_for_and_answers(demo_store: Path, tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to(demo_store / "models")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("NLU_", "BENTOML_", "PROMETHEUS_"))}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "clueserve", "serve", "klue-ner", "x=klue-nli:latest", "--port", str(port)],
            cwd=ROOT,
            env=inherited | {"BENTOML_HOME": str(tmp_path), "BENTOML_DO_NOT_TRACK": "True"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        with Client(f"http://127.0.0.1:{port}", timeout=120, retries=200) as client:
            assert client.ask("klue-ner", text=TEXT).raw["entities"]
            assert [model.name for model in client.models()] == ["klue-ner", "x"]
    finally:
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
        process.terminate()
        _, stubborn = psutil.wait_procs(family, 20)
        for one in stubborn:
            one.kill()
        process.wait(15)
