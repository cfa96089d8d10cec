"""Tensors of a checkpoint whose head is one of ours, under whatever names they were published."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

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


def read(folder: Path) -> dict[str, Tensor]:
    """The tensors of the one weight file in a folder."""
    files = [folder / name for name in NAMES if (folder / name).is_file()][:1] or [
        path for path in sorted(folder.iterdir()) if path.name.endswith(ENDINGS)
    ]
    if len(files) != 1:
        raise ExportError(f"{folder} holds {len(files)} weight files, not one: {[f.name for f in files]}")
    if files[0].suffix == ".safetensors":
        return dict(load_file(files[0]))
    try:
        data: Any = torch.load(files[0], map_location="cpu", weights_only=True)  # never run a stranger's pickle
    except Exception as error:  # what torch and pickle raise for a broken or forbidden file is of every kind
        raise ExportError(f"{files[0]} cannot be read as plain tensors: {error}") from error
    for wrapper in WRAPPERS:
        if isinstance(data, dict) and isinstance(data.get(wrapper), dict):
            data = data[wrapper]
    tensors = {k: v for k, v in data.items() if isinstance(v, Tensor)} if isinstance(data, dict) else {}
    if not tensors:
        raise ExportError(f"{files[0]} holds no tensors by name")
    return tensors


def fill(model: nn.Module, head: str, tensors: dict[str, Tensor], source: str) -> None:
    """Load `tensors` into `model` by the first layout of the head that fits exactly.

    ExportError names the tensors that the nearest layout lacks, does not know, or has in another shape.
    """
    wanted = model.state_dict()
    tries = []
    for layout in yaml.safe_load((LAYOUTS / f"{head}.yaml").read_text(encoding="utf-8")):
        named = _renamed(tensors, layout)
        named = {k: v for k, v in named.items() if not (k.startswith("trunk.pooler.") and k not in wanted)}
        missing = sorted(wanted.keys() - named.keys())
        strange = sorted(named.keys() - wanted.keys())
        shapes = [
            f"{k} is {list(named[k].shape)}, not {list(wanted[k].shape)}"
            for k in sorted(wanted.keys() & named.keys())
            if named[k].shape != wanted[k].shape
        ]
        if not (missing or strange or shapes):
            model.load_state_dict({k: v.to(wanted[k].dtype) for k, v in named.items()})
            return
        tries.append((len(missing) + len(strange) + len(shapes), layout["name"], missing, strange, shapes))
    _, name, missing, strange, shapes = min(tries)
    problems = [
        f"{what} {', '.join(names[:8])}{f' and {len(names) - 8} more' if len(names) > 8 else ''}"
        for what, names in (("lacks", missing), ("does not know", strange), ("other shapes:", shapes))
        if names
    ]
    raise ExportError(f"{source} is not a {head} checkpoint; read as {name!r} it {'; '.join(problems)}")


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
