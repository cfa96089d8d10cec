"""What the service's tests share: loaded bundles, questions to them, and a graph that tags by a table."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from service.bundle import FILE, Bundle, sha256
from service.graph.session import Session
from service.loading import open_graph
from service.tasks import family
from service.tasks.base import Task
from service.types import Answer, Timing

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""As in the tiny bundles, so that their manifests stay true of a tokenizer that is put in place of theirs."""


@dataclass(frozen=True)
class Loaded:
    """A task and its session, without the loader's checks."""

    task: Any
    session: Session

    def item(self, **fields: Any) -> Any:
        """A request as the endpoint would see it: validated and checked."""
        item = self.task.Input.model_validate(fields)
        self.task.check(item)
        return item

    def ask(self, **fields: Any) -> Answer:
        (answer,) = self.ask_all([fields])
        return answer

    def ask_all(self, requests: list[dict[str, Any]]) -> list[Answer]:
        """Answers of requests that are run together; the first item's error is raised."""
        results = self.task.predict(
            [self.item(**fields) for fields in requests], self.session.run, [Timing() for _ in requests]
        )
        for result in results:
            if isinstance(result, Exception):
                raise result
        return list(results)

    def ids(self, **fields: Any) -> list[list[int]]:
        """What the model reads: the ids of each row."""
        return [row["input_ids"].ravel().tolist() for row in self.task.encode(self.item(**fields)).rows]

    def id(self, token: str) -> int:
        found: int | None = self.task.encoder.find(token)
        assert found is not None, f"{token} is not in the vocabulary"
        return found


def load(folder: Path, on_run: Callable[[int, int, int], None] | None = None) -> Loaded:
    """What lies in the folder, unproven; files that a test has changed are hashed anew, since equal ones are shared."""
    known = Bundle(folder).manifest.files
    changed = {name: found for name in known if (found := sha256(folder / name)) != known[name]}
    if changed:
        edit(folder, files=changed)
    bundle = Bundle(folder)
    task: Task = family(bundle)(bundle)
    return Loaded(task, open_graph(bundle, on_run=on_run))


@contextmanager
def no_files() -> Iterator[None]:
    """No descriptor is free."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = os.open("/", os.O_RDONLY)  # the lowest that is free: all below it are taken
    resource.setrlimit(resource.RLIMIT_NOFILE, (first, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(first)


def copy(source: Path, target: Path, **changes: Any) -> Path:
    """A bundle of one's own; `changes` replace fields of its manifest, mappings are merged."""
    shutil.copytree(source, target)
    edit(target, **changes)
    return target


def edit(folder: Path, **changes: Any) -> None:
    path = folder / FILE
    manifest = _merged(json.loads(path.read_text(encoding="utf-8")), changes)
    path.write_text(json.dumps(manifest, ensure_ascii=False), encoding="utf-8")


def _merged(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return old | {
        k: _merged(old[k], v) if isinstance(v, dict) and isinstance(old.get(k), dict) else v for k, v in new.items()
    }


def vocabulary(folder: Path, pieces: list[str]) -> None:
    """Give a bundle a WordPiece tokenizer with these pieces after the special tokens."""
    ids = {piece: i for i, piece in enumerate([*SPECIALS, *pieces])}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.save(str(folder / "tokenizer.json"))


def tagging(folder: Path, tags: Mapping[str, str], labels: list[str], other: str = "O") -> None:
    """Make a token-classification bundle tag by a table: each piece its label, every other piece `other`.

    An exact law of what the decoder must find, whatever surrounds a piece.
    """
    vocabulary(folder, list(tags))
    table = np.zeros((len(SPECIALS) + len(tags), len(labels)), np.float32)
    table[: len(SPECIALS), labels.index(other)] = 9
    for i, label in enumerate(tags.values(), len(SPECIALS)):
        table[i, labels.index(label)] = 9
    gather(folder / "model.onnx", {"logits": table})
    edit(folder, labels=labels, graph={"outputs": {"logits": ["sequence_length", len(labels)]}})


def gather(path: Path, tables: Mapping[str, Any]) -> None:
    """A graph with BERT's inputs whose outputs are rows of tables, looked up by token id."""
    axes = ["batch_size", "sequence_length"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, axes)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [*axes, *table.shape[1:]])
        for name, table in tables.items()
    ]
    nodes = [helper.make_node("Gather", [f"{name}_table", "input_ids"], [name], axis=0) for name in tables]
    constants = [numpy_helper.from_array(table, f"{name}_table") for name, table in tables.items()]
    write(path, nodes, inputs, outputs, constants)


def write(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any]) -> None:
    graph = helper.make_graph(nodes, "test", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save_model(model, path)
