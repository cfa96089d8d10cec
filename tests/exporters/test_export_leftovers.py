"""Either a whole bundle lies in its place or nothing does; nobody's files are lost."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bentoml
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_suite

from exporters.errors import ExportError
from exporters.export import BundleError
from service.bundle import Bundle
from suites import Suite

YNAT, RE = tiny_suite("klue/ynat"), tiny_suite("klue/re")

Break = Callable[[Callable[..., Path]], tuple[Path, Suite]]


def no_number(save: Callable[..., Path]) -> tuple[Path, Suite]:
    """Fails when the graph is compared with torch."""
    source = save(YNAT)
    weights = load_file(source / "model.safetensors")
    weights["classifier.bias"][2] = torch.nan
    save_file(weights, source / "model.safetensors", metadata={"format": "pt"})
    return source, YNAT


def no_answer(save: Callable[..., Path]) -> tuple[Path, Suite]:
    """Fails when the answers are compared."""
    return save(YNAT), YNAT.model_copy(update={"examples": [*YNAT.examples, {"text": "\x01"}]})


def no_markers(save: Callable[..., Path]) -> tuple[Path, Suite]:
    """Fails when the family reads the bundle."""
    return save(RE.model_copy(update={"decoder": RE.decoder | {"marker_tokens": False}})), RE


BREAKS: dict[str, Break] = {
    "logits is not finite at batch 1, length 1": no_number,
    "example 3 cannot be answered": no_answer,
    "are not in the tokenizer's vocabulary": no_markers,
}


@pytest.mark.parametrize("reason", BREAKS)
@pytest.mark.parametrize("stored", [False, True], ids=["folder", "store"])
def test_a_failure_half_way_leaves_nothing_behind(save, export_to, traces, reason: str, stored: bool) -> None:
    source, suite = BREAKS[reason](save)
    with pytest.raises((ExportError, BundleError), match=reason):
        export_to(source, suite, **({"out": None} if stored else {}))
    assert traces() == []


def test_a_failure_keeps_the_bundle_that_was_there(save, export_to) -> None:
    place = Path(export_to(save(YNAT), YNAT).place)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    source, suite = no_answer(save)
    with pytest.raises(ExportError):
        export_to(source, suite)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


@pytest.mark.parametrize("name", ["../escaped", "nested/tiny"])
def test_a_name_that_is_a_path_is_refused_and_leaves_nothing(save, export_to, traces, name: str) -> None:
    source = save(YNAT)
    with pytest.raises((ExportError, BundleError), match="name"):
        export_to(source, YNAT, name=name)
    assert traces() == []


def test_a_finished_export_leaves_the_bundle_and_nothing_else(save, export_to, traces, tmp_path: Path) -> None:
    done = export_to(save(YNAT), YNAT)
    assert Path(done.place) == tmp_path / "out" / "tiny"
    names = ["bundle.json", "encoder.onnx", "encoder.onnx.data", "model.onnx", "model.onnx.data", "tokenizer.json"]
    assert traces() == sorted([done.place, *(f"{done.place}/{name}" for name in names)])


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_not_a_bundle_is_not_overwritten(save, export_to, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out" / "tiny"
    precious = target / "thesis.txt" if kind == "folder" else target
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    with pytest.raises(ExportError, match="exists and is not a bundle; nothing was overwritten"):
        export_to(save(YNAT), YNAT)
    assert precious.read_text() == "years of work"


def test_an_older_bundle_is_replaced_as_a_whole(save, export_to) -> None:
    place = Path(export_to(save(YNAT), YNAT).place)
    (place / "old.txt").write_text("of the older bundle")
    export_to(save(YNAT, seed=1), YNAT.model_copy(update={"max_length": 32}))
    assert Bundle(place).manifest.max_length == 32
    assert not (place / "old.txt").exists()


def test_the_store_holds_the_bundle_under_a_tag_of_its_content(save, export_to, tmp_path: Path) -> None:
    source = save(YNAT)
    done = export_to(source, YNAT, out=None, name="kept", store_labels={"demo": "yes"})
    model = bentoml.models.get(done.place)
    assert model.tag.name == "kept"
    assert model.info.labels == {
        "clueserve": "bundle",
        "family": "text-classification",
        "suite": "klue/ynat",
        "demo": "yes",
    }
    Bundle(Path(model.path)).verify()
    assert not (tmp_path / "out").exists()


def test_the_store_holds_the_same_bundle_once_with_its_latest_labels(save, export_to) -> None:
    source = save(YNAT)
    first = export_to(source, YNAT, out=None, name="twice", store_labels={"demo": "old"}).place
    assert export_to(source, YNAT, out=None, name="twice", store_labels={"demo": "new"}).place == first
    assert bentoml.models.get(first).info.labels["demo"] == "new"

    seeded = save(YNAT, seed=1)
    other = export_to(seeded, YNAT, out=None, name="twice").place
    assert {str(model.tag) for model in bentoml.models.list("twice")} == {first, other}
    assert str(bentoml.models.get("twice:latest").tag) == other
    assert export_to(source, YNAT, out=None, name="twice").place == first
    assert str(bentoml.models.get("twice:latest").tag) == first


@pytest.mark.parametrize("step", ["of BentoML's", "into the store", "into its place"])
def test_a_stored_bundle_stays_when_the_one_that_replaces_it_cannot_be_stored(
    save, export_to, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    source = save(YNAT)
    place = export_to(source, YNAT, out=None, name="whole", store_labels={"demo": "old"}).place
    folder = Path(bentoml.models.get(place).path)
    before = sorted(folder.parents[2].rglob("*"))
    with monkeypatch.context() as patch:
        if step == "into its place":
            patch.setattr(shutil, "move", filled(shutil.move, str(folder)))
        else:
            patch.setattr(shutil, "copytree", filled(shutil.copytree, "/whole/" if "store" in step else "-model-whole"))
        with pytest.raises(OSError, match="No space left"):
            export_to(source, YNAT, out=None, name="whole", store_labels={"demo": "new"})
    model = bentoml.models.get("whole:latest")
    assert (str(model.tag), model.info.labels["demo"]) == (place, "old")
    Bundle(Path(model.path)).verify()
    assert sorted(folder.parents[2].rglob("*")) == before


def filled(copy: Callable[..., Any], place: str) -> Callable[..., Any]:
    """`copy` on a disk that is full when it is first written to the place."""
    failed = []

    def run(source: Any, to: Any, *rest: Any, **options: Any) -> Any:
        if failed or place not in str(to):
            return copy(source, to, *rest, **options)
        failed.append(to)
        Path(to).mkdir(parents=True, exist_ok=True)
        (Path(to) / "half").write_text("of a bundle")
        raise OSError(errno.ENOSPC, "No space left on device")

    return run


def test_size_and_family_are_those_of_the_folder(save, export_to) -> None:
    done = export_to(save(YNAT), YNAT)
    assert done.bytes == sum(path.stat().st_size for path in Path(done.place).iterdir())
    assert done.family == json.loads((Path(done.place) / "bundle.json").read_text())["family"] == YNAT.family
    assert done.seconds > 0
