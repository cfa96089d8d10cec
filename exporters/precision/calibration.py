"""What activations look like: the largest magnitude of every channel that enters a product.

The texts are the examples of all packaged suites, and not of the bundle's own task: encoders that are equal shall stay
equal in a lower precision, so that bundles of one trunk go on sharing one copy of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from tokenizers import Tokenizer

import suites
from service.bundle import Bundle
from service.types import Array, Row

LONGEST = 48
"""Tokens of a row: no packaged suite reads less, so that bundles of one trunk read the same rows."""
UNKNOWN = 0.1
"""Texts of which more is unknown to the tokenizer are not in a language of the model."""


def rows(bundle: Bundle) -> Iterator[Row]:
    """Every text alone, and every two neighbours as a pair, between the first and the last token of the template."""
    tokenizer = Tokenizer.from_file(str(bundle.tokenizer_path))
    tokenizer.no_truncation()
    first, last = ([part.id for part in bundle.manifest.template if part.id is not None][i] for i in (0, -1))
    unknown, limit = bundle.tokenizer.unk_id, min(LONGEST, bundle.manifest.max_length)
    pieces = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts()]
    known = [ids for ids in pieces if ids and ids.count(unknown) <= UNKNOWN * len(ids)] or [
        ids for ids in pieces if ids
    ]
    for one, two in zip(known, [*known[1:], known[0]], strict=True):
        for ids, segment in (([first, *one, last], []), ([first, *one, last], [*two, last])):
            values = np.array([*ids, *segment][:limit])
            yield {
                "input_ids": values,
                "attention_mask": np.ones_like(values),
                "token_type_ids": (np.arange(len(values)) >= len(ids)).astype(np.int64),
            }


@cache
def texts() -> tuple[str, ...]:
    """Every text in the examples of the packaged suites, in order."""
    found = (text for name in suites.names() for example in suites.load(name).examples for text in _texts(example))
    return tuple(dict.fromkeys(found))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def maxima(model: Any, names: Iterable[str], fed: Iterable[Row]) -> dict[str, Array]:
    """Run rows one by one and watch the tensors `names`: float32 [channels] of each."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    del watched.graph.output[:]
    names = list(dict.fromkeys(names))
    watched.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    found: dict[str, Array] = {}
    with tempfile.TemporaryDirectory(prefix="clueserve-calibration-") as folder:
        path = Path(folder) / "watched.onnx"
        onnx.save_model(watched, path, save_as_external_data=True, location="weights", size_threshold=1024)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        ranks = {i.name: len(i.shape) for i in session.get_inputs()}
        for row in fed:
            # Choices of one question are rows of their own axis: one choice.
            feeds = {name: row[name].reshape((1,) * (rank - 1) + (-1,)) for name, rank in ranks.items()}
            for name, value in zip(names, session.run(names, feeds), strict=True):
                largest = np.abs(value).max(axis=tuple(range(value.ndim - 1)))
                found[name] = np.maximum(found[name], largest) if name in found else largest
    return found
