"""What goes into `bundle.json`, by where it comes from."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnxruntime

from exporters import checkpoint as checkpoints
from exporters import graph, verify
from exporters.heads import Model
from service.bundle import FORMAT
from service.graph.session import Session
from suites import Suite

TOOLS = ("torch", "transformers", "optimum", "optimum-onnx", "onnx", "tokenizers")


def tools() -> dict[str, str]:
    """Versions; that of ONNX Runtime, whose wheels for CPU and GPU have two names, from the package itself."""
    return {tool: version(tool) for tool in TOOLS} | {"onnxruntime": onnxruntime.__version__}


def of_suite(suite: Suite, name: str) -> dict[str, Any]:
    """What the suite alone says."""
    normalization = suite.normalization.model_dump(exclude={"simplify"})
    if suite.normalization.simplify:
        normalization["replace"] = checkpoints.simplified() | normalization["replace"]
    return {
        "format": FORMAT,
        "name": name,
        "family": suite.family,
        "suite": suite.name,
        "language": suite.language,
        "label_names": suite.label_names,
        "truncation": suite.truncation,
        "normalization": normalization,
        "decoder": suite.decoder,
        "scores": [s.model_dump() for s in suite.scores],
        "provenance": {"tools": tools()},
    }


def of_checkpoint(loaded: checkpoints.Checkpoint, suite: Suite, precision: str, session: Session) -> dict[str, Any]:
    """What the checkpoint and its graph add."""
    head = loaded.model.head if isinstance(loaded.model, Model) else None
    return {
        "template": [p.model_dump(exclude_defaults=True) for p in checkpoints.template(loaded, suite)],
        "max_length": min(suite.max_length or loaded.capacity, loaded.capacity),
        "decoder": suite.decoder | (head.decoder() if head else {}),
        "tokenizer": checkpoints.tokenizer_facts(loaded.tokenizer).model_dump(),
        "graph": {
            "file": graph.FILE,
            "precision": precision,
            "opset": graph.OPSET,
            "inputs": {k: list(v) for k, v in session.inputs.items()},
            "outputs": {k: list(v) for k, v in session.outputs.items()},
            "pads": {"input_ids": int(loaded.tokenizer.pad_token_id)},
        },
        "tolerance": verify.TOLERANCES[precision],
        "provenance": {
            "checkpoint": Path(loaded.source).name if Path(loaded.source).is_dir() else loaded.source,
            "architecture": type(head or loaded.model).__name__,
            "tools": tools(),
        },
    }


def tokenizer(loaded: checkpoints.Checkpoint, suite: Suite) -> str:
    markers = (
        {m for pair in suite.decoder.get("markers", {}).values() for m in pair}
        if suite.decoder.get("marker_tokens")
        else set()
    )
    markers |= {suite.decoder["blank_token"]} if "blank_token" in suite.decoder else set()
    return checkpoints.tokenizer_json(loaded.tokenizer, markers)
