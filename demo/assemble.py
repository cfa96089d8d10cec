"""Put one task head on the shared trunk and write an ordinary Hugging Face checkpoint folder.

Only numpy and safetensors are needed. The parts are stored in float16 and written in float32, which every exporter and
runtime takes as it is.
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
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def names() -> list[str]:
    """Names of the heads that are here."""
    return sorted(path.parent.name for path in HEADS.glob("*/head.safetensors"))


def default_names() -> list[str]:
    """The heads that a run without names assembles, in the order of demo.yaml."""
    listed: list[str] = yaml.safe_load((ROOT / "demo.yaml").read_text(encoding="utf-8"))["default"]
    return listed


def suite_path(name: str) -> Path:
    """The suite file of a head."""
    if name not in names():
        raise KeyError(f"no demo head {name!r}; there are {', '.join(names())}")
    return HEADS / name / "suite.yaml"


def assemble(name: str, out: str | Path) -> Path:
    """Write the checkpoint of a head to the folder `out/name` and return that folder."""
    suite = suites.load(suite_path(name))
    folder = Path(out) / name
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"bert.{key}": value for key, value in load_file(TRUNK / "model.safetensors").items()}
    tensors |= load_file(HEADS / name / "head.safetensors")  # its keys are full names already
    save_file(
        {key: value.astype(np.float32) for key, value in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    config = _config(name, suite.labels)
    (folder / "config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    for file in TOKENIZER_FILES:
        shutil.copyfile(TRUNK / file, folder / file)
    return folder


def _config(name: str, labels: list[str]) -> dict[str, Any]:
    """The trunk's configuration with the head's own keys and the suite's label order."""
    config: dict[str, Any] = json.loads((TRUNK / "config.json").read_text(encoding="utf-8"))
    config["dtype"] = "float32"
    if labels:
        config["id2label"] = {str(index): label for index, label in enumerate(labels)}
        config["label2id"] = {label: index for index, label in enumerate(labels)}
    config.update(json.loads((HEADS / name / "config.json").read_text(encoding="utf-8")))
    return config
