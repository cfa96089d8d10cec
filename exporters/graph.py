"""Torch model -> ONNX files in float32, or with an encoder fused and in float16 for CUDA; weights in external files."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import torch
from optimum.exporters.onnx import onnx_export_from_model
from torch import Tensor, nn

from exporters import split
from exporters.checkpoint import STOCK, Checkpoint
from exporters.errors import ExportError
from exporters.fused import fused
from exporters.heads import Model

Precision = Literal["fp32", "fp16", "fp16-packed"]
OPSET = 18
FILE = "model.onnx"


def export(checkpoint: Checkpoint, family: str, precision: Precision, folder: Path, scratch: Path) -> Path:
    """Write the graph into `folder`, its encoder apart where it can be; `scratch` is empty, for what lies between.

    Returns the path of the graph, or of its head.
    """
    model = checkpoint.model
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # tracing warns of every Python branch it meets; parity is checked instead
        raw = _own(checkpoint, scratch) if isinstance(model, Model) else _stock(model, family, scratch)
    whole = onnx.load(raw)
    scope = "/model/trunk/" if isinstance(model, Model) else f"/{model.base_model_prefix}/"
    if parts := split.split(whole, scope, model.config.hidden_size):
        encoder, whole = parts
        if precision != "fp32":
            encoder = fused(encoder, model.config, packed=precision == "fp16-packed")
        split.save(encoder, folder / split.FILE)
    elif precision != "fp32":
        raise ExportError(f"{precision} is for encoders, and {type(model).__name__} has none that can be set apart")
    return split.save(whole, folder / FILE)


def _stock(model: Any, family: str, scratch: Path) -> Path:
    logging.getLogger("optimum").setLevel(logging.ERROR)
    try:
        onnx_export_from_model(
            model, scratch, opset=OPSET, task=STOCK[family][1], no_post_process=True, do_validation=False
        )
    except ValueError as error:
        raise ExportError(f"optimum cannot export {type(model).__name__}: {error}") from error
    if not (scratch / FILE).is_file():
        raise ExportError(f"optimum wrote {sorted(p.name for p in scratch.iterdir())}, not one {FILE}")
    return scratch / FILE


class _Positional(nn.Module):
    """The tracer passes inputs by position and takes outputs by position."""

    def __init__(self, model: Model, names: list[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        outputs = self.model(**dict(zip(self.names, inputs, strict=True)))
        return tuple(outputs[name] for name in self.model.head.outputs)


def _own(checkpoint: Checkpoint, scratch: Path) -> Path:
    model: Model = checkpoint.model
    length = min(16, checkpoint.capacity)
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(inputs(checkpoint), ("batch_size", "sequence_length"))
    rows = {name: torch.ones(2, length, dtype=torch.int64) for name in axes}
    axes |= {name: ("batch_size", *a) for name, a in model.head.inputs.items()}
    made_up = [model.head.sample(length, np.random.default_rng(seed)) for seed in (0, 0)]
    rows |= {name: torch.stack([torch.from_numpy(row[name]) for row in made_up]) for name in model.head.inputs}
    named = axes | {name: ("batch_size", *a) for name, a in model.head.outputs.items()}
    torch.onnx.export(
        _Positional(model, list(axes)).eval(),
        tuple(rows[name] for name in axes),
        str(scratch / FILE),
        input_names=list(axes),
        output_names=list(model.head.outputs),
        # A name that is a number is a size that never changes.
        dynamic_axes={name: {i: a for i, a in enumerate(dims) if not a.isdigit()} for name, dims in named.items()},
        opset_version=OPSET,
        dynamo=False,
    )
    return scratch / FILE


def inputs(checkpoint: Checkpoint) -> list[str]:
    """The inputs of an encoder of its own: token types only where it tells segments apart."""
    return ["input_ids", "attention_mask", *(["token_type_ids"] if checkpoint.segments else [])]
