"""A classifier on Ray Serve: a replica a core, `@serve.batch` as its documentation shows.

`python -m benchmarks.peers.ray_serve GRAPH CHECKPOINT --port P --replicas N --temp DIR`
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

from benchmarks.peers.onnx_classifier import Classifier


class Classify:
    def __init__(self, graph: str, checkpoint: str) -> None:
        self._classify = Classifier(Path(graph), Path(checkpoint), threads=1)

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.005)  # type: ignore[untyped-decorator]
    async def batch(self, texts: list[str]) -> list[dict[str, object]]:
        return self._classify(texts)

    async def __call__(self, request: Request) -> JSONResponse:
        # What is no response itself would be sent in chunks.
        return JSONResponse(await self.batch((await request.json())["text"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="ray_serve")
    parser.add_argument("graph")
    parser.add_argument("checkpoint")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--replicas", type=int, required=True)
    parser.add_argument("--temp", required=True)
    args = parser.parse_args()
    ray.init(include_dashboard=False, _temp_dir=args.temp, log_to_driver=False, object_store_memory=100 << 20)
    serve.start(http_options={"host": "127.0.0.1", "port": args.port})
    deployment = serve.deployment(
        num_replicas=args.replicas, max_ongoing_requests=64, ray_actor_options={"num_cpus": 1}
    )
    serve.run(deployment(Classify).bind(args.graph, args.checkpoint), route_prefix="/classify")
    signal.pause()
