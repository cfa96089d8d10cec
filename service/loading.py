"""From a folder to something proven: every check that a bundle passes before it answers anybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from service.bundle import Bundle
from service.errors import BundleError, ConfigError
from service.graph.binding import open_model
from service.graph.device import Device
from service.graph.session import Chain, Model, Session
from service.shared import Shared
from service.tasks import family
from service.tasks.base import Task
from service.types import Answer, Timing


def open_bundle(
    bundle: Bundle, device: Device, on_run: Callable[[int, int, int], None] | None = None
) -> tuple[Task, Session | Chain]:
    """Load a bundle and prove it: files, graph axes, golden records. BundleError says what is wrong."""
    bundle.verify()
    task = family(bundle)(bundle)
    session: Session | Chain
    if bundle.stages:
        stages = {name: open_bundle(stage, device, on_run)[1] for name, stage in bundle.stages.items()}
        if chains := [name for name, stage in stages.items() if isinstance(stage, Chain)]:
            raise BundleError(f"{bundle.folder}: stage {chains[0]} is a pipeline itself")
        session = Chain({name: stage for name, stage in stages.items() if isinstance(stage, Session)})
    else:
        session = _session(bundle, device, on_run)
    prove(bundle, task, session)
    return task, session


def prove(bundle: Bundle, task: Task, session: Session | Chain) -> None:
    """Returns if the golden records are answered as they were when the bundle was exported, each alone and all in one
    run of the graph; BundleError otherwise."""
    items = []
    for i, golden in enumerate(bundle.manifest.golden):
        try:
            items.append(task.Input.model_validate(golden.item))
        except ValidationError as error:
            raise BundleError(f"{bundle.folder}: golden record {i} is not a request: {error}") from None
    alone = [task.predict([item], session.run, [Timing()])[0] for item in items]
    _compare(bundle, alone)
    if isinstance(session, Session):  # the stages of a pipeline are proven one by one
        _compare(bundle, task.predict(items, session.run_together, [Timing() for _ in items]), " beside the others")


def _compare(bundle: Bundle, answers: Sequence[Answer | Exception], how: str = "") -> None:
    for i, (golden, got) in enumerate(zip(bundle.manifest.golden, answers, strict=True)):
        if isinstance(got, Exception):
            raise BundleError(f"{bundle.folder}: golden record {i} fails{how}: {got}")
        if problem := difference(golden.answer, got, bundle.manifest.tolerance):
            raise BundleError(f"{bundle.folder}: golden record {i} differs{how} at {problem}")


def open_graph(
    bundle: Bundle, device: Device = "cpu", on_run: Callable[[int, int, int], None] | None = None
) -> Session:
    """The bundle's graph as it lies there, unproven."""
    graph = bundle.graph
    if graph.precision == "fp16-packed" and device == "cpu":
        raise ConfigError(f"{bundle.folder} leaves padding out, which only CUDA can; set NLU_DEVICE=cuda")
    return Session(
        open_model(bundle.folder / graph.file, device),
        pads=graph.pads,
        encoder=_encoder(bundle, graph.encoder, device) if graph.encoder else None,
        on_run=on_run,
    )


def _session(bundle: Bundle, device: Device, on_run: Callable[[int, int, int], None] | None) -> Session:
    """The bundle's graph, with the axes that the manifest promises, warmed up and measured."""
    graph = bundle.graph
    session = open_graph(bundle, device, on_run)
    for kind, declared, actual in (
        ("inputs", graph.inputs, session.inputs),
        ("outputs", graph.outputs, session.outputs),
    ):
        if {k: list(v) for k, v in declared.items()} != {k: list(v) for k, v in actual.items()}:
            raise BundleError(f"{bundle.folder}: the graph's {kind} are {actual}, the bundle says {declared}")
    session.measure(bundle.manifest.max_length)
    return session


_encoders: Shared[Model] = Shared()


def _encoder(bundle: Bundle, file: str, device: Device) -> Model:
    """The bundle's encoder: the one in memory if its files are the same to the byte."""
    files = bundle.manifest.files
    key = (device, files[file], files.get(f"{file}.data", ""))
    return _encoders.get(key, lambda: open_model(bundle.folder / file, device))


def difference(expected: Any, got: Any, tolerance: float, path: str = "answer") -> str | None:
    """Where two answers first differ, or None: numbers within `tolerance`, all else exactly."""
    if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
        pairs = [(expected[k], got[k], f"{path}.{k}") for k in expected]
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = [(e, g, f"{path}.{i}") for i, (e, g) in enumerate(zip(expected, got, strict=True))]
    elif isinstance(expected, float) and isinstance(got, int | float) and not isinstance(got, bool):
        return None if abs(expected - got) <= tolerance else f"{path}: {expected} became {got}"
    else:
        return None if type(expected) is type(got) and expected == got else f"{path}: {expected!r} became {got!r}"
    return next((p for e, g, at in pairs if (p := difference(e, g, tolerance, at))), None)
