"""`python -m benchmarks offline`: one large job for a running server's batch endpoint; items a second and CPU an item.

The items go in requests as large as the server takes, several of them under way at once. An item that is refused is
part of the finding: nothing is asked twice.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

import uvloop
from pydantic_core import from_json, to_json
from tqdm import tqdm

from benchmarks import results, trace, workload
from benchmarks.client import Client, Reply
from benchmarks.load_table import offline_table
from benchmarks.predictors import PredictorError
from benchmarks.processes import Processes

HELP = "throughput of a large job over the batch endpoint"
MOST_ITEMS, MOST_BYTES = 1000, 900_000
"""Of one request, where the server takes as much; it is asked for less until it does."""
TOO_LARGE = (413, 422)


async def job(
    name: str,
    client: Client,
    items: Sequence[Mapping[str, Any]],
    in_flight: int,
    server: Processes | None,
    *,
    bar: bool = False,
) -> dict[str, Any]:
    """Send all items to `/name/batch`. PredictorError if the server takes no batch of them or loses a request."""
    chunks = split(items, await _limit(name, client, items))
    codes: Counter[str] = Counter()
    waiting = iter(chunks)
    if server is not None:
        server.tree()
    before, start = server.cpu() if server else 0.0, monotonic()
    hidden = None if bar else True
    with tqdm(total=len(items), desc=name, unit=" items", file=sys.stderr, disable=hidden, leave=False) as shown:

        async def sender() -> None:
            for chunk in waiting:
                codes.update(await _send(name, client, chunk))
                shown.update(len(chunk))

        await asyncio.gather(*(sender() for _ in range(in_flight)))
    seconds = monotonic() - start
    answered = codes.pop("ok", 0)
    cpu = server.cpu() - before if server else None
    return {
        "name": name,
        "items": len(items),
        "answered": answered,
        "errors": dict(codes),
        "seconds": round(seconds, 3),
        "items_per_s": round(answered / seconds, 2),
        "requests": len(chunks),
        "in_flight": in_flight,
        "cpu_ms_per_item": None if cpu is None else round(cpu * 1000 / max(1, answered), 3),
        "rss_mb": round(server.rss_mb(), 1) if server else None,
    }


def split(items: Sequence[Mapping[str, Any]], most: int) -> list[list[Mapping[str, Any]]]:
    """Parts of at most `most` items and about `MOST_BYTES`, in order."""
    chunks: list[list[Mapping[str, Any]]] = []
    size = MOST_BYTES
    for item in items:
        length = len(to_json(item)) + 1
        if size + length > MOST_BYTES or len(chunks[-1]) == most:
            chunks.append([])
            size = 0
        chunks[-1].append(item)
        size += length
    return chunks


async def _limit(name: str, client: Client, items: Sequence[Mapping[str, Any]]) -> int:
    """The most items of one request that the server takes; asking warms it up, too."""
    most = MOST_ITEMS
    while True:
        reply = await client.post(f"/{name}/batch", to_json({"items": split(items, most)[0]}))
        if reply.status not in TOO_LARGE or most == 1:
            _check(name, reply)
            return most
        most //= 2


async def _send(name: str, client: Client, items: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """How the items of one request ended: "ok" or the error's code."""
    reply = await client.post(f"/{name}/batch", to_json({"items": items}))
    _check(name, reply)
    return Counter(
        result["error"]["code"] if "error" in result else "ok" for result in from_json(reply.body)["results"]
    )


def _check(name: str, reply: Reply) -> None:
    if reply.status != 200:
        raise PredictorError(f"/{name}/batch answered {reply.status}: {reply.body[:500].decode(errors='replace')}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    workload.add_arguments(parser)
    parser.add_argument("--items", type=int, default=2000, metavar="N", help="of each model's job; default: 2000")
    parser.add_argument("--in-flight", type=int, default=4, metavar="K", help="requests under way at once; default: 4")


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    if args.items < 1 or args.in_flight < 1:
        return "--items and --in-flight are at least 1"
    return workload.problem(args)


def run(args: argparse.Namespace) -> int:
    """One model's job after another; 0 if every item was answered."""
    try:
        work = workload.open_workload(args)
        extra = {} if args.timeout_ms is None else {"timeout_ms": args.timeout_ms}

        async def jobs() -> list[dict[str, Any]]:
            found = []
            async with Client(work.url) as client:
                for target in work.targets:
                    made = trace.calls([target], args.trace, args.items, args.seed, args.data_dir)
                    items = [call.item | extra for call in made]
                    found.append(await job(target.name, client, items, args.in_flight, work.server, bar=True))
            return found

        done = uvloop.run(jobs())
    except (PredictorError, ValueError, OSError) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    print(offline_table(done))
    if args.save:
        found = {"jobs": done}
        results.save(args.save, results.result("offline", vars(args), args.seed, found, workload.PACKAGES))
    return 0 if all(one["answered"] == one["items"] for one in done) else 1
