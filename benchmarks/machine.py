"""What a number was measured on: it goes beside every number that is written down."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil


def machine(*packages: str) -> dict[str, Any]:
    """CPU, cores, memory, GPUs, system and load of this machine, and the versions of Python and of `packages`."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.is_file() else ""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.machine(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": _gpus(),
        "system": platform.platform(),
        "load_average": os.getloadavg(),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in packages},
    }


def _version(name: str) -> str:
    """Of a package, or of its wheel for GPUs."""
    try:
        return version(name)
    except PackageNotFoundError:
        return version(f"{name}-gpu")


def _gpus() -> list[str]:
    """Name, memory and driver of each."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = [command, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False, timeout=30).stdout.splitlines()
