"""A classifier on Triton Inference Server through PyTriton: an instance a core and Triton's dynamic batching.

`python -m benchmarks.peers.triton_server GRAPH CHECKPOINT --port P --instances N`
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

from benchmarks.peers.onnx_classifier import Classifier


def instance(graph: Path, checkpoint: Path) -> Any:
    """One copy of the model: texts in, labels and scores out."""
    classify = Classifier(graph, checkpoint, threads=1)

    def infer(text: Any) -> dict[str, Any]:
        found = classify([row[0].decode() for row in text])
        labels = np.array([[str(f["label"]).encode()] for f in found], dtype=np.bytes_)
        return {"label": labels, "score": np.array([[f["score"]] for f in found], dtype=np.float32)}

    return batch(infer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="triton_server")
    parser.add_argument("graph", type=Path)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--instances", type=int, required=True)
    args = parser.parse_args()
    config = TritonConfig(
        http_address="127.0.0.1", http_port=args.port, allow_grpc=False, allow_metrics=False, log_verbose=0
    )
    with Triton(config=config) as triton:
        triton.bind(
            model_name="classify",
            infer_func=[instance(args.graph, args.checkpoint) for _ in range(args.instances)],
            inputs=[Tensor(name="text", dtype=bytes, shape=(1,))],
            outputs=[Tensor(name="label", dtype=bytes, shape=(1,)), Tensor(name="score", dtype=np.float32, shape=(1,))],
            config=ModelConfig(max_batch_size=16, batcher=DynamicBatcher(max_queue_delay_microseconds=5000)),
        )
        triton.serve()
