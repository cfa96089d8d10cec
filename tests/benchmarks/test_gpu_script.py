"""`benchmarks/gpu.sh` says why it cannot measure, before it installs anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"
TOOLS = ("bash", "dirname", "mkdir", "mktemp", "rm", "tee", "timeout")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a bash script")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH of what every machine has: no nvidia-smi, whatever this one has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def nvidia_smi(tools: Path, text: str, status: int = 0) -> None:
    path = tools / "nvidia-smi"
    path.write_text(f'#!/bin/sh\necho "{text}"\nexit {status}\n', encoding="utf-8")
    path.chmod(0o755)


def run(tools: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("REHEARSE", "VENV", "WHEELS", "BUDGET")}
    return subprocess.run(
        [tools / "bash", SCRIPT, tools.parent / "out"],
        env=environment | {"PATH": str(tools)} | settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_it_is_bash() -> None:
    subprocess.run(["bash", "-n", SCRIPT], check=True)


def test_without_a_driver_there_is_no_cuda(tools: Path) -> None:
    done = run(tools)
    assert done.returncode == 3
    assert "no CUDA here: there is no nvidia-smi" in done.stderr


@pytest.mark.parametrize(("text", "status"), [("No devices were found", 6), ("", 0)])
def test_without_a_gpu_there_is_no_cuda(tools: Path, text: str, status: int) -> None:
    nvidia_smi(tools, text, status)
    done = run(tools)
    assert done.returncode == 3
    assert f"no CUDA here: nvidia-smi finds no GPU: {text}" in done.stderr


@pytest.mark.skipif("CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="CUDA is installed")
def test_a_runtime_without_cuda_ends_it_before_anything_is_exported(tools: Path) -> None:
    nvidia_smi(tools, "NVIDIA H200, 143771 MiB, 580.159.03")
    done = run(tools, VENV=sys.prefix)
    assert done.returncode == 1
    log = (tools.parent / "out" / "gpu.log").read_text(encoding="utf-8")
    assert log.startswith("NVIDIA H200")
    assert "device 'cuda' needs CUDAExecutionProvider" in log
    assert "exporting" not in log


def test_no_step_outlives_the_budget(tools: Path) -> None:
    nvidia_smi(tools, "a GPU")
    done = run(tools, VENV=sys.prefix, BUDGET="0")
    assert done.returncode == 1
    assert "left out: 0 s are over" in done.stdout
