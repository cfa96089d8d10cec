"""How many CPUs this process may really use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

OWN = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")


def usable_cpus() -> int:
    """The least of its affinity and of the quotas of its cgroups, at least 1.

    ONNX Runtime's own default counts the host's cores and drowns a container in threads.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    groups = OWN.read_text(encoding="utf-8") if OWN.is_file() else ""
    return max(1, int(min([affinity, *quotas(groups, ROOT)])))


def quotas(groups: str, root: Path) -> Iterator[float]:
    """CPUs that the cgroups of a process allow, those above its own too; `groups` is the text of /proc/self/cgroup."""
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base = root if (root / "cgroup.controllers").is_file() else root / "unified"
        elif "cpu" in controllers.split(","):
            base = root / controllers
        else:
            continue
        own = base / path.lstrip("/")
        # A container may be told its path on the host, which is not there: its own group is then the root that it sees.
        for folder in (own, *own.parents):
            if folder.is_relative_to(base):
                with suppress(FileNotFoundError):
                    yield from _unified(folder) if not controllers else _first(folder)


def _unified(folder: Path) -> list[float]:
    quota, period = (folder / "cpu.max").read_text().split()
    return [] if quota == "max" else [int(quota) / int(period)]


def _first(folder: Path) -> list[float]:
    """Of version 1 of cgroups, where -1 is no quota."""
    quota, period = (int((folder / f"cpu.cfs_{what}_us").read_text()) for what in ("quota", "period"))
    return [quota / period] if quota > 0 else []
