"""A verified float32 bundle becomes one of lower precision: replace its encoder, then judge it on a benchmark."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from exporters import gate, split, verify
from exporters.errors import ExportError
from exporters.precision import calibration
from exporters.precision.products import Graph
from exporters.precision.rowwise import int8
from service.bundle import FILE, Bundle, sha256
from service.graph.session import Chain
from service.loading import difference, open_graph
from service.tasks import family
from service.types import Array, Run
from suites import Suite

if TYPE_CHECKING:  # benchmarks reads official files; an export without them does not need it
    from benchmarks.records import Record

SEED = 20250101
JUDGED = 2000
"""Most records that the gate reads."""
Lower = Callable[[Any, Mapping[str, Array]], Any]
"""A graph and the largest magnitudes of what enters its products, by name -> a graph of lower precision."""


def lower_in_place(
    folder: Path, suite: Suite, data: Sequence[Path], accepted: str | None, say: Callable[[str], None]
) -> float:
    """Make the bundle in `folder` int8 if it passes the gate, or if somebody `accepted` in words what is lost.

    ExportError says what is lost. Returns the largest change of a score in the answers to the suite's examples.
    """
    if not (data or accepted):
        raise ExportError(
            "int8 changes answers, and without the benchmark's file (--data FILE) nobody knows how many; give it, or "
            "say why that does not matter (--accept-loss REASON)"
        )
    bundle = Bundle(folder)
    facts: dict[str, Any] = {"accepted": accepted}
    complaints: list[str] = []
    with tempfile.TemporaryDirectory(prefix="clueserve-int8-") as temporary:
        say("lowering to int8")
        new = lowered(bundle, Path(temporary) / "bundle")
        if data:
            name, records = read(data, suite, JUDGED)
            say(f"comparing the answers to {len(records)} records with those of fp32")
            found = fidelity(bundle, new, suite, records)
            complaints += found.complaints
            facts |= {"data": name} | found.as_dict()
        delta, changed = _examples(bundle, new)
        complaints += changed
        if complaints and accepted is None:
            raise ExportError(f"int8 loses too much: {'; '.join(complaints)}; --accept-loss REASON exports it anyway")
        if complaints:
            say(f"accepted: {'; '.join(complaints)}")
        facts |= {"max_score_delta": delta, "complaints": complaints}
        edit(new.folder, provenance=bundle.manifest.provenance | {"int8": facts})
        shutil.rmtree(folder)
        shutil.copytree(new.folder, folder)
    return delta


def lowered(bundle: Bundle, folder: Path, lower: Lower = int8) -> Bundle:
    """Write a copy of a float32 bundle into `folder`, its encoders through `lower`. Its golden records stay.

    A graph that could not be split is lowered whole.
    """
    shutil.copytree(bundle.folder, folder)
    for part in bundle.parts:
        target = folder / part.folder.relative_to(bundle.folder)
        graph = part.graph
        path = target / (graph.encoder or graph.file)
        model = onnx.load(path)
        if strange := {i.name for i in model.graph.input} - {"input_ids", "attention_mask", "token_type_ids"}:
            raise ExportError(f"int8 is for encoders, and this graph, which has no encoder apart, reads {strange}")
        names = [product.source for product in Graph(model).products]
        found = calibration.maxima(model, names, calibration.rows(part))
        Path(f"{path}.data").unlink(missing_ok=True)
        split.save(lower(model, found), path)
        edit(
            target,
            graph=graph.model_dump() | {"precision": "int8"},
            files={file.name: sha256(file) for file in sorted(target.iterdir()) if file.name in _files(part, path)},
            tolerance=verify.TOLERANCES["int8"],
        )
    edit(folder, tolerance=verify.TOLERANCES["int8"])
    return Bundle(folder)


def _files(part: Bundle, path: Path) -> set[str]:
    """What the lowered bundle lists: a small graph may have got its first file of weights."""
    return {*part.manifest.files, f"{path.name}.data"}


def edit(folder: Path, **changes: Any) -> None:
    """Replace top-level keys of a manifest."""
    path = folder / FILE
    manifest = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps(manifest, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def runnable(bundle: Bundle) -> Run:
    """The bundle's graph, or its stages' graphs, on a CPU."""
    if bundle.stages:
        return Chain({name: open_graph(stage) for name, stage in bundle.stages.items()}).run
    return open_graph(bundle).run


def fidelity(before: Bundle, after: Bundle, suite: Suite, records: Sequence[Record]) -> gate.Fidelity:
    """What `after` makes of records, beside `before`."""
    task = family(before)(before)
    runs = [gate.Watched(runnable(bundle)) for bundle in (before, after)]
    a, b = ((gate.answers(task, run, records), run.outputs) for run in runs)
    return gate.compare(records, suite, a, b)


def read(data: Sequence[Path], suite: Suite, most: int) -> tuple[str, list[Record]]:
    """What a benchmark's files are called, and so many of their records, drawn at random: files are sorted by class."""
    from benchmarks.measure import Unmeasurable, load
    from benchmarks.records import ReaderError

    try:
        found = load(data, suite)
    except (Unmeasurable, ReaderError) as error:
        raise ExportError(str(error)) from error
    order = np.random.default_rng(SEED).permutation(len(found.records))[:most]
    return f"{found.name}, sha256 {found.sha256[:12]}", [found.records[i] for i in order]


def _examples(before: Bundle, after: Bundle) -> tuple[float, list[str]]:
    """Largest change of a score, and what else changes, of a bundle and its stages.

    The golden records of what changes become what the new graph answers.
    """
    found = [_examples(stage, after.stages[name]) for name, stage in before.stages.items()]
    expected = [golden.answer for golden in before.manifest.golden]
    items = [golden.item for golden in before.manifest.golden]
    got = verify.answers(family(after)(after), runnable(after), items)
    differences = [difference(e, g, verify.TOLERANCES["int8"]) for e, g in zip(expected, got, strict=True)]
    problems = [f"{after.manifest.name} changes the answer to example {i}: {d}" for i, d in enumerate(differences) if d]
    if problems:
        edit(after.folder, golden=[{"item": item, "answer": a} for item, a in zip(items, got, strict=True)])
    kept = [i for i, d in enumerate(differences) if not d]
    delta = verify.compare([expected[i] for i in kept], [got[i] for i in kept], "int8")
    return max([delta, *(d for d, _ in found)]), problems + [p for _, own in found for p in own]
