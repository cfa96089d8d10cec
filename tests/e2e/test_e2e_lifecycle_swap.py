"""Versions of a bundle that come and go while requests are answered."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import psutil
import pytest
from e2e_http import Connection, Reply, counted, series
from e2e_servers import Server, StartServer, bundle_folder

from service.bundle import Bundle

TEXTS = [f"반도체 수출 {n}% 증가…코스피 상승 마감" for n in range(40)]
OLD, NEW = "경제", "경제·금융"


@pytest.fixture
def versions(tmp_path: Path, demo_store: Path) -> tuple[Path, Path]:
    """Two versions of the topic model that give one class different names."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)

    for name in ("v1", "v2"):
        shutil.copytree(bundle_folder("klue-ynat"), tmp_path / name, copy_function=link)
    rewrite(tmp_path / "v2", lambda text: text.replace(f'"{OLD}"', f'"{NEW}"'))
    return tmp_path / "v1", tmp_path / "v2"


def rewrite(folder: Path, change: Callable[[str], str]) -> None:
    path = folder / "bundle.json"
    text = path.read_text(encoding="utf-8")
    path.unlink()  # the store's own file must not change
    path.write_text(change(json.dumps(json.loads(text), ensure_ascii=False)), encoding="utf-8")


def started(start_server: StartServer, models: str, workers: int = 1, **env: str) -> Server:
    server = start_server({"NLU_MODELS": models, "NLU_ADMIN": "true", "NLU_WORKERS": str(workers)} | env)
    until = monotonic() + 60
    while server.log.count("bundles ready") < workers:
        assert monotonic() < until, server.log
        sleep(0.05)
    return server


def admin(server: Server, call: str, **parameters: Any) -> httpx.Response:
    path = "index" if call == "index" else f"models/topic/{call}"
    body = {} if call == "index" else {"parameters": parameters}
    return httpx.post(f"{server.url}/v2/repository/{path}", json=body, timeout=60, trust_env=False)


def asked(server: Server, texts: list[str] = TEXTS) -> list[tuple[str, str]]:
    """Version and label of each text's answer."""
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
        replies = [client.post("/topic", json={"text": text}).raise_for_status() for text in texts]
    return [(reply.headers["x-model-version"], reply.json()["label"]) for reply in replies]


@pytest.mark.alone
def test_a_new_version_takes_over_and_gives_back_without_an_error(
    start_server: StartServer, versions: tuple[Path, Path]
) -> None:
    old, new = versions
    server = started(start_server, f"topic={old}", workers=2)
    of = {Bundle(folder).version: folder for folder in versions}
    done: list[bool] = []

    async def client() -> list[Reply]:
        connection = await Connection(server.url).open()
        replies = []
        while not done:
            replies.append(await connection.ask("/topic", {"text": TEXTS[len(replies) % 40]}))
            await asyncio.sleep(0.02)
        await connection.close()
        return replies

    async def swaps() -> None:
        for folder in (new, old):
            await asyncio.sleep(0.5)
            response = await asyncio.to_thread(admin, server, "load", reference=str(folder))
            assert response.status_code == 200, response.text
            # Done in every worker: whoever asks now is answered by this version and no other.
            answers = await asyncio.to_thread(asked, server, TEXTS[:10])
            assert {of[version] for version, _ in answers} == {folder}
        done.append(True)

    async def run() -> list[list[Reply]]:
        *replies, _ = await asyncio.gather(*(client() for _ in range(4)), swaps())
        return [r for r in replies if r]

    for replies in asyncio.run(run()):
        assert {reply.status for reply in replies} == {200}
        seen = [of[reply.headers["x-model-version"]] for reply in replies]
        assert [folder for i, folder in enumerate(seen) if folder != seen[i - 1]] in ([new, old], [old, new, old])
        labels = {
            folder: {r.json()["label"] for r, at in zip(replies, seen, strict=True) if at == folder}
            for folder in of.values()
        }
        assert OLD in labels[old] - labels[new]
        assert NEW in labels[new] - labels[old]
    assert "is let go" in server.log


def test_shares_are_of_the_items_and_hold_for_each(start_server: StartServer, versions: tuple[Path, Path]) -> None:
    server = started(start_server, f"topic={versions[0]},topic={versions[1]}@0.3", workers=2)
    v1, v2 = (Bundle(folder).version for folder in versions)
    first = asked(server)
    assert first == asked(server) == asked(server), "the same input, the same version, in every worker"
    batch = httpx.post(f"{server.url}/topic/batch", json={"items": [{"text": t} for t in TEXTS]}, trust_env=False)
    assert batch.headers["x-model-version"] == ", ".join(sorted([v1, v2]))
    assert [result["label"] for result in batch.json()["results"]] == [label for _, label in first]
    shares = Counter(version for version, _ in first)
    assert 3 <= shares[v2] <= 20
    (listed,) = json.loads(server.get("/v1/models")[1])["models"]
    assert listed["versions"] == [{"version": v1, "share": 0.7}, {"version": v2, "share": 0.3}]
    assert admin(server, "load", reference=str(versions[1]), share=0.6).status_code == 200
    second = asked(server)
    moved = [(a, b) for (a, _), (b, _) in zip(first, second, strict=True) if a != b]
    assert set(moved) == {(v1, v2)}, "a growing share only takes"
    assert series(server.get("/metrics")[1])[f'clueserve_answers_total{{bundle="topic",version="{v1}"}}'] > 0
    states = {entry["version"]: (entry["state"], entry["share"]) for entry in admin(server, "index").json()}
    assert states == {v1: ("READY", 0.4), v2: ("READY", 0.6)}
    assert admin(server, "unload", version=v1).status_code == 200
    assert {version for version, _ in asked(server)} == {v2}


