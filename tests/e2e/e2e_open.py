"""An open load: requests leave by a schedule, whatever becomes of the earlier ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from e2e_http import Connection, Reply, Request


@dataclass
class Outcomes:
    """What became of the requests. `lost`: sent on a connection that was accepted, and never answered."""

    replies: list[tuple[float, Reply]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    """When a connection could not be had."""

    def statuses(self) -> set[int]:
        return {reply.status for _, reply in self.replies}


async def open_loop(
    url: str,
    request: Callable[[int], Request],
    rate: float,
    seconds: float,
    *,
    fresh: int = 2,
    ended: Callable[[], bool] = lambda: False,
) -> Outcomes:
    """`rate` requests a second, for `seconds` or until it has `ended`.

    Every `fresh`-th has a connection of its own, the others share what is free.
    """
    outcomes, free, start = Outcomes(), [], perf_counter()

    async def one(number: int) -> None:
        own = number % fresh == 0
        connection = None
        while not own and free and connection is None:
            connection = free.pop()
            if connection.reader.at_eof():  # closed by the server while idle: as good as never had
                await connection.close()
                connection = None
        try:
            connection = connection or await Connection(url).open()
        except OSError:
            outcomes.refused.append(perf_counter() - start)
            return
        try:
            reply = await connection.ask(*request(number))
        except (OSError, EOFError) as error:
            outcomes.lost.append(f"{number} at {perf_counter() - start:.2f} s: {error!r}")
            await connection.close()
            return
        outcomes.replies.append((perf_counter() - start, reply))
        if own or reply.headers.get("connection") == "close":
            await connection.close()
        else:
            free.append(connection)

    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(start + number / rate - perf_counter())
            if ended():
                break
            group.create_task(one(number))
    for connection in free:
        await connection.close()
    return outcomes
