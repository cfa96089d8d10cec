"""Torch model -> ONNX file in one of three precisions, weights in an external file."""

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
from onnxruntime.quantization import QuantType, quantize_dynamic
from optimum.exporters.onnx import onnx_export_from_model
from torch import Tensor, nn

from exporters.checkpoint import STOCK, Checkpoint
from exporters.errors import ExportError
from exporters.heads import Model

Precision = Literal["fp32", "fp16", "int8"]
OPSET = 18
FILE = "model.onnx"
WEIGHTS = "model.onnx.data"


def export(checkpoint: Checkpoint, family: str, precision: Precision, folder: Path, scratch: Path) -> Path:
    """Write the graph into `folder`; `scratch` is an empty folder for what lies between. Returns the graph's path."""
    model = checkpoint.model
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # tracing warns of every Python branch it meets; parity is checked instead
        raw = _own(checkpoint, scratch) if isinstance(model, Model) else _stock(model, family, scratch)
    if precision == "int8":
        raw = _int8(raw, scratch / "int8.onnx")
    elif precision == "fp16":
        raw = _fp16(raw, model.config, scratch / "fp16.onnx")
    path = folder / FILE
    onnx.save_model(onnx.load(raw), path, save_as_external_data=True, location=WEIGHTS, size_threshold=1024)
    return path


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


def _int8(raw: Path, out: Path) -> Path:
    """Weights int8 by channel, activations uint8 by tensor, from the raw graph: fusing first made it slower."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it advises a pre-processing that is the fusion we do not want
    try:
        quantize_dynamic(raw, out, per_channel=True, weight_type=QuantType.QInt8)
    finally:
        root.setLevel(level)
    return out


def _fp16(raw: Path, config: Any, out: Path) -> Path:
    """Fused for CUDA, then half precision; inputs and outputs keep their types."""
    from onnxruntime.transformers.optimizer import optimize_model

    fused = optimize_model(
        str(raw),
        model_type="bert",
        num_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
        use_gpu=True,
        opt_level=0,
    )
    fused.convert_float_to_float16(keep_io_types=True)
    fused.save_model_to_file(str(out))
    return out
