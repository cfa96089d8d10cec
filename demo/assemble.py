"""Put one task head on the shared trunk and write an ordinary Hugging Face checkpoint folder.

Only numpy and safetensors are needed. The parts are stored in float16 and written in float32, which every exporter and
runtime takes as it is. A pipeline becomes a folder with such a checkpoint a stage, and its assets.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import load_file, save_file

import suites

ROOT = Path(__file__).parent
TRUNK = ROOT / "trunk"
HEADS = ROOT / "heads"
WEIGHTS = "model.safetensors"
SUITE = "suite.yaml"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def names() -> list[str]:
    """Names of the heads that are here, pipelines too."""
    return sorted(path.parent.name for path in HEADS.glob(f"*/{SUITE}"))


def default_names() -> list[str]:
    """The heads that a run without names assembles, in the order of demo.yaml."""
    return _listed("default")


def more_names() -> list[str]:
    """The heads that are assembled on request only, in the order of demo.yaml."""
    return _listed("more")


def _listed(key: str) -> list[str]:
    listed: list[str] = yaml.safe_load((ROOT / "demo.yaml").read_text(encoding="utf-8"))[key]
    return listed


def suite_path(name: str) -> Path:
    """The suite file of a head."""
    if name not in names():
        raise KeyError(f"no demo head {name!r}; there are {', '.join(names())}")
    return HEADS / name / SUITE


def files(name: str) -> list[Path]:
    """What the checkpoint of a head is made from, beside its suite and the tokenizer."""
    return [TRUNK / WEIGHTS, *_files(suite_path(name).parent)]


def _files(head: Path) -> list[Path]:
    stages = _stages(head)
    own = [head / asset for asset in suites.load(head / SUITE).assets]
    own += [] if stages else [head / "head.safetensors", head / "config.json"]
    return own + [file for stage in stages.values() for file in _files(stage)]


def _stages(head: Path) -> dict[str, Path]:
    """The folder of every stage of a pipeline, which is where the stage's suite lies; it may be another head's."""
    listed: dict[str, str] = yaml.safe_load((head / SUITE).read_text(encoding="utf-8")).get("stages", {})
    return {stage: (head / path).resolve().parent for stage, path in listed.items()}


def assemble(name: str, out: str | Path) -> Path:
    """Write the checkpoint of a head to the folder `out/name` and return that folder."""
    return _write(suite_path(name).parent, Path(out) / name)


def _write(head: Path, folder: Path) -> Path:
    suite = suites.load(head / SUITE)
    folder.mkdir(parents=True, exist_ok=True)
    for asset in suite.assets:
        shutil.copyfile(head / asset, folder / asset)
    for stage, part in _stages(head).items():
        _write(part, folder / stage)
    if suite.stages:
        return folder
    tensors = {f"bert.{key}": value for key, value in load_file(TRUNK / WEIGHTS).items()}
    tensors |= load_file(head / "head.safetensors")  # its keys are full names already
    save_file(
        {key: value.astype(np.float32) for key, value in tensors.items()},
        folder / WEIGHTS,
        metadata={"format": "pt"},
    )
    config = _config(head, suite.labels)
    (folder / "config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    for file in TOKENIZER_FILES:
        shutil.copyfile(TRUNK / file, folder / file)
    return folder


def _config(head: Path, labels: list[str]) -> dict[str, Any]:
    """The trunk's configuration with the head's own keys and the suite's label order."""
    config: dict[str, Any] = json.loads((TRUNK / "config.json").read_text(encoding="utf-8"))
    config["dtype"] = "float32"
    if labels:
        config["id2label"] = {str(index): label for index, label in enumerate(labels)}
        config["label2id"] = {label: index for index, label in enumerate(labels)}
    config.update(json.loads((head / "config.json").read_text(encoding="utf-8")))
    return config