def test_what_cannot_be_loaded_changes_nothing(start_server: StartServer, versions: tuple[Path, Path]) -> None:
    old, new = versions
    server = started(start_server, f"topic={old}", workers=2)
    rewrite(
        new,
        lambda text: text.replace('"tolerance"', '"tolerance" ', 1).replace(f'"label": "{NEW}"', '"label": "정치"', 1),
    )
    before = admin(server, "index").json()
    for reference, words in (
        (str(new), "golden record"),
        ("/etc/nothing", "is not a bundle"),
        (str(bundle_folder("klue-ynat")), "must lie beside"),
        (str(bundle_folder("klue-ner")), ""),
        ("nope:latest", "not in the BentoML store"),
        ("klue ynat", "not a valid BentoML tag"),
        (f"{old.parent}/{'a' * 300}", "cannot be read: File name too long"),
    ):
        response = admin(server, "load", reference=reference)
        assert response.status_code == 422, response.text
        assert words in response.text
        assert server.get("/readyz")[0] == 200
    assert admin(server, "load", config="{}").status_code == 422
    assert admin(server, "index").json() == before
    assert {version for version, _ in asked(server)} == {Bundle(old).version}


def test_an_unloaded_model_frees_its_memory_and_a_new_worker_knows_it(
    start_server: StartServer, versions: tuple[Path, Path]
) -> None:
    server = started(start_server, f"topic={versions[0]}")
    (worker,) = psutil.Process(server.process.pid).children()
    full = worker.memory_info().rss
    assert admin(server, "load", reference=str(versions[1])).status_code == 200
    assert admin(server, "unload").status_code == 200
    empty = worker.memory_info().rss
    print(f"\nmemory {full >> 20} MiB, unloaded {empty >> 20} MiB")
    assert empty < full - (40 << 20)
    refused = httpx.post(f"{server.url}/topic", json={"text": "코스피"}, trust_env=False)
    assert (refused.status_code, refused.json()["error"]["message"]) == (503, "topic is unloaded")
    assert server.get("/readyz")[0] == 200, "that is what was wanted"
    worker.kill()
    until = monotonic() + 60
    while server.log.count("bundles ready") < 2:
        assert monotonic() < until, server.log
        sleep(0.05)
    assert {entry["state"] for entry in admin(server, "index").json() if entry["name"] == "topic"} == {"UNAVAILABLE"}
    assert admin(server, "load").status_code == 200
    assert {version for version, _ in asked(server, TEXTS[:3])} == {Bundle(versions[1]).version}
    assert counted(server.get("/metrics")[1], outcome="ok", bundle="topic") == 3


def test_a_bundle_that_is_gone_keeps_no_worker_from_starting(
    start_server: StartServer, versions: tuple[Path, Path]
) -> None:
    server = started(start_server, f"topic={versions[0]},klue-nli:latest")
    assert admin(server, "unload").status_code == 200
    shutil.rmtree(versions[0])
    (worker,) = psutil.Process(server.process.pid).children()
    worker.kill()
    until = monotonic() + 60
    while server.log.count("bundles ready") < 2:
        assert monotonic() < until, server.log
        sleep(0.05)
    assert server.get("/readyz")[0] == 200
    item = {"text": "도서관은 아침에 연다.", "text_pair": "도서관은 밤에 연다."}
    assert httpx.post(f"{server.url}/klue-nli", json=item, trust_env=False).status_code == 200
    refused = httpx.post(f"{server.url}/topic", json={"text": "코스피"}, trust_env=False)
    assert (refused.status_code, refused.json()["error"]["message"]) == (503, "topic is unloaded")
    assert admin(server, "load").status_code == 422
    assert admin(server, "load", reference=str(versions[1])).status_code == 200
    assert {version for version, _ in asked(server, TEXTS[:3])} == {Bundle(versions[1]).version}


def test_without_leave_nobody_loads_anything(start_server: StartServer) -> None:
    server = start_server({"NLU_MODELS": "topic=klue-ynat:latest"})
    for call in ("index", "load", "unload"):
        assert admin(server, call).status_code == 404
