"""Checkpoint -> bundle: every step, and nothing left behind if one of them fails."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import bentoml

from exporters import checkpoint as checkpoints
from exporters import graph, verify
from exporters.checkpoint import ExportError
from service.bundle import FILE, FORMAT, NAME, Bundle, sha256
from service.config import STORE_LABEL
from service.errors import BundleError
from service.loading import open_bundle
from service.session import Device, Session, require_device
from service.tasks import family
from suites import Suite

TOOLS = ("torch", "transformers", "optimum", "optimum-onnx", "onnx", "onnxruntime", "tokenizers")


@dataclass(frozen=True)
class Exported:
    """What came out: where it lies, and what its verification found."""

    name: str
    place: str
    family: str
    parity: verify.Parity
    bytes: int
    seconds: float


def export(
    source: str,
    suite: Suite,
    *,
    name: str,
    precision: graph.Precision = "fp32",
    device: Device = "cpu",
    declared_labels: list[str] | None = None,
    out: Path | None = None,
    store_labels: dict[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Exported:
    """Export, verify and store one checkpoint, into the folder `out/name` or else the BentoML model store.

    ExportError says why a checkpoint cannot be served; then nothing was stored.
    """
    start = perf_counter()
    if not re.fullmatch(NAME, name):
        raise ExportError(f"{name!r} cannot name a bundle; use small letters, digits, '.', '_' and '-' (--name)")
    require_device(device)
    if precision == "fp16" and device == "cpu":
        raise ExportError("fp16 graphs are fused for CUDA and can only be verified there; add --device cuda")
    say(f"loading {source}")
    loaded = checkpoints.load(source, suite)
    with tempfile.TemporaryDirectory(prefix="clueserve-") as temporary:
        folder, scratch = Path(temporary) / name, Path(temporary) / "scratch"
        folder.mkdir()
        scratch.mkdir()
        say(f"exporting {type(loaded.model).__name__} as {precision}")
        path = graph.export(loaded.model, suite.family, precision, folder, scratch)
        pad = int(loaded.tokenizer.pad_token_id)
        session = Session(path, pads={"input_ids": pad}, row_isolated=precision == "int8", device=device)
        manifest = _manifest(loaded, suite, name, precision, session, declared_labels)
        (folder / "tokenizer.json").write_text(_tokenizer(loaded, suite), encoding="utf-8")
        files = {p.name: sha256(p) for p in sorted(folder.iterdir())}
        _write(folder, manifest | {"files": files, "golden": [{"item": {}, "answer": {}}]})

        limit = manifest["max_length"]
        say(f"comparing with torch: batches {verify.BATCHES} x lengths {verify.lengths(limit)}")
        embedded = loaded.model.get_input_embeddings().num_embeddings
        shapes, delta, largest = verify.parity(loaded.model, session, limit, embedded, pad, precision)

        say("comparing decoded answers")
        bundle = Bundle(folder)
        task = family(bundle)(bundle)
        items = [_concise(e, task.Input.model_fields) for e in suite.examples]
        reference = verify.torch_run(loaded.model, task.outputs, list(session.inputs))
        golden = verify.answers(task, reference, items)
        score_delta = verify.compare(golden, verify.answers(task, session.run, items), precision)
        found = verify.Parity(shapes, delta, largest, score_delta)
        manifest["provenance"]["parity"] = found.as_dict()
        records = [{"item": i, "answer": a} for i, a in zip(items, golden, strict=True)]
        _write(folder, manifest | {"files": files, "golden": records})

        say("loading the bundle as the server does")
        open_bundle(Bundle(folder), device)
        size = sum(p.stat().st_size for p in folder.iterdir())
        place = _place(folder, name, out, {"family": suite.family, "suite": suite.name, **(store_labels or {})})
    return Exported(name, place, suite.family, found, size, perf_counter() - start)


def _manifest(
    loaded: checkpoints.Checkpoint,
    suite: Suite,
    name: str,
    precision: str,
    session: Session,
    declared: list[str] | None,
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "name": name,
        "family": suite.family,
        "suite": suite.name,
        "language": suite.language,
        "labels": checkpoints.labels(loaded, suite, suite.labels if declared == ["suite"] else declared),
        "label_names": suite.label_names,
        "template": [p.model_dump(exclude_defaults=True) for p in checkpoints.template(loaded, suite)],
        "max_length": min(suite.max_length, loaded.capacity),
        "truncation": suite.truncation,
        "normalization": suite.normalization.model_dump(),
        "decoder": suite.decoder,
        "tokenizer": checkpoints.tokenizer_facts(loaded.tokenizer).model_dump(),
        "graph": {
            "file": graph.FILE,
            "precision": precision,
            "opset": graph.OPSET,
            "inputs": {k: list(v) for k, v in session.inputs.items()},
            "outputs": {k: list(v) for k, v in session.outputs.items()},
            "pads": {"input_ids": int(loaded.tokenizer.pad_token_id)},
            "row_isolated": precision == "int8",
        },
        "tolerance": verify.TOLERANCES[precision],
        "scores": [s.model_dump() for s in suite.scores],
        "provenance": {
            "checkpoint": Path(loaded.source).name if Path(loaded.source).is_dir() else loaded.source,
            "architecture": type(loaded.model).__name__,
            "tools": {tool: version(tool) for tool in TOOLS},
        },
    }


def _tokenizer(loaded: checkpoints.Checkpoint, suite: Suite) -> str:
    markers = (
        {m for pair in suite.decoder.get("markers", {}).values() for m in pair}
        if suite.decoder.get("marker_tokens")
        else set()
    )
    return checkpoints.tokenizer_json(loaded.tokenizer, markers)


def _concise(example: dict[str, Any], fields: Any) -> dict[str, Any]:
    """One class is enough for a golden record: the order of hopeless ones may change with the machine."""
    return example | ({"top_k": 1} if "top_k" in fields else {})


def _write(folder: Path, manifest: dict[str, Any]) -> None:
    (folder / FILE).write_text(json.dumps(manifest, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    Bundle(folder)  # a manifest that the server would refuse ends the export here


def _place(folder: Path, name: str, out: Path | None, labels: dict[str, str]) -> str:
    """Move the finished folder to its place in one step."""
    if out is not None:
        target = out / name
        if target.exists() and not (target / FILE).is_file():
            raise ExportError(f"{target} exists and is not a bundle; nothing was overwritten")
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=out) as beside:
            # Copied to the same file system first, so that the old bundle goes only when the new one is whole.
            new = shutil.copytree(folder, Path(beside) / "new")
            if target.exists():
                target.rename(Path(beside) / "old")
            new.rename(target)
        return str(target)
    tag = bentoml.Tag(name, hashlib.sha256((folder / FILE).read_bytes()).hexdigest()[:16])
    if any(model.tag == tag for model in bentoml.models.list()):
        bentoml.models.delete(tag)  # the same bundle, perhaps under other labels
    with bentoml.models.create(tag, labels={STORE_LABEL: "bundle", **labels}) as model:
        shutil.copytree(folder, model.path, dirs_exist_ok=True)
    return str(tag)


__all__ = ["BundleError", "ExportError", "Exported", "export"]
