"""Servers under test: started and ended with their whole tree, and found by the port that they listen on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.processes import Processes, behind
from benchmarks.servers import free_port, started

SERVER = """
import http.server, os, sys
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
os.fork()  # two workers with one socket
sum(range(10**6))
server.serve_forever()
"""


def test_a_server_is_ready_when_entered_and_gone_with_its_children_when_left(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-c", SERVER, str(port)]
    with started("files", command, port, os.environ, ready="/", folder=tmp_path) as running:
        assert running.url == f"http://127.0.0.1:{port}"
        assert running.start_seconds > 0
        tree = running.tree()
        assert len(tree) == 2
        found = behind("localhost", port)
        assert found is not None
        assert {process.pid for process in found.tree()} == {process.pid for process in tree}
        assert found.cpu() > 0
        assert found.rss_mb() > 5
    assert not any(process.is_running() for process in tree)
    # What has ended keeps the CPU time that it was seen with.
    assert found.cpu() > 0
    assert behind("localhost", port) is None


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such model')"]
    with (
        pytest.raises(RuntimeError, match=r"(?s)mine did not become ready.*no such model"),
        started("mine", command, free_port(), os.environ, folder=tmp_path),
    ):
        pass


def test_processes_of_another_machine_cannot_be_seen() -> None:
    assert behind("192.0.2.1", 80) is None


def test_what_only_forwards_to_a_server_is_not_measured_in_its_place(tmp_path: Path) -> None:
    """`kubectl port-forward` and Docker's proxy listen here for a server whose processes are elsewhere."""
    forwarder, port = tmp_path / "kubectl", free_port()
    forwarder.symlink_to(Path(sys.executable).resolve())
    with started("kubectl", [str(forwarder), "-c", SERVER, str(port)], port, os.environ, ready="/", folder=tmp_path):
        assert behind("127.0.0.1", port) is None


def test_a_server_at_another_address_of_this_machine_is_another_server(tmp_path: Path) -> None:
    port = free_port()
    with started("files", [sys.executable, "-c", SERVER, str(port)], port, os.environ, ready="/", folder=tmp_path):
        assert behind("127.0.0.1", port) is not None
        assert behind("127.0.0.2", port) is None


def test_the_measuring_process_is_never_part_of_the_server() -> None:
    assert os.getpid() not in {process.pid for process in Processes([os.getpid()]).tree()}
