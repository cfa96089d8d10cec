"""A disk that fills up during an export: the export says so in a line, and nothing half-made is left on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from full_disk import PARTS, PLACES
from full_disk import __file__ as script
from tiny import checkpoint, tiny_suite

import suites

ROOT = Path(__file__).parents[2]
NAMESPACE = ["unshare", "-Urm"]


def can_mount() -> bool:
    """Whether this machine lets us have disks of our own; containers often do not."""
    try:
        mount = [*NAMESPACE, "mount", "-t", "tmpfs", "t", "/mnt"]
        return subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_mount(), reason="no mount namespaces here")
def test_a_full_disk_leaves_nothing_half_made_wherever_it_is(tmp_path: Path, export_to) -> None:
    source = checkpoint("bert", tiny_suite("klue/ynat"), tmp_path / "checkpoint")
    whole = export_to(source, suites.load("klue/ynat")).place
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        [*NAMESPACE, sys.executable, script, str(source), "klue/ynat", whole, str(disk)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "BENTOML_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(cases) == len(PLACES) * len(PARTS)
    for case in cases:
        assert case["status"] == 1, case
        assert case["said"].startswith("not exported: ")
        assert "No space left on device" in case["said"]
        assert len(case["said"]) < 400
        assert case["left"] == [], case
