"""What a connection writes reaches its client in as few pieces as it can, and all of it."""

from __future__ import annotations

import asyncio

from service.edge.transport import Together


class Kernel(asyncio.Transport):
    """A transport that notes what it is given."""

    def __init__(self, held: int = 0) -> None:
        super().__init__()
        self.held = held
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.held


def test_a_head_and_its_body_leave_together() -> None:
    async def main() -> list[bytes]:
        kernel = Kernel(1000)
        transport = Together(kernel, asyncio.get_running_loop(), 30.0)
        transport.write(b"head ")
        transport.write(b"body")
        assert (kernel.sent, transport.get_write_buffer_size()) == ([], 1009)
        await asyncio.sleep(0)
        assert transport.get_write_buffer_size() == 1000
        transport.write(b"next")
        await asyncio.sleep(0)
        return kernel.sent

    assert asyncio.run(main()) == [b"head body", b"next"]


def test_a_last_answer_leaves_before_its_connection_is_closed() -> None:
    async def main() -> Kernel:
        kernel = Kernel()
        transport = Together(kernel, asyncio.get_running_loop(), 30.0)
        transport.write(b"bye")
        transport.close()
        assert kernel.sent == [b"bye"]
        await asyncio.sleep(0)
        return kernel

    kernel = asyncio.run(main())
    assert (kernel.sent, kernel.closed) == ([b"bye"], True)


def test_nothing_is_written_to_a_client_that_is_gone() -> None:
    async def main() -> list[bytes]:
        kernel = Kernel()
        transport = Together(kernel, asyncio.get_running_loop(), 30.0)
        transport.write(b"too late")
        transport.abort()
        await asyncio.sleep(0)
        return kernel.sent

    assert asyncio.run(main()) == []
