"""Where a finished bundle goes: a folder, or the BentoML store. What was there goes only when the new one is whole."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

import bentoml
from bentoml._internal.configuration.containers import BentoMLContainer
from bentoml._internal.models.model import ModelStore

from exporters.errors import ExportError
from service.bundle import FILE
from service.config import STORE_LABEL
from service.locks import alone


def put(folder: Path, name: str, out: Path | None, labels: dict[str, str]) -> str:
    """Have the finished folder in its place, whole or not at all; where that is."""
    for path in folder.rglob("*.data"):
        path.chmod(0o644)  # onnx keeps weights to their owner; a container's user is another one
    if out is None:
        tag = bentoml.Tag(name, hashlib.sha256((folder / FILE).read_bytes()).hexdigest()[:16])
        _store(folder, tag, {STORE_LABEL: "bundle", **labels})
        return str(tag)
    target = out / name
    if target.exists() and not (target / FILE).is_file():
        raise ExportError(f"{target} exists and is not a bundle; nothing was overwritten")
    out.mkdir(parents=True, exist_ok=True)
    with alone(out), tempfile.TemporaryDirectory(prefix=f".{name}-", dir=out) as beside:
        # Copied to the same file system first, so that the old bundle goes only when the new one is whole.
        new = shutil.copytree(folder, Path(beside) / "new")
        _swap(new, target, Path(beside) / "old")
    return str(target)


def _store(folder: Path, tag: bentoml.Tag, labels: dict[str, str]) -> None:
    """Store it as the latest; a version of that tag is the same bundle, perhaps under other labels.

    BentoML makes it in a store beside the true one: in that one every folder is taken for a version.
    """
    models = Path(BentoMLContainer.model_store_dir.get())
    with alone(models.parent), tempfile.TemporaryDirectory(prefix=".clueserve-", dir=models.parent) as beside:
        with bentoml.models.create(tag, labels=labels, _model_store=ModelStore(beside)) as model:
            shutil.copytree(folder, model.path, dirs_exist_ok=True)
        (models / tag.name).mkdir(parents=True, exist_ok=True)
        _swap(Path(beside, tag.path()), models / tag.path(), Path(beside) / "old")
        shutil.move(Path(beside, tag.latest_path()), models / tag.latest_path())


def _swap(new: Path, target: Path, old: Path) -> None:
    """Moves in place of renames: the store may be a file system of its own.

    Not two at once: the second would move its bundle into that of the first.
    """
    if target.exists():
        shutil.move(target, old)
    try:
        shutil.move(new, target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        if old.exists():
            shutil.move(old, target)
        raise
