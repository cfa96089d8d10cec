"""From the command line to ready: what a server says while it loads, and what it refuses to serve."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import onnxruntime
import pytest
from e2e_keys import Keeper
from e2e_servers import DEMO, Server, StartServer, bundle_folder

ALL = ",".join(f"{name}:latest" for name in DEMO)


def link(source: str, target: str) -> None:
    """Copy a file without its bytes, where the file system can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@pytest.fixture
def copy_of(tmp_path: Path, demo_store: Path) -> Callable[[str], Path]:
    """A bundle that may be broken: bundle.json is its own file, the others are linked."""

    def copy(name: str) -> Path:
        folder = tmp_path / name
        shutil.copytree(bundle_folder(name), folder, copy_function=link)
        manifest = (folder / "bundle.json").read_text(encoding="utf-8")
        (folder / "bundle.json").unlink()
        (folder / "bundle.json").write_text(manifest, encoding="utf-8")
        return folder

    return copy


def edit(folder: Path, change: Callable[[Any], None]) -> None:
    path = folder / "bundle.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    path.write_text(json.dumps(manifest, ensure_ascii=False), encoding="utf-8")


def settled(server: Server) -> tuple[int, str]:
    """The answer of /readyz once nothing is loading any more."""
    server.wait("/livez")
    for _ in range(600):
        status, body = server.get("/readyz")
        if status == 200 or "loading" not in body:
            break
        sleep(0.1)
    return status, body


def post(server: Server, path: str, item: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=item, timeout=60, trust_env=False)


@pytest.mark.alone
def test_a_server_is_alive_but_not_ready_while_it_loads_and_ready_within_ten_seconds(
    start_server: StartServer,
) -> None:
    # kserve/kserve#799: ready was reported before the model was there, with status 200 and "ready: false".
    server = start_server({"NLU_MODELS": ALL}, ready=False)
    server.wait("/livez")
    early = server.get("/readyz")
    refused = post(server, f"/{DEMO[-1]}", {"text": "aspirin"})
    while server.get("/readyz")[0] == 503:
        assert server.get("/livez")[0] == 200
        sleep(0.05)
    seconds, busy = server.wait(), server.cpu_seconds()
    print(f"\n{len(DEMO)} bundles ready after {seconds:.1f} s and {busy:.1f} s of CPU time")
    assert early[0] == 503
    assert "loading" in early[1]
    assert DEMO[-1] in early[1]
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")
    assert int(refused.headers["retry-after"]) >= 1
    for name in DEMO:
        manifest = json.loads((bundle_folder(name) / "bundle.json").read_text(encoding="utf-8"))
        assert post(server, f"/{name}", manifest["golden"][0]["item"]).status_code == 200
    # On a machine that is busy with something else the clock says nothing: then two cores' time must do.
    assert seconds < 10 or busy < 20


def test_a_bundle_that_misses_its_golden_record_is_never_ready(
    start_server: StartServer, copy_of: Callable[[str], Path]
) -> None:
    # microsoft/onnxruntime#5849: a graph that answers, but not as its model did.
    folder = copy_of("klue-ynat")

    def flip(manifest: Any) -> None:
        manifest["golden"][0]["answer"]["label"] = "정치"

    edit(folder, flip)
    server = start_server({"NLU_MODELS": f"topic={folder},klue-nli:latest"}, ready=False)
    status, body = settled(server)
    assert status == 503
    assert "topic" in body
    assert "golden record 0" in body
    assert "정치" in body
    assert server.get("/livez")[0] == 200
    item = {"text": "도서관은 아침에 연다.", "text_pair": "도서관은 밤에 연다."}
    while "klue-nli is not loaded" in (answer := post(server, "/klue-nli", item)).text:
        sleep(0.1)
    assert answer.status_code == 200
    assert post(server, "/topic", {"text": "코스피"}).status_code == 503


