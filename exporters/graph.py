"""Torch model -> ONNX file in one of three precisions, weights in an external file."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import Any, Literal

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic
from optimum.exporters.onnx import onnx_export_from_model

from exporters.checkpoint import ExportError

Precision = Literal["fp32", "fp16", "int8"]
OPSET = 18
FILE = "model.onnx"
WEIGHTS = "model.onnx.data"

TASKS = {
    "text-classification": "text-classification",
    "pair-classification": "text-classification",
    "span-pair-classification": "text-classification",
    "token-classification": "token-classification",
    "question-answering": "question-answering",
    "multiple-choice": "multiple-choice",
}


def export(model: Any, family: str, precision: Precision, folder: Path, scratch: Path) -> Path:
    """Write the graph into `folder`; `scratch` is an empty folder for what lies between. Returns the graph's path."""
    quiet = io.StringIO()
    logging.getLogger("optimum").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(quiet):
        warnings.simplefilter("ignore")  # tracing warns of every Python branch it meets; parity is checked instead
        try:
            onnx_export_from_model(
                model, scratch, opset=OPSET, task=TASKS[family], no_post_process=True, do_validation=False
            )
        except ValueError as error:
            raise ExportError(f"optimum cannot export {type(model).__name__}: {error}") from error
    raw = scratch / FILE
    if not raw.is_file():
        raise ExportError(f"optimum wrote {sorted(p.name for p in scratch.iterdir())}, not one {FILE}")
    if precision == "int8":
        raw = _int8(raw, scratch / "int8.onnx")
    elif precision == "fp16":
        raw = _fp16(raw, model.config, scratch / "fp16.onnx")
    path = folder / FILE
    onnx.save_model(onnx.load(raw), path, save_as_external_data=True, location=WEIGHTS, size_threshold=1024)
    return path


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
