"""The checkpoint that all peers serve: the demo's topic head, or a small model where everything but the model shows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from safetensors.numpy import load_file, save_file

import demo
from benchmarks import trace
from benchmarks.peers.install import SetupError
from benchmarks.predictors import InProcess
from benchmarks.servers import ROOT
from service.bundle import Bundle

Kind = Literal["small", "trunk"]
HEAD = "klue-ynat"
MAX_LENGTH = 256
"""Tokens that the bundle reads: more than any text of the traces has, since other servers cut at 512 or never."""
SMALL = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
SMALL_WORDS = 17
"""Median of the texts for the small model; their mean is 20."""
SPREAD = 0.12
"""Standard deviation of random weights: six times BERT's own, so that different texts get different labels."""


def checkpoint(kind: Kind, folder: Path, seed: int = 0) -> Path:
    """Write the checkpoint as an ordinary Hugging Face folder, `folder/kind`."""
    shutil.rmtree(folder / kind, ignore_errors=True)
    trunk = demo.assemble(HEAD, folder)
    return trunk.rename(folder / kind) if kind == "trunk" else _small(trunk, folder / kind, seed)


def _small(trunk: Path, out: Path, seed: int) -> Path:
    """A BERT of random weights with the trunk's tokenizer and the head's labels, in place of `trunk`."""
    config = json.loads((trunk / "config.json").read_text(encoding="utf-8"))
    old, new = config["hidden_size"], SMALL["hidden_size"]
    sizes = {old: new, config["intermediate_size"]: SMALL["intermediate_size"]}
    rng = np.random.default_rng(seed)
    tensors: dict[str, Any] = {}
    for name, value in sorted(load_file(trunk / "model.safetensors").items()):
        if ".layer." in name and int(name.split(".layer.")[1].split(".")[0]) >= SMALL["num_hidden_layers"]:
            continue
        shape = [sizes.get(size, size) for size in value.shape]
        if name.endswith("LayerNorm.weight"):
            tensors[name] = np.ones(shape, np.float32)
        elif name.endswith("bias"):
            tensors[name] = np.zeros(shape, np.float32)
        else:
            tensors[name] = (rng.standard_normal(shape) * SPREAD).astype(np.float32)
    trunk.rename(out)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(config | SMALL, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return out


def export(checkpoint: Path, out: Path) -> tuple[Path, Path]:
    """The bundles of a checkpoint in fp32 and int8, and beside its weights the graph that others run, `model.onnx`.

    All are made in processes of their own, which need torch; that graph by optimum's command, as its users would. What
    int8 loses is the gate's to judge, elsewhere: here it is measured.
    """
    suite = yaml.safe_load(demo.suite_path(HEAD).read_text(encoding="utf-8")) | {"max_length": MAX_LENGTH}
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "suite.yaml").write_text(yaml.safe_dump(suite, allow_unicode=True), encoding="utf-8")
    common = ("exporters", checkpoint, "--suite", out / "suite.yaml", "--out", out)
    _run(*common, "--name", "fp32")
    _run(*common, "--name", "int8", "--precision", "int8", "--accept-loss", "measured beside other servers")
    _run("optimum.exporters.onnx", "--model", checkpoint, "--task", "text-classification", out / "onnx")
    for file in (out / "onnx").glob("model.onnx*"):
        file.rename(checkpoint / file.name)
    return out / "fp32", out / "int8"


def _run(module: str, *arguments: object) -> None:
    """SetupError with the end of what a command printed, if it fails."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SetupError(f"python -m {module} failed:\n{done.stdout[-2000:]}")


def texts(kind: Kind, count: int, seed: int) -> list[str]:
    """For the trunk, headlines as long as the benchmark's; for the small model, about twenty English words."""
    if kind == "small":
        return trace.texts(trace.example_texts("en"), count, seed, median=SMALL_WORDS)
    calls = trace.calls([trace.Target(HEAD, "klue/ynat", "ko")], "mixed", count, seed)
    return [call.item["text"] for call in calls]


def labels(bundle: Path, texts: list[str]) -> list[str]:
    """What the bundle answers in this process."""
    outcomes = InProcess(Bundle(bundle)).ask([{"text": text} for text in texts])
    return [outcome.answer["label"] for outcome in outcomes if outcome.answer]
