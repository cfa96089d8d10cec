"""Writing measured scores into a bundle's manifest, which the server shows and `accuracy` compares with."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bentoml

from service.bundle import FILE, STORE_FILE, Bundle, Score


def write(ref: str, scores: Sequence[Score]) -> str:
    """Put `scores` into the bundle `ref`, a folder (with a path separator) or a BentoML tag. Returns where it is now.

    A score of the same metric on the same data is replaced. The store's tags are digests of the manifest, so that there
    the bundle with its scores is a new version beside the old one, which whoever named it keeps.
    """
    if os.sep in ref:
        folder = Path(ref)
        manifest = _with(folder, scores)
        new = folder.with_name(f".{folder.name}.{FILE}.new")  # beside the bundle, whose files are all listed
        new.write_text(manifest, encoding="utf-8")
        new.replace(folder / FILE)
        return str(folder)
    stored = bentoml.models.get(ref)
    folder = Path(stored.path)
    manifest = _with(folder, scores)
    tag = bentoml.Tag(stored.tag.name, hashlib.sha256(manifest.encode()).hexdigest()[:16])
    if not any(model.tag == tag for model in bentoml.models.list(tag.name)):
        with bentoml.models.create(tag, labels=dict(stored.info.labels)) as model:
            shutil.copytree(folder, model.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(STORE_FILE))
            (Path(model.path) / FILE).write_text(manifest, encoding="utf-8")
            Bundle(Path(model.path)).verify()
    return str(tag)


def _with(folder: Path, scores: Sequence[Score]) -> str:
    """The manifest's text with `scores` among its own."""
    manifest: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
    replaced = {(score.metric, score.data) for score in scores}
    kept = [score for score in manifest["scores"] if (score["metric"], score["data"]) not in replaced]
    manifest["scores"] = kept + [score.model_dump() for score in scores]
    return json.dumps(manifest, ensure_ascii=False, indent=1) + "\n"