def test_with_keys_strangers_are_not_told_why_a_bundle_is_not_ready(
    start_server: StartServer, copy_of: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = copy_of("klue-ynat")

    def flip(manifest: Any) -> None:
        manifest["golden"][0]["answer"]["label"] = "정치"

    edit(folder, flip)
    keeper = Keeper(tmp_path / "keys.json")
    key = keeper.new("mine")
    server = start_server({"NLU_MODELS": f"topic={folder}", "NLU_KEYS_FILE": str(keeper.path)}, ready=False)
    settled(server)
    for path in ("/readyz", "/health", "/v2/health/ready"):
        status, body = server.get(path)
        assert (status, "topic" in body) == (503, True), path
        assert not [word for word in ("golden", "정치", str(folder)) if word in body], path
    answer = httpx.get(server.url + "/v1/models", headers={"x-api-key": key}, trust_env=False)
    assert "golden record 0" in answer.json()["models"][0]["reason"]
    assert "golden record 0" in server.log


@pytest.mark.parametrize("file", ["model.onnx", "model.onnx.data", "tokenizer.json"])
def test_a_missing_file_is_named_and_keeps_the_server_from_ready(
    start_server: StartServer, copy_of: Callable[[str], Path], file: str
) -> None:
    # huggingface/optimum#2223: a graph without its weights beside it.
    folder = copy_of("klue-ynat")
    (folder / file).unlink()
    status, body = settled(start_server({"NLU_MODELS": str(folder)}, ready=False))
    assert status == 503
    assert f"{file} is listed in bundle.json but missing" in body


def test_an_altered_file_is_named_and_keeps_the_server_from_ready(
    start_server: StartServer, copy_of: Callable[[str], Path]
) -> None:
    folder = copy_of("klue-ynat")
    data = bytearray((folder / "model.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").write_bytes(data)
    status, body = settled(start_server({"NLU_MODELS": str(folder)}, ready=False))
    assert status == 503
    assert "model.onnx is not the file that was exported" in body


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"NLU_MODELS": ""}, ["no bundle to serve"]),
        ({"NLU_MODELS": "nope:latest"}, ["nope:latest", "not in the BentoML store"]),
        ({"NLU_MODELS": "klue ynat"}, ["klue ynat", "not a valid BentoML tag"]),
        ({"NLU_MODELS": "/nope/x"}, ["/nope/x is not a bundle", "bundle.json"]),
        ({"NLU_MAX_WAIT": "3"}, ["NLU_MAX_WAIT is not a setting", "did you mean NLU_MAX_WAIT_MS"]),
        ({"NLU_THREADS": "-1", "NLU_DEVCE": "cpu"}, ["NLU_THREADS", "NLU_DEVICE"]),
        ({"NLU_DEVICE": "gpu"}, ["NLU_DEVICE", "cuda"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_served_ends_the_start_with_one_line(
    start_server: StartServer, tmp_path: Path, env: dict[str, str], words: list[str]
) -> None:
    empty = tmp_path / "models"
    empty.mkdir()
    server = start_server(env, ready=False, models=empty)
    assert server.exit_code() != 0
    (line,) = server.log.splitlines()
    assert line.startswith("clueserve cannot start: ")
    assert all(word in line for word in words), line


@pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="this ONNX Runtime has CUDA"
)
def test_a_device_that_is_not_there_is_refused_and_never_replaced(start_server: StartServer) -> None:
    server = start_server({"NLU_DEVICE": "cuda", "NLU_MODELS": "klue-ynat:latest"}, ready=False)
    assert server.exit_code() != 0
    assert "CUDAExecutionProvider" in server.log
    assert "NLU_DEVICE=cpu" in server.log


def test_one_name_twice_is_refused(start_server: StartServer) -> None:
    for models in ("ner=klue-ner:latest,ner=bc5cdr:latest", "metrics=klue-ner:latest"):
        server = start_server({"NLU_MODELS": models}, ready=False)
        assert server.exit_code() != 0
        assert models.partition("=")[0] in server.log


def test_an_alias_a_tag_and_a_folder_are_routes(start_server: StartServer) -> None:
    models = f"ner=klue-ner:latest, klue-ynat:latest, medical.1={bundle_folder('bc5cdr')}"
    server = start_server({"NLU_MODELS": models})
    listed = json.loads(server.get("/v1/models")[1])["models"]
    assert [model["endpoint"] for model in listed] == ["/ner", "/klue-ynat", "/medical.1"]
    for path, text in (("/ner", "이순신은 여수에 갔다."), ("/medical.1", "He took aspirin.")):
        assert len(post(server, path, {"text": text}).json()["entities"]) > 0
        assert len(post(server, f"{path}/batch", {"items": [{"text": text}]}).json()["results"]) == 1
    assert post(server, "/klue-ner", {"text": "a"}).status_code == 404
    assert 'bundle="ner",outcome="ok"' in server.get("/metrics")[1]
