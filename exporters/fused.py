"""An encoder for CUDA: attention, normalisations and activations in one kernel each, float16 inside.

Packed, it leaves padding out as well: from the first attention to the last normalisation the real tokens of all rows
lie one behind the other.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from onnx import ModelProto, helper

from exporters import split
from exporters.errors import ExportError


def fused(model: ModelProto, config: Any, packed: bool) -> ModelProto:
    """The same graph fused and in float16; inputs and outputs keep their names, axes and types.

    Rows must be padded behind their tokens: the mask becomes the number of tokens. ExportError if attention was not
    recognised in every layer.
    """
    from onnxruntime.transformers.convert_to_packing_mode import PackingMode
    from onnxruntime.transformers.optimizer import optimize_model

    with tempfile.TemporaryDirectory(prefix="clueserve-fused-") as folder:
        path = split.save(model, Path(folder) / split.FILE)
        fusion = optimize_model(
            str(path),
            model_type="bert",
            num_heads=config.num_attention_heads,
            hidden_size=config.hidden_size,
            use_gpu=True,
            opt_level=0,
        )
    _require(fusion.model, "Attention", config.num_hidden_layers)
    fusion.convert_float_to_float16(keep_io_types=True)
    if packed:
        PackingMode(fusion).convert(use_symbolic_shape_infer=False)
        _require(fusion.model, "PackedAttention", config.num_hidden_layers)
    fusion.topological_sort()
    fusion.model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return fusion.model


def _require(model: ModelProto, kind: str, layers: int) -> None:
    found = Counter(node.op_type for node in model.graph.node)
    if found[kind] != layers:
        raise ExportError(
            f"the graph has {found[kind]} {kind} nodes after fusion where the model has {layers} layers; this "
            "architecture is not one that ONNX Runtime fuses for CUDA, export it with --precision fp32"
        )
