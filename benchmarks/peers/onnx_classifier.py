"""What a user of a general server writes to serve a classifier on ONNX Runtime: one padded run a batch.

Needs onnxruntime, tokenizers and numpy alone, because it runs in the peers' environments.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer


class Classifier:
    """An ONNX graph with the tokenizer and the labels of its checkpoint folder."""

    def __init__(self, graph: Path, checkpoint: Path, threads: int) -> None:
        config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
        self._labels = [config["id2label"][str(i)] for i in range(len(config["id2label"]))]
        self._tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
        self._tokenizer.enable_padding(pad_id=config["pad_token_id"])
        self._tokenizer.enable_truncation(config["max_position_embeddings"])
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        # Server processes share the cores: spinning would take them from each other.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])

    def __call__(self, texts: Sequence[str]) -> list[dict[str, object]]:
        """`{"label": ..., "score": ...}` of each text."""
        encoded = self._tokenizer.encode_batch(list(texts))
        columns = {
            "input_ids": [e.ids for e in encoded],
            "attention_mask": [e.attention_mask for e in encoded],
            "token_type_ids": [e.type_ids for e in encoded],
        }
        feeds = {i.name: np.array(columns[i.name], dtype=np.int64) for i in self._session.get_inputs()}
        (logits,) = self._session.run(None, feeds)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True)
        return [{"label": self._labels[int(row.argmax())], "score": float(row.max())} for row in scores]
