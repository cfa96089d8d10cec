"""Tensors of a checkpoint whose head is one of ours, under whatever names they were published."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor, nn

from exporters.errors import ExportError

LAYOUTS = Path(__file__).parent / "heads"
NAMES = ("model.safetensors", "pytorch_model.bin")
ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
# What training frameworks wrap a state dict in.
WRAPPERS = ("state_dict", "model_state_dict", "model")


def files(folder: Path) -> list[Path]:
    """The weight files of a folder, those of the usual names first; ExportError if there are none."""
    found = [path for path in sorted(folder.iterdir()) if path.name.endswith(ENDINGS)]
    if not found:
        raise ExportError(f"{folder} holds no weight file: none ends in {', '.join(ENDINGS)}")
    return sorted(found, key=lambda path: NAMES.index(path.name) if path.name in NAMES else len(NAMES))


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name."""
    if path.suffix == ".safetensors":
        return dict(load_file(path))
    try:
        data: Any = torch.load(path, map_location="cpu", weights_only=True)  # never run a stranger's pickle
    except Exception as error:  # what torch and pickle raise for a broken or forbidden file is of every kind
        raise ExportError(f"{path} cannot be read as plain tensors: {error}") from error
    for wrapper in WRAPPERS:
        if isinstance(data, dict) and isinstance(data.get(wrapper), dict):
            data = data[wrapper]
    tensors = {k: v for k, v in data.items() if isinstance(v, Tensor)} if isinstance(data, dict) else {}
    if not tensors:
        raise ExportError(f"{path} holds no tensors by name")
    return tensors


def fill(model: nn.Module, head: str, folder: Path) -> None:
    """Load into `model` the first weight file that exactly fits a layout of the head: the encoder's own may lie beside.

    ExportError names the tensors that the nearest layout lacks, does not know, or has in another shape.
    """
    layouts = yaml.safe_load((LAYOUTS / f"{head}.yaml").read_text(encoding="utf-8"))
    wanted = model.state_dict()
    misfits = []
    for path in files(folder):
        tensors = read(path)
        for layout in layouts:
            named = _renamed(tensors, layout)
            named = {k: v for k, v in named.items() if not (k.startswith("trunk.pooler.") and k not in wanted)}
            misfit = _Misfit.of(wanted, named)
            if not misfit.size:
                model.load_state_dict({k: v.to(wanted[k].dtype) for k, v in named.items()})
                return
            misfits.append((misfit.size, f"{path} is not a {head} checkpoint; read as {layout['name']!r} it {misfit}"))
    raise ExportError(min(misfits)[1])


class _Misfit(NamedTuple):
    """What keeps tensors from being those of a model."""

    missing: list[str]
    strange: list[str]
    shapes: list[str]

    @classmethod
    def of(cls, wanted: Mapping[str, Tensor], named: Mapping[str, Tensor]) -> _Misfit:
        return cls(
            sorted(wanted.keys() - named.keys()),
            sorted(named.keys() - wanted.keys()),
            [
                f"{k} is {list(named[k].shape)}, not {list(wanted[k].shape)}"
                for k in sorted(wanted.keys() & named.keys())
                if named[k].shape != wanted[k].shape
            ],
        )

    @property
    def size(self) -> int:
        return len(self.missing) + len(self.strange) + len(self.shapes)

    def __str__(self) -> str:
        return "; ".join(
            f"{what} {', '.join(names[:8])}{f' and {len(names) - 8} more' if len(names) > 8 else ''}"
            for what, names in (
                ("lacks", self.missing),
                ("does not know", self.strange),
                ("has other shapes:", self.shapes),
            )
            if names
        )


def _renamed(tensors: dict[str, Tensor], layout: dict[str, Any]) -> dict[str, Tensor]:
    """Tensors under our names. `rename` is pattern -> replacement, in order; what `ignore` matches is left out."""
    ignored = [re.compile(pattern) for pattern in layout.get("ignore", [])]
    out = {}
    for name, tensor in tensors.items():
        if any(pattern.search(name) for pattern in ignored):
            continue
        for pattern, replacement in layout.get("rename", {}).items():
            name = re.sub(pattern, replacement, name)  # noqa: PLW2901
        out[name] = tensor
    return out
