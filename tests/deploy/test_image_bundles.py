"""A container's user is nobody who exported a bundle: it must be able to read all of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def test_others_can_read_every_file_of_an_exported_bundle(bundles: Mapping[str, Path]) -> None:
    files = [path for path in bundles["text-classification"].rglob("*") if path.is_file()]
    assert "model.onnx.data" in {path.name for path in files}
    assert [path.name for path in files if not path.stat().st_mode & 0o004] == []
