"""A bundle is data: nothing of it is run, nothing outside its folder is read, and its hashes come before all else."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kit import edit
from onnx import TensorProto, helper

from service import loading
from service.bundle import FILE, Bundle, sha256
from service.errors import BundleError
from service.graph.binding import open_model
from service.tasks import encoder

ROOT = Path(__file__).parents[2]
SERVICE = sorted((ROOT / "service").rglob("*.py"))
# Reading with these can run what is read.
LOADERS = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml", "jsonpickle", "runpy", "code", "pty"}
RUNNERS = {"eval", "exec", "compile", "__import__", "execfile"}

CopyOf = Callable[..., Path]


@pytest.fixture
def bundle(copy_of: CopyOf) -> Path:
    return copy_of("klue/ynat")


@pytest.mark.parametrize("path", SERVICE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_code_of_the_service_runs_data(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & (LOADERS | {"subprocess"})
        elif isinstance(node, ast.ImportFrom):
            assert str(node.module).split(".")[0] not in LOADERS | {"subprocess"}
        elif isinstance(node, ast.Call):
            called = node.func
            assert not (isinstance(called, ast.Name) and called.id in RUNNERS), ast.unparse(node)
            assert not (
                isinstance(called, ast.Attribute) and called.attr in {"system", "popen", "register_custom_ops_library"}
            )
            assert "allow_pickle" not in {keyword.arg for keyword in node.keywords}


def test_modules_are_imported_by_name_only_where_families_are_found() -> None:
    """By their place in the package, never by what a bundle says."""
    users = {path.name for path in SERVICE if "import_module" in path.read_text(encoding="utf-8")}
    assert users <= {"__init__.py"}


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/hostname", "a/b", "..", ".", "", ".hidden", "a\\b", "a\0b", FILE, "model.yaml"]
)
def test_a_file_has_a_plain_name(bundle: Path, name: str) -> None:
    (bundle.parent / "secret").write_bytes(b"x")
    digest = sha256(bundle.parent / "secret")
    edit(bundle, files={name: digest})
    with pytest.raises(BundleError, match="cannot be a file of a bundle"):
        Bundle(bundle)


@pytest.mark.parametrize("part", ["graph", "tokenizer"])
def test_graph_and_tokenizer_are_files_of_the_bundle(bundle: Path, part: str) -> None:
    edit(bundle, **{part: {"file": "../elsewhere"}})
    with pytest.raises(BundleError, match="not listed under files"):
        Bundle(bundle)


@pytest.mark.parametrize("name", ["tokenizer.json", "model.onnx"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_link_is_no_file_of_a_bundle(bundle: Path, name: str, inside: bool) -> None:
    """Not even one that leads to the very bytes that were hashed: what it leads to may change afterwards."""
    elsewhere = (bundle if inside else bundle.parent) / "moved"
    (bundle / name).rename(elsewhere)
    (bundle / name).symlink_to(elsewhere)
    if inside:
        edit(bundle, files={"moved": sha256(elsewhere)})
    with pytest.raises(BundleError, match=f"{name} is a link"):
        Bundle(bundle).verify()


def test_a_manifest_is_no_link_and_no_pipe(bundle: Path) -> None:
    (bundle / FILE).rename(bundle.parent / "moved")
    (bundle / FILE).symlink_to(bundle.parent / "moved")
    with pytest.raises(BundleError, match="is not a bundle"):
        Bundle(bundle)
    (bundle / FILE).unlink()
    os.mkfifo(bundle / FILE)
    with pytest.raises(BundleError, match="is not a bundle"):
        Bundle(bundle)


def test_a_stage_that_leads_back_to_its_own_pipeline_ends(bundle: Path) -> None:
    manifest = json.loads((bundle / FILE).read_text())
    manifest |= {"stages": ["again"], "graph": None, "tokenizer": None, "template": []}
    (bundle / FILE).write_text(json.dumps(manifest))
    (bundle / "again").symlink_to(".")
    with pytest.raises(BundleError, match="a stage is a folder beside"):
        Bundle(bundle)


def test_a_manifest_that_is_endless_or_endlessly_deep_is_refused(bundle: Path) -> None:
    (bundle / FILE).write_text("[" * 1_000_000)
    with pytest.raises(BundleError, match="is not JSON"):
        Bundle(bundle)
    with (bundle / FILE).open("wb") as file:
        file.truncate(1 << 40)  # a hole
    with pytest.raises(BundleError, match="larger than 64 MiB"):
        Bundle(bundle)


@pytest.mark.parametrize("name", ["tokenizer.json", "model.onnx", "model.onnx.data"])
def test_nothing_is_parsed_before_every_hash_is_right(bundle: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(encoder, "Opened", lambda path: opened.append(path.name))
    monkeypatch.setattr(loading, "open_model", lambda path, device: opened.append(path.name))
    with (bundle / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(BundleError, match=f"{name} is not the file that was exported"):
        loading.open_bundle(Bundle(bundle), "cpu")
    assert opened == []


def graph(path: Path, location: str, domain: str = "") -> None:
    """A graph whose weights lie at `location`, with an operator of `domain`."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[64], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", "256")):
        weights.external_data.add(key=key, value=value)
    node = helper.make_node("Run" if domain else "Add", ["x", "w"], ["y"], domain=domain)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in "xy")
    opsets = [helper.make_opsetid("", 18)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(helper.make_graph([node], "g", [x], [y], [weights]), opset_imports=opsets, ir_version=9)
    path.write_bytes(model.SerializeToString())


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A folder for a graph; weights lie in it, and beside it."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    for place in (folder, tmp_path):
        (place / "w.data").write_bytes(np.ones(64, np.float32).tobytes())
    (folder / "link.data").symlink_to("../w.data")
    return folder


def test_weights_beside_a_graph_are_read(weights: Path) -> None:
    graph(weights / "model.onnx", "w.data")
    assert open_model(weights / "model.onnx", "cpu")({"x": np.zeros((1, 64), np.float32)})["y"].sum() == 64


@pytest.mark.parametrize("location", ["../w.data", "{}/w.data", "link.data", "*/_ORT_MEM_ADDR_/*", "../../etc/passwd"])
def test_weights_elsewhere_are_not(weights: Path, location: str) -> None:
    graph(weights / "model.onnx", location.format(weights.parent))
    with pytest.raises(Exception, match=r"External data path|in-memory address"):
        open_model(weights / "model.onnx", "cpu")


@pytest.mark.parametrize("domain", ["evil.ops", "ai.onnx.contrib"])
def test_an_operator_that_onnx_runtime_does_not_have_itself_is_refused(weights: Path, domain: str) -> None:
    graph(weights / "model.onnx", "w.data", domain)
    with pytest.raises(Exception, match="is not a registered function/op"):
        open_model(weights / "model.onnx", "cpu")
