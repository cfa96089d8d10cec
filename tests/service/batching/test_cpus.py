"""Threads are as many as the CPUs that a container really has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from service.batching import cpus
from service.batching.cpus import quotas, usable_cpus

V1 = "4:memory:/a\n3:cpu,cpuacct:/a/b\n1:name=systemd:/a\n0::/\n"


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("cpu_max", "allowed"),
    [
        ("200000 100000\n", [2.0]),
        ("max 100000\n", []),
        ("50000 100000", [0.5]),
        ("250000 100000", [2.5]),
        ("400000 200000", [2.0]),
    ],
)
def test_the_quota_of_a_container_is_read(cpu_max: str, allowed: list[float], tmp_path: Path) -> None:
    root = tree(tmp_path, {"cgroup.controllers": "cpu", "cpu.max": cpu_max})
    assert list(quotas("0::/\n", root)) == allowed


def test_groups_above_ones_own_have_quotas_too(tmp_path: Path) -> None:
    """systemd's CPUQuota is set on a slice or a service, and the root has no file at all."""
    files = {"a.slice/b.service/cpu.max": "max 100000", "a.slice/cpu.max": "300000 100000", "other/cpu.max": "1 100000"}
    root = tree(tmp_path, files | {"cgroup.controllers": "cpu"})
    assert list(quotas("0::/a.slice/b.service\n", root)) == [3.0]


@pytest.mark.parametrize(
    ("files", "allowed"),
    [
        ({"cpu,cpuacct/a/b/cpu.cfs_quota_us": "150000", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000"}, [1.5]),
        ({"cpu,cpuacct/cpu.cfs_quota_us": "200000", "cpu,cpuacct/cpu.cfs_period_us": "50000"}, [4.0]),
        ({"cpu,cpuacct/a/cpu.cfs_quota_us": "-1", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"}, []),
        ({"unified/cgroup.procs": ""}, []),
    ],
    ids=["own", "a container's root", "no quota", "no files"],
)
def test_the_first_version_of_cgroups_is_read(files: Mapping[str, str], allowed: list[float], tmp_path: Path) -> None:
    assert list(quotas(V1, tree(tmp_path, files))) == allowed


@pytest.mark.parametrize(("quota", "usable"), [("200000", 2), ("250000", 2), ("50000", 1), ("max", 16)])
def test_the_least_of_affinity_and_quota_counts(
    quota: str, usable: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime's own default counts the host's cores (modal-labs/modal-client#4120)."""
    root = tree(tmp_path, {"cgroup.controllers": "cpu", "cpu.max": f"{quota} 100000", "own": "0::/\n"})
    monkeypatch.setattr(cpus, "ROOT", root)
    monkeypatch.setattr(cpus, "OWN", root / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert usable_cpus() == usable


def test_this_machine_has_a_cpu_to_use() -> None:
    assert 1 <= usable_cpus() <= (os.cpu_count() or 1)
