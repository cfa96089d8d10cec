"""Checkpoint -> bundle: every step, and nothing left behind if one of them fails."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, NamedTuple

from exporters import checkpoint as checkpoints
from exporters import graph, manifests, meaning, split, verify
from exporters.errors import ExportError
from exporters.place import put
from exporters.precision.lowering import lower_in_place
from service.bundle import FILE, NAME, Bundle, sha256
from service.errors import BundleError
from service.graph.binding import open_model
from service.graph.device import Device, require_device
from service.graph.session import Session
from service.loading import open_bundle, open_graph
from service.tasks import FAMILIES, family
from service.types import Run
from suites import Suite

Precision = Literal["fp32", "fp16", "fp16-packed", "int8"]


@dataclass(frozen=True)
class Exported:
    """What came out: where it lies, what its verification found, and what a person should look at (`doubt`)."""

    name: str
    place: str
    family: str
    parity: verify.Parity
    bytes: int
    seconds: float
    doubt: str | None


def export(
    source: str,
    suite: Suite,
    *,
    name: str,
    precision: Precision = "fp32",
    device: Device = "cpu",
    data: Sequence[Path] = (),
    accept_loss: str | None = None,
    declared_labels: list[str] | None = None,
    out: Path | None = None,
    store_labels: dict[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Exported:
    """Export, verify and store one checkpoint, into the folder `out/name` or else the BentoML model store.

    int8 must pass the gate on the benchmark's files `data`, or somebody must accept the loss, in words that the bundle
    keeps. ExportError says why a checkpoint cannot be served; then nothing was stored.
    """
    start = perf_counter()
    if not re.fullmatch(NAME, name):
        raise ExportError(f"{name!r} cannot name a bundle; use small letters, digits, '.', '_' and '-' (--name)")
    require_device(device)
    if precision in ("fp16", "fp16-packed") and device == "cpu":
        raise ExportError(f"{precision} graphs are fused for CUDA and can only be verified there; add --device cuda")
    with tempfile.TemporaryDirectory(prefix="clueserve-") as temporary:
        folder = Path(temporary) / name
        traced: graph.Precision = "fp32" if precision == "int8" else precision
        built = _Builder(traced, device, declared_labels, say).build(source, suite, name, folder)
        found = built.parity
        if precision == "int8":
            found = replace(found, score_delta=lower_in_place(folder, suite, data, accept_loss, say))
        say("loading the bundle as the server does")
        open_bundle(Bundle(folder), device)
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        place = put(folder, name, out, {"family": suite.family, "suite": suite.name, **(store_labels or {})})
    return Exported(name, place, suite.family, found, size, perf_counter() - start, built.doubt)


class _Built(NamedTuple):
    """A bundle that lies in its folder: what its comparison with torch found, the trained model as a `Run`, and what
    is doubtful about it."""

    parity: verify.Parity
    reference: Run
    doubt: str | None


@dataclass(frozen=True)
class _Builder:
    """Writes bundles, each compared with the model it was made from."""

    precision: graph.Precision
    device: Device
    declared: list[str] | None
    say: Callable[[str], None]

    def build(self, source: str, suite: Suite, name: str, folder: Path) -> _Built:
        folder.mkdir()
        if suite.family not in FAMILIES:
            raise ExportError(f"{suite.name}: there is no family {suite.family!r}")
        for asset in suite.assets:
            if not (Path(source) / asset).is_file():
                raise ExportError(f"{source} lacks {asset}, which {suite.name} needs")
            shutil.copyfile(Path(source) / asset, folder / asset)
        return self._pipeline(source, suite, name, folder) if suite.stages else self._one(source, suite, name, folder)

    def _pipeline(self, source: str, suite: Suite, name: str, folder: Path) -> _Built:
        built = {s: self.build(f"{source}/{s}", part, s, folder / s) for s, part in suite.stages.items()}
        first = Bundle(folder / next(iter(built))).manifest
        manifest = manifests.of_suite(suite, name) | {
            "labels": suite.labels,
            "max_length": first.max_length,
            "stages": list(built),
            "tolerance": verify.TOLERANCES[self.precision],
        }
        runs = {s: open_graph(Bundle(folder / s), self.device).run for s in built}
        reference = verify.chained({s: b.reference for s, b in built.items()})
        parity = verify.Parity(
            sum(b.parity.shapes for b in built.values()),
            max(b.parity.logit_delta for b in built.values()),
            max(b.parity.largest_logit for b in built.values()),
            0.0,
        )
        return self._answers(suite, folder, manifest, reference, verify.chained(runs), parity)

    def _one(self, source: str, suite: Suite, name: str, folder: Path) -> _Built:
        self.say(f"loading {source}")
        loaded = checkpoints.load(source, suite)
        labels = checkpoints.labels(loaded, suite, suite.labels if self.declared == ["suite"] else self.declared)
        self.say(f"exporting {type(loaded.model).__name__} as {self.precision}")
        with tempfile.TemporaryDirectory(prefix="clueserve-graph-") as scratch:
            path = graph.export(loaded, suite.family, self.precision, folder, Path(scratch))
        session = self._session(path, loaded)
        manifest = (
            manifests.of_suite(suite, name)
            | manifests.of_checkpoint(loaded, suite, self.precision, session)
            | {"labels": labels}
        )
        if (folder / split.FILE).is_file():
            manifest["graph"]["encoder"] = split.FILE
        (folder / "tokenizer.json").write_text(manifests.tokenizer(loaded, suite), encoding="utf-8")
        limit = manifest["max_length"]
        self.say(f"comparing with torch: batches {verify.BATCHES} x lengths {verify.lengths(limit)}")
        embedded = loaded.model.get_input_embeddings().num_embeddings
        pad = int(loaded.tokenizer.pad_token_id)
        found = verify.parity(loaded.model, session, limit, embedded, pad, self.precision)
        reference = verify.torch_run(loaded.model, list(session.outputs), list(session.inputs))
        return self._answers(suite, folder, manifest, reference, session.run, verify.Parity(*found, 0.0))

    def _session(self, path: Path, loaded: checkpoints.Checkpoint) -> Session:
        pads = {"input_ids": int(loaded.tokenizer.pad_token_id)}
        encoder = path.with_name(split.FILE)
        return Session(
            open_model(path, self.device),
            pads=pads,
            encoder=open_model(encoder, self.device) if encoder.is_file() else None,
        )

    def _answers(
        self, suite: Suite, folder: Path, manifest: dict[str, Any], reference: Run, run: Run, parity: verify.Parity
    ) -> _Built:
        """Compare the answers to the suite's examples, and write the manifest with them as golden records."""
        self.say(f"{manifest['name']}: comparing decoded answers")
        files = {p.name: sha256(p) for p in sorted(folder.iterdir()) if p.is_file()}
        _write(folder, manifest | {"files": files, "golden": [{"item": {}, "answer": {}}]})
        bundle = Bundle(folder)
        task = family(bundle)(bundle)
        items = [_concise(e, task.Input.model_fields) for e in suite.examples]
        golden = verify.answers(task, reference, items)
        delta = verify.compare(golden, verify.answers(task, run, items), self.precision)
        found = replace(parity, score_delta=delta)
        manifest["provenance"]["parity"] = found.as_dict()
        records = [{"item": i, "answer": a} for i, a in zip(items, golden, strict=True)]
        _write(folder, manifest | {"files": files, "golden": records})
        return _Built(found, reference, meaning.doubt(task, reference, items))


def _concise(example: dict[str, Any], fields: Any) -> dict[str, Any]:
    """One class is enough for a golden record: the order of hopeless ones may change with the machine."""
    return example | ({"top_k": 1} if "top_k" in fields else {})


def _write(folder: Path, manifest: dict[str, Any]) -> None:
    (folder / FILE).write_text(json.dumps(manifest, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    Bundle(folder)  # a manifest that the server would refuse ends the export here


__all__ = ["BundleError", "ExportError", "Exported", "export"]
