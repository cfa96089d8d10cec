"""Peers as processes: installed once, started on their cores, and ended with everything that they started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.peers import process
from benchmarks.peers.install import SetupError, install
from benchmarks.peers.recipe import Environment
from benchmarks.servers import free_port

# Not ready at first; one child leaves its parent and session, another has no variables by which it could be known.
SERVER = """
import http.server, os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
subprocess.Popen(["sh", "-c", '"$@" & exit', "sh", *sleep], start_new_session=True).wait()
subprocess.Popen(sleep, env={})
ready = time.monotonic() + 0.5
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        early = time.monotonic() < ready
        body = b'{"cpus": %d}' % len(os.sched_getaffinity(0)) if not early else b"not yet"
        self.send_response(503 if early else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_server_has_started_with_its_first_answer_and_ends_whole(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    cpus = sorted(os.sched_getaffinity(0))[:1]
    own = os.sched_getaffinity(0)
    command = [sys.executable, "-c", SERVER, str(port)]
    with process.running(command, tmp_path, dict(os.environ), port, cpus, log) as server:
        assert 0.4 < process.wait(server, "/", b"{}", 30, log) < 30
        assert server.ask("/", b"{}") == {"cpus": 1}
        assert os.sched_getaffinity(0) == own
        tree = server.tree()
        assert len(tree) == 3
        assert server.cpu() > 0
        assert server.rss_mb() > 5
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in tree)


@pytest.mark.parametrize(
    ("code", "why"),
    [("raise SystemExit('no model')", "ended while starting"), ("import time; time.sleep(60)", "no answer within 1 s")],
)
def test_a_server_that_ends_or_stays_silent_is_reported_with_its_log(tmp_path: Path, code: str, why: str) -> None:
    port, log = free_port(), tmp_path / "log"
    cpus = sorted(os.sched_getaffinity(0))
    with (
        pytest.raises(SetupError, match=f"{why}.*{log}"),
        process.running([sys.executable, "-c", code], tmp_path, dict(os.environ), port, cpus, log) as server,
    ):
        process.wait(server, "/", b"{}", 1, log)
    assert not server.tree()


def test_a_program_that_is_not_here_is_reported(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    with (
        pytest.raises(SetupError, match="not started"),
        process.running(["/no/such/program"], tmp_path, {}, free_port(), cpus, tmp_path / "log"),
    ):
        pass


def test_a_venv_is_made_once_and_again_when_its_recipe_changes(tmp_path: Path) -> None:
    venv = install(Environment(name="peer", install=[]), tmp_path)
    assert (venv / "bin/python").exists()
    (venv / "mine").touch()
    assert install(Environment(name="peer", install=[]), tmp_path) == venv
    assert (venv / "mine").exists()
    with pytest.raises(SetupError, match=f"not installed, see {tmp_path / 'peer.log'}"):
        install(Environment(name="peer", install=["--no-index clueserve-no-such-package"]), tmp_path)
    assert not (venv / "mine").exists()
    assert "clueserve-no-such-package" in (tmp_path / "peer.log").read_text(encoding="utf-8")
    # What failed is tried again.
    install(Environment(name="peer", install=[]), tmp_path)


def test_an_interpreter_that_is_not_here_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="not installed, see"):
        install(Environment(name="peer", python="/no/such/python", install=[]), tmp_path)
