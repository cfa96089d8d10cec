"""Tensors come in under the names that others gave them, or the reason is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from exporters import weights
from exporters.errors import ExportError

LAYOUTS = """
- name: plain
- name: lightning
  rename: {"^model\\\\.": "trunk.", "^classifier\\\\.": "head.dense."}
  ignore: ["position_ids$", "^loss\\\\."]
"""


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(2, 3)
        self.head = nn.ModuleDict({"dense": nn.Linear(3, 4)})


@pytest.fixture(autouse=True)
def layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "layouts"
    folder.mkdir()
    (folder / "small.yaml").write_text(LAYOUTS, encoding="utf-8")
    monkeypatch.setattr(weights, "LAYOUTS", folder)


@pytest.fixture
def published() -> dict[str, torch.Tensor]:
    """A state dict as some trainer writes it."""
    return {
        "model.weight": torch.arange(6.0).reshape(3, 2),
        "model.bias": torch.ones(3),
        "classifier.weight": torch.arange(12.0).reshape(4, 3),
        "classifier.bias": torch.zeros(4),
        "model.position_ids": torch.arange(5),
        "loss.weight": torch.ones(4),
    }


@pytest.fixture
def filled(tmp_path: Path) -> Callable[[dict[str, torch.Tensor]], Small]:
    def fill(tensors: dict[str, torch.Tensor]) -> Small:
        folder = tmp_path / "checkpoint"
        folder.mkdir(exist_ok=True)
        torch.save(tensors, folder / "net.pth")
        model = Small()
        weights.fill(model, "small", folder)
        return model

    return fill


def test_names_are_mapped_in_order_and_what_the_head_does_not_need_is_left_out(
    published: dict[str, Any], filled: Any
) -> None:
    model = filled(published)
    assert torch.equal(model.trunk.weight, published["model.weight"])
    assert torch.equal(model.head["dense"].weight, published["classifier.weight"])


def test_a_checkpoint_under_our_own_names_needs_no_mapping(filled: Any) -> None:
    ours = Small().state_dict()
    assert torch.equal(filled(ours).trunk.weight, ours["trunk.weight"])


def test_tensors_that_are_missing_are_named(published: dict[str, Any], filled: Any) -> None:
    del published["classifier.bias"], published["model.bias"]
    with pytest.raises(ExportError, match=r"as 'lightning' it lacks head\.dense\.bias, trunk\.bias$"):
        filled(published)


def test_tensors_that_nobody_asked_for_are_named(published: dict[str, Any], filled: Any) -> None:
    with pytest.raises(ExportError, match=r"as 'lightning' it does not know lstm\.weight_ih$"):
        filled(published | {"lstm.weight_ih": torch.ones(1)})


def test_a_tensor_of_another_shape_is_named_with_both_shapes(published: dict[str, Any], filled: Any) -> None:
    with pytest.raises(ExportError, match=r"head\.dense\.bias is \[7\], not \[4\]"):
        filled(published | {"classifier.bias": torch.zeros(7)})


def test_half_precision_is_widened(published: dict[str, Any], filled: Any) -> None:
    model = filled({name: tensor.half() for name, tensor in published.items()})
    assert model.trunk.weight.dtype == torch.float32


@pytest.mark.parametrize("name", ["pytorch_model.bin", "dp-model.bin", "erenet.pth", "best.pt", "epoch=3.ckpt"])
def test_a_weight_file_is_found_by_its_ending(tmp_path: Path, published: dict[str, Any], name: str) -> None:
    torch.save(published, tmp_path / name)
    (path,) = weights.files(tmp_path)
    assert weights.read(path).keys() == published.keys()


@pytest.mark.parametrize("wrapper", ["state_dict", "model_state_dict", "model"])
def test_what_a_trainer_wraps_the_tensors_in_is_taken_off(tmp_path: Path, published: Any, wrapper: str) -> None:
    torch.save({"epoch": 3, wrapper: published}, tmp_path / "a.ckpt")
    assert weights.read(tmp_path / "a.ckpt").keys() == published.keys()


def test_of_several_files_the_one_that_fits_is_read(tmp_path: Path, published: dict[str, Any]) -> None:
    encoder = {name.removeprefix("model."): tensor for name, tensor in published.items() if name.startswith("model.")}
    save_file(encoder, tmp_path / "model.safetensors")
    torch.save(published, tmp_path / "whole.pt")
    assert [path.name for path in weights.files(tmp_path)] == ["model.safetensors", "whole.pt"]
    model = Small()
    weights.fill(model, "small", tmp_path)
    assert torch.equal(model.head["dense"].weight, published["classifier.weight"])


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"holds no weight file: none ends in \.safetensors, \.bin"):
        weights.fill(Small(), "small", tmp_path)


def test_a_pickle_that_would_run_code_is_not_opened(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"weight": Evil()}, tmp_path / "a.bin")
    with pytest.raises(ExportError, match="cannot be read as plain tensors"):
        weights.read(tmp_path / "a.bin")
    assert not (tmp_path / "ran").exists()


def test_a_file_without_tensors_is_refused(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "a.bin")
    with pytest.raises(ExportError, match="holds no tensors by name"):
        weights.read(tmp_path / "a.bin")
