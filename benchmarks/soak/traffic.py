"""What the soak sends: mostly right requests over every endpoint, some wrong ones, and clients that leave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from pydantic_core import to_json

from benchmarks.client import Client, Reply
from benchmarks.trace import Call, text_fields

Manner = Literal["post", "get", "leave", "half"]
"""Ask and wait; read a page; leave before the answer; leave in the middle of the body."""

STAY = 0.02
"""Seconds after which a client leaves who will not wait."""
NOBODY = Reply(0)
"""What a client who left is answered."""
KINDS = {
    "single": 70,
    "batch": 6,
    "hugging face": 4,
    "open inference": 4,
    "parse": 4,
    "page": 3,
    "wrong": 5,
    "leaver": 3,
    "half": 1,
}
"""Parts of a hundred."""
PAGES = ("/metrics", "/v1/models", "/docs.json", "/readyz", "/")
WRONG: tuple[tuple[str, bytes, int], ...] = (
    ("/{}", b"{", 400),
    ("/{}", b'{"text": "\\ud800"}', 400),
    ("/{}", b'{"unknown": 1}', 422),
    ("/{}/batch", b'{"items": []}', 422),
    ("/models/{}", b'{"inputs": ["a"], "parameters": {"unknown": 1}}', 422),
    ("/v2/models/{}/infer", b'{"inputs": []}', 422),
    ("/parse", b'{"text": "a", "tasks": ["none"]}', 422),
    ("/none-{}", b"{}", 404),
)


@dataclass(frozen=True, slots=True)
class Shot:
    """One request, how it is made, and the status that is right for it (0: nobody waits for one)."""

    kind: str
    path: str
    body: bytes
    status: int = 200
    manner: Manner = "post"


def shots(calls: Sequence[Call], costs: Mapping[str, float], count: int, seed: int) -> list[Shot]:
    """`count` requests of all `KINDS` about the models of `calls`.

    `costs` are seconds a request by model. Each model gets the same share of the time, or a few that read documents
    would leave none for the others.
    """
    rng = random.Random(seed)
    about = rng.choices(calls, [1 / costs[call.model] for call in calls], k=count)
    texts = [call for call in calls if text_fields(call.item) == ["text"]] or calls
    kinds = rng.choices(list(KINDS), list(KINDS.values()), k=count)
    return [_shot(kind, call, rng.choice(texts), rng) for kind, call in zip(kinds, about, strict=True)]


def _shot(kind: str, call: Call, plain: Call, rng: random.Random) -> Shot:
    """A request of one kind about the model of `call`; `plain` is one to a model that needs nothing but a text."""
    path, body, text = f"/{call.model}", to_json(call.item), plain.item.get("text")
    tensor = {"name": "text", "datatype": "BYTES", "shape": [2], "data": [text, text]}
    wrong = rng.choice(WRONG)
    made = {
        "single": Shot(kind, path, body),
        "batch": Shot(kind, f"{path}/batch", to_json({"items": [call.item] * rng.randint(2, 8)})),
        "hugging face": Shot(kind, f"/models/{call.model}", to_json({"inputs": [call.item]})),
        "open inference": Shot(kind, f"/v2/models/{plain.model}/infer", to_json({"inputs": [tensor]})),
        "parse": Shot(kind, "/parse", to_json({"text": [text, text], "tasks": [plain.model]})),
        "page": Shot(kind, rng.choice(PAGES), b"", manner="get"),
        "wrong": Shot(kind, wrong[0].format(call.model), *wrong[1:]),
        "leaver": Shot(kind, path, body, 0, "leave"),
        "half": Shot(kind, path, body, 0, "half"),
    }
    return made[kind]


async def fire(client: Client, shot: Shot) -> Reply:
    """Make one request; OSError if there is no answer where there should be one."""
    if shot.manner == "post":
        return await client.post(shot.path, shot.body)
    reader, writer = await asyncio.open_connection(client.host, client.port)
    try:
        if shot.manner == "get":
            writer.write(_head("GET", shot, client.host))
            return await _page(reader)
        part = len(shot.body) // (2 if shot.manner == "half" else 1)
        writer.write(_head("POST", shot, client.host) + shot.body[:part])
        await asyncio.sleep(STAY)
        writer.transport.abort()
        return NOBODY
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def _head(method: str, shot: Shot, host: str) -> bytes:
    fields = f"host: {host}\r\ncontent-type: application/json\r\ncontent-length: {len(shot.body)}"
    return f"{method} {shot.path} HTTP/1.1\r\n{fields}\r\n\r\n".encode()


async def _page(reader: asyncio.StreamReader) -> Reply:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        return Reply(int(head[9:12]), body=await reader.readexactly(int(length)))
    except asyncio.IncompleteReadError:
        raise ConnectionError("the server closed the connection") from None
