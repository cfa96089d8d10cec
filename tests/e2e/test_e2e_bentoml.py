"""BentoML's own client against the service.

It runs in a process of its own: it leaves temporary folders and deprecated code to the garbage collector.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

SCRIPT = """
import json, sys
import bentoml
with bentoml.SyncHTTPClient(sys.argv[1]) as client:
    try:
        answer = getattr(client, sys.argv[2])(json.loads(sys.argv[3]))
    except bentoml.exceptions.BentoMLException as error:
        answer = {"raised": str(error)}
print(json.dumps(answer))
"""


def call(url: str, endpoint: str, item: Any) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, url, endpoint, json.dumps(item)],
        env={**os.environ, "BENTOML_DO_NOT_TRACK": "True"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_bentomls_client_calls_an_endpoint_by_its_name(server: str) -> None:
    answer = call(server, "klue_ner", {"text": "이순신은 부산에 갔다."})
    assert [entity["text"] for entity in answer["entities"]] == ["이순신", "부산"]


def test_bentomls_client_calls_a_batch_and_passes_options(server: str) -> None:
    item = {"text": "코스피 상승 마감", "top_k": 2}
    batch = call(server, "klue_ynat_batch", {"items": [item, {"text": ""}]})
    assert len(batch["results"][0]["scores"]) == 2
    assert batch["results"][1]["error"]["field"] == "items.1.text"


def test_bentomls_client_hears_what_is_wrong_with_an_item(server: str) -> None:
    assert "the text is empty" in call(server, "klue_ner", {"text": " "})["raised"]
