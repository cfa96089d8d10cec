"""The same bundles behind BentoML's own adaptive batching: what this project would be without a queue of its own.

`NLU_MODELS=klue-ynat:latest bentoml serve benchmarks.peers.stock_bentoml:Stock`

One `@bentoml.api(batchable=True)` method a bundle, at the same route as ours. A batched method takes exactly one
argument, a list, and BentoML 1.4.40 reads it from a JSON object that has the argument's name; every caller sends a
list of one and gets a list of one:

    POST /klue-ynat  {"items": [{"text": "..."}]}  ->  [{"label": ...}]

Everything else is as shipped: access log, metrics, tracing, one worker with one batch at a time, no limit on what
waits. The tasks and the sessions (one thread a run, length-sorted) are ours, so that the two servers differ in the
queue and the HTTP layer only; it takes a worker a core to use them all.
An item of the wrong shape is refused alone, by BentoML, before it is batched. An item that the model cannot read is
found inside the batch, where a method has one way to say so, an exception; what BentoML makes of it is measured.
(Answering 200 with an error object in the item's place would spare its neighbours, and every caller's status check.)

Two settings that BentoML documents can be given, to compare with an operator who tuned it:
PEER_MAX_LATENCY_MS -> `max_latency_ms`, PEER_WORKERS -> `workers`.
"""

from __future__ import annotations

import os
from typing import Any

import bentoml

from service.bundle import Bundle
from service.config import Settings, find_bundles, load_settings
from service.loading import open_bundle
from service.tasks import family
from service.types import Answer, Timing


def build_service(settings: Settings, bundles: dict[str, Bundle]) -> Any:
    """The service class for these bundles."""
    latency = os.environ.get("PEER_MAX_LATENCY_MS")
    workers = os.environ.get("PEER_WORKERS")

    def load(self: Any) -> None:
        self.opened = {name: open_bundle(bundle, settings.device) for name, bundle in bundles.items()}

    methods = {"".join(c if c.isalnum() else "_" for c in name): name for name in bundles}
    apis = {
        method: bentoml.api(route=f"/{name}", batchable=True, **({"max_latency_ms": int(latency)} if latency else {}))(
            batched(method, name, family(bundles[name]).Input)
        )
        for method, name in methods.items()
    }
    cls = type("Stock", (), {"__init__": load, **apis})
    return bentoml.service(**({"workers": int(workers)} if workers else {}))(cls)


def batched(method: str, name: str, model: type[Any]) -> Any:
    """The method that answers a batch of one bundle's items."""

    def predict(self: Any, items: list[Any]) -> list[Answer]:
        task, session = self.opened[name]
        results = task.predict(items, session.run, [Timing() for _ in items])
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results  # type: ignore[no-any-return]

    predict.__name__ = method
    # BentoML reads the item's model from here; each bundle has its own.
    predict.__annotations__ = {"items": list[model], "return": list[Answer]}  # type: ignore[valid-type]
    return predict


_settings = load_settings()
Stock = build_service(_settings, find_bundles(_settings))
