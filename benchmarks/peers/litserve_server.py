"""A classifier behind LitServe, batched as its documentation shows.

`python -m benchmarks.peers.litserve_server GRAPH CHECKPOINT --port P --workers N`
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import litserve

from benchmarks.peers.onnx_classifier import Classifier


class Api(litserve.LitAPI):  # type: ignore[misc]  # not typed here
    def __init__(self, graph: Path, checkpoint: Path, **settings: Any) -> None:
        super().__init__(**settings)
        self._graph, self._checkpoint = graph, checkpoint

    def setup(self, device: str) -> None:
        self._classify = Classifier(self._graph, self._checkpoint, threads=1)

    def decode_request(self, request: dict[str, str]) -> str:
        return request["text"]

    def predict(self, texts: list[str]) -> list[dict[str, object]]:
        return self._classify(texts)

    def encode_response(self, output: dict[str, object]) -> dict[str, object]:
        return output


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="litserve_server")
    parser.add_argument("graph", type=Path)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    args = parser.parse_args()
    api = Api(args.graph, args.checkpoint, max_batch_size=16, batch_timeout=0.005)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=args.workers)
    server.run(host="127.0.0.1", port=args.port, generate_client_file=False, log_level="warning")
