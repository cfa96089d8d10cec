"""The clock on the wall jumps by hours, as when a machine wakes or its time is set: nothing waits or expires."""

from __future__ import annotations

import asyncio
from email.utils import parsedate_to_datetime
from glob import glob
from pathlib import Path
from time import monotonic, sleep, time

import httpx
import pytest
from e2e_http import Connection
from e2e_servers import Server, StartServer

pytestmark = pytest.mark.alone
LIBRARY = next(iter(glob("/usr/lib/*/faketime/libfaketime.so.1")), None)
TWO_HOURS = 7200


@pytest.fixture
def clock(tmp_path: Path, start_server: StartServer) -> tuple[Server, Path]:
    """A server whose clock on the wall is off by what a file says; the monotonic one is the machine's."""
    if LIBRARY is None:
        pytest.skip("there is no libfaketime here: requirements/debian.txt lists it")
    offset = tmp_path / "offset"
    offset.write_text("+0s\n")
    fake = {"LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1"}
    fake |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
    settings = {
        "NLU_MAX_WAIT_MS": "20000",
        "NLU_MODELS": "klue-ynat:latest",
        "NLU_TIMEOUT_MS": "20000",
        "NLU_HANG_MS": "5000",
    }
    return start_server(settings | fake), offset


async def ask(connection: Connection, number: int) -> tuple[int, float]:
    reply = await asyncio.wait_for(connection.ask("/klue-ynat", {"text": f"수출 {number}% 증가"}), 20)
    return reply.status, reply.seconds


@pytest.mark.parametrize("jump", [TWO_HOURS, -TWO_HOURS], ids=["forward", "back"])
def test_a_jump_of_the_clock_ends_no_request_and_no_worker(clock: tuple[Server, Path], jump: int) -> None:
    server, offset = clock

    async def run() -> list[tuple[int, float]]:
        kept, slow = [await Connection(server.url).open() for _ in range(2)]
        told = [await ask(kept, 0)]
        slow.writer.write(b"POST /klue-ynat HTTP/1.1\r\nhost: a\r\ncontent-length: 13\r\n\r\n")
        offset.write_text(f"{jump:+}s\n")
        for number in range(1, 25):
            told.append(await ask(kept, number))
            await asyncio.sleep(0.25)  # longer than a worker that is silent may live
        slow.writer.write(b'{"text": "a"}')
        told.append(((await asyncio.wait_for(slow.receive(), 20)).status, 0.0))
        offset.write_text("+0s\n")
        told += [await ask(kept, number) for number in range(25, 29)]
        for connection in (kept, slow):
            await connection.close()
        return told

    told = asyncio.run(run())
    assert {status for status, _ in told} == {200}
    assert max(seconds for _, seconds in told) < 20
    assert "hangs" not in server.log
    assert server.log.count("bundles ready after") == 1, "no worker was replaced"


def test_the_servers_clock_really_jumps(clock: tuple[Server, Path]) -> None:
    """Else the test above would prove nothing."""
    server, offset = clock
    offset.write_text(f"+{TWO_HOURS}s\n")

    def ahead() -> float:
        with httpx.Client(trust_env=False) as client:
            return parsedate_to_datetime(client.get(f"{server.url}/livez").headers["date"]).timestamp() - time()

    until = monotonic() + 15
    while ahead() < TWO_HOURS - 60:  # the date of answers is made anew every second
        assert monotonic() < until
        sleep(0.2)
