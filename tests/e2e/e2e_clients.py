"""Other people's clients, unmodified, each in a process of its own: they bring loops, switches and warnings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

HUB = """
import json, sys
from huggingface_hub import InferenceClient
for name, method, args in json.load(sys.stdin):
    client = InferenceClient(model=f"{sys.argv[1]}/models/{name}")
    try:
        print(json.dumps({"answer": getattr(client, method)(**args)}))
    except Exception as error:
        response = error.response
        print(json.dumps({"status": response.status_code, "headers": dict(response.headers), "error": response.json()}))
"""

TRITON = """
import json, sys
import numpy as np
import tritonclient.http as triton
client = triton.InferenceServerClient(sys.argv[1].removeprefix("http://"))
TYPES = {"BYTES": np.object_, "INT64": np.int64, "FP32": np.float32, "BOOL": np.bool_}
def plain(array):
    return [one.decode() if isinstance(one, bytes) else one for one in array.ravel().tolist()]
for name, inputs, options in json.load(sys.stdin):
    binary = options.pop("binary", True)
    asked = []
    for field, values in inputs.items():
        kind = "BYTES" if isinstance(values[0], str) else "BOOL" if isinstance(values[0], bool) else "INT64"
        asked.append(triton.InferInput(field, [len(values)], kind))
        asked[-1].set_data_from_numpy(np.array(values, dtype=TYPES[kind]), binary_data=binary)
    names = options.pop("outputs", None) or ([] if binary else
        [o["name"] for o in client.get_model_metadata(name)["outputs"] if o["name"] != "output"])
    wanted = [triton.InferRequestedOutput(o, binary_data=binary) for o in names]
    try:
        got = client.infer(name, asked, outputs=wanted or None, **options)
    except triton.InferenceServerException as error:
        print(json.dumps({"status": error.status(), "error": error.message()}))
        continue
    told = got.get_response()
    outputs = {o["name"]: plain(got.as_numpy(o["name"])) for o in told["outputs"]}
    print(json.dumps({"outputs": outputs, "id": told.get("id"), "version": told["model_version"]}))
ready = [client.is_server_live(), client.is_server_ready(), *map(client.is_model_ready, ("klue-ner", "none"))]
print(json.dumps({"ready": ready, "metadata": client.get_server_metadata()}))
"""

BENTO = """
import json, sys
import bentoml
with bentoml.SyncHTTPClient(sys.argv[1]) as client:
    for name, item in json.load(sys.stdin):
        print(json.dumps(getattr(client, name)(item)))
"""


def run(script: str, url: str, calls: Sequence[Any], env: Mapping[str, str] | None = None) -> list[Any]:
    """What a client printed, a line a call."""
    inherited = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE" and not k.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, "-c", script, url],
        input=json.dumps(calls),
        env={**inherited, "BENTOML_DO_NOT_TRACK": "True", "HF_HUB_DISABLE_TELEMETRY": "1", **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]
