"""What a bundle must be before anything of it is believed: every fact named, every file listed and unchanged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.bundle import FILE, FORMAT, Bundle, Manifest, sha256
from service.errors import BundleError

Copy = Callable[..., Path]


@pytest.fixture
def bundle(copy_of: Copy) -> Path:
    return copy_of("klue/ynat")


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((folder / FILE).read_text(encoding="utf-8"))
    change(manifest)
    (folder / FILE).write_text(json.dumps(manifest), encoding="utf-8")


def test_an_exported_bundle_reads_and_verifies(bundle: Path) -> None:
    read = Bundle(bundle)
    read.verify()
    assert read.manifest.name == "klue-ynat"
    assert read.tokenizer_path.is_file()
    assert {p.name for p in bundle.iterdir()} == {*read.manifest.files, FILE}


def test_a_folder_without_a_manifest_is_not_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"is not a bundle: bundle\.json is missing"):
        Bundle(tmp_path)
    with pytest.raises(BundleError, match="is not a bundle"):
        Bundle(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["", "{", "labels: [a]", "\x00"])
def test_a_manifest_that_is_not_json_is_refused(bundle: Path, text: str) -> None:
    (bundle / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(BundleError, match=r"bundle\.json is not JSON"):
        Bundle(bundle)


def test_a_manifest_that_is_not_utf8_is_refused(bundle: Path) -> None:
    (bundle / FILE).write_bytes('{"name": "뉴스"}'.encode("euc-kr"))
    with pytest.raises(BundleError, match=r"bundle\.json is not JSON"):
        Bundle(bundle)


@pytest.mark.parametrize("text", ["[]", "null", '"bundle"'])
def test_a_manifest_that_is_not_an_object_is_refused(bundle: Path, text: str) -> None:
    (bundle / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(BundleError, match=r"bundle\.json: bundle\.json: "):
        Bundle(bundle)


def test_a_bundle_of_another_format_is_to_be_exported_again(bundle: Path) -> None:
    rewrite(bundle, lambda m: (m.update(format=1), m["graph"].update(row_isolated=True)))
    with pytest.raises(BundleError, match=rf"has format 1, this version reads {FORMAT}: export the bundle again"):
        Bundle(bundle)


def test_the_format_is_raised_with_every_change_of_the_schema() -> None:
    assert (FORMAT, digest(Manifest.model_json_schema())) == (2, "94957f3c1cd3")


def digest(schema: object) -> str:
    """Of what a manifest may hold, whatever the schema says about it in words."""

    def bare(value: object) -> object:
        if isinstance(value, dict):
            return {k: bare(v) for k, v in value.items() if not (k == "description" and isinstance(v, str))}
        return [bare(v) for v in value] if isinstance(value, list) else value

    return hashlib.sha256(json.dumps(bare(schema), sort_keys=True).encode()).hexdigest()[:12]


REFUSED = {
    "an unknown key": (lambda m: m.update(max_len=8), "max_len: Extra inputs"),
    "an unknown key within": (lambda m: m["graph"].update(batch=8), r"graph\.batch: Extra inputs"),
    "a missing key": (lambda m: m.pop("tolerance"), "tolerance: Field required"),
    "unnamed classes": (lambda m: m["labels"].__setitem__(1, "LABEL_1"), "labels without names: LABEL_1"),
    "unnamed classes in small letters": (lambda m: m["labels"].__setitem__(0, "label_12"), "without names: label_12"),
    "equal classes": (lambda m: m["labels"].__setitem__(1, m["labels"][0]), "labels must be unique"),
    "a later format": (
        lambda m: m.update(format=FORMAT + 1),
        f"format {FORMAT + 1}, this version reads {FORMAT}: export",
    ),
    "no format": (lambda m: m.pop("format"), "format: Field required"),
    "no golden record": (lambda m: m.update(golden=[]), "golden: List should have at least 1 item"),
    "a part that is both": (lambda m: m["template"][0].update(field="text"), "template.0: .*either a token id or a"),
    "a part that is neither": (lambda m: m["template"].append({"type": 1}), "template.3: .*either a token id or a"),
    "a graph that is not listed": (lambda m: m["files"].pop("model.onnx"), "model.onnx is not listed under files"),
    "a tokenizer that is not listed": (lambda m: m["files"].pop("tokenizer.json"), "tokenizer.json is not listed"),
    "a name that is no route": (lambda m: m.update(name="a/b"), "name: String should match"),
    "no room for text": (lambda m: m.update(max_length=2), "max_length: Input should be greater than 2"),
    "an unknown form": (lambda m: m["normalization"].update(form="nfd"), r"normalization\.form: Input should be 'nfc'"),
    "a replacement that moves offsets": (lambda m: m["normalization"].update(replace={"…": "..."}), "at most 1 char"),
    "a deletion": (lambda m: m["normalization"].update(replace={"…": ""}), "at least 1 char"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_the_manifest_is_refused_with(bundle: Path, change: Callable[[dict[str, Any]], object], message: str) -> None:
    rewrite(bundle, change)
    with pytest.raises(BundleError, match=message) as refused:
        Bundle(bundle)
    assert str(bundle / FILE) in str(refused.value)


def test_every_problem_of_a_manifest_is_named_at_once(bundle: Path) -> None:
    rewrite(bundle, lambda m: m.update(name="Ynat", golden=[], spelling=1))
    with pytest.raises(BundleError, match=r"name: .*; golden: .*; spelling: "):
        Bundle(bundle)


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data", "tokenizer.json"])
def test_a_missing_file_is_named(bundle: Path, name: str) -> None:
    """A graph without its weights file would fail at the first request (microsoft/onnxruntime#15349)."""
    (bundle / name).unlink()
    with pytest.raises(BundleError, match=f"{name} is listed in bundle.json but missing"):
        Bundle(bundle).verify()


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data", "tokenizer.json"])
def test_a_file_with_one_other_byte_is_named(bundle: Path, name: str) -> None:
    content = bytearray((bundle / name).read_bytes())
    content[len(content) // 2] ^= 1
    (bundle / name).write_bytes(content)
    with pytest.raises(BundleError, match=f"{name} is not the file that was exported"):
        Bundle(bundle).verify()


def test_a_folder_in_place_of_a_file_is_missing(bundle: Path) -> None:
    (bundle / "tokenizer.json").unlink()
    (bundle / "tokenizer.json").mkdir()
    with pytest.raises(BundleError, match=r"tokenizer\.json is listed in bundle\.json but missing"):
        Bundle(bundle).verify()


def test_a_file_that_nobody_hashed_is_named(bundle: Path) -> None:
    (bundle / "model.yaml").write_text("the store's own")
    Bundle(bundle).verify()
    (bundle / "extra.bin").write_bytes(b"x")
    with pytest.raises(BundleError, match=r"extra\.bin is not listed in bundle\.json"):
        Bundle(bundle).verify()


def test_the_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
