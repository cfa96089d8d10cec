"""Checkpoints and exports of the exporter's tests."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bentoml
import pytest
import torch
from tiny import checkpoint

from exporters.export import Exported, export
from suites import Suite

torch.set_num_threads(1)  # a test process has one core

Checkpoint = Callable[..., Path]
Export = Callable[..., Exported]


@pytest.fixture
def save(tmp_path: Path) -> Checkpoint:
    """`save(suite, architecture="bert", **config)`: a new tiny checkpoint that the test may spoil."""

    def make(suite: Suite, architecture: str = "bert", **config: Any) -> Path:
        folder = tmp_path / "checkpoints" / str(len(list(tmp_path.glob("checkpoints/*"))))
        folder.mkdir(parents=True)
        return checkpoint(architecture, suite, folder, **config)

    return make


@pytest.fixture
def export_to(tmp_path: Path) -> Export:
    """`export_to(source, suite, **options)`: export to `tmp_path/out` under the name `tiny`."""

    def run(source: Path, suite: Suite, **options: Any) -> Exported:
        return export(str(source), suite, **{"name": "tiny", "out": tmp_path / "out"} | options)

    return run


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What exports have left: in `tmp_path/out`, among temporary files, in the BentoML store."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = {str(model.tag) for model in bentoml.models.list()}

    def found() -> list[str]:
        files = [*temporary.rglob("*"), *(tmp_path / "out").rglob("*")]
        return sorted(map(str, files)) + sorted({str(model.tag) for model in bentoml.models.list()} - before)

    return found
