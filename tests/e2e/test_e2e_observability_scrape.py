"""A real Prometheus scrapes a real server, counts as its clients do, and alerts when it is overloaded and when it is
gone. The rules are those of deploy/prometheus, with seconds for their minutes."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import pytest
import yaml
from e2e_http import closed_loop
from e2e_servers import StartServer

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus"
LONG = {"text": "오늘은 날씨가 맑고 바람이 분다. " * 40}

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus (requirements/debian.txt)")


def hurried(rules: str) -> str:
    """Rules that look at seconds: rates over ten, and no patience."""
    return re.sub(r"for: \w+", "for: 1s", rules.replace("[5m]", "[10s]"))


class Prometheus:
    """One Prometheus on 127.0.0.1 that scrapes and evaluates every second."""

    def __init__(self, folder: Path, target: str) -> None:
        for name in ("recording.yaml", "alerts.yaml"):
            (folder / name).write_text(hurried((RULES / name).read_text(encoding="utf-8")), encoding="utf-8")
        config = yaml.safe_load((RULES / "prometheus.yaml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self.client = httpx.Client(base_url=f"http://{address}/api/v1", trust_env=False)
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={address}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def ask(self, path: str, **query: str) -> Any:
        try:
            answer = self.client.get(path, params=query)
        except httpx.TransportError:
            assert self.process.poll() is None, self.log.read_text()
            return None
        # 503 while it starts.
        return answer.json().get("data") if answer.status_code == 200 else None

    def value(self, expression: str) -> float | None:
        data = self.ask("/query", query=expression)
        return float(data["result"][0]["value"][1]) if data and data["result"] else None

    def firing(self) -> dict[str, dict[str, str]]:
        """Alert -> its labels."""
        data = self.ask("/alerts") or {"alerts": []}
        return {a["labels"]["alertname"]: a["labels"] for a in data["alerts"] if a["state"] == "firing"}

    def stop(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(20)


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    started = Prometheus(folder, target)
    try:
        yield started
    finally:
        started.stop()


def within(seconds: float, happens: Callable[[], bool], state: Callable[[], Any]) -> float:
    """How long it took until something happened."""
    start = monotonic()
    while not happens():
        assert monotonic() < start + seconds, f"not within {seconds} s: {json.dumps(state())}"
        sleep(0.2)
    return monotonic() - start


def test_prometheus_counts_what_was_answered_and_alerts_on_refusals_and_on_silence(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server({"NLU_MODELS": "klue-ner:latest", "NLU_WORKERS": "2", "NLU_MAX_WAIT_MS": "1"})
    with prometheus(tmp_path, f"127.0.0.1:{server.port}") as watching:
        within(20, lambda: watching.value("clueserve_workers") == 2, watching.firing)
        within(20, lambda: watching.firing() == {}, watching.firing)  # before its first scrape it knows no target
        replies = asyncio.run(closed_loop(server.url, lambda _: ("/klue-ner", LONG), 12, 6, pause=0.05))
        took = within(20, lambda: "ClueserveRefusing" in watching.firing(), watching.firing)
        print(f"\nrefusals alert {took:.1f} s after 6 s of overload")
        assert watching.firing()["ClueserveRefusing"]["bundle"] == "klue-ner"

        # Over both workers, what Prometheus has is what the clients got.
        for status, outcome in ((200, "ok"), (429, "overloaded")):
            got = sum(reply.status == status for reply in replies)
            assert got
            for name, label in (
                ("requests", f'outcome="{outcome}"'),
                ("http_requests", f'status="{status}",route="/{{model}}"'),
            ):
                counted = f"sum(clueserve_{name}_total{{{label}}})"
                within(10, lambda q=counted, n=got: watching.value(q) == n, lambda q=counted: watching.value(q))  # type: ignore[misc]

        server.stop()
        took = within(20, lambda: "ClueserveDown" in watching.firing(), watching.firing)
        print(f"silence alerts after {took:.1f} s")
