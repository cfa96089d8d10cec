"""Closing a listening socket without losing a connection that its client already believes to have."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import socket
import struct
import sys

log = logging.getLogger("bentoml.clueserve")

# linux/filter.h, asm/socket.h: "drop what has SYN and not ACK among its TCP flags, let the rest pass".
SO_ATTACH_FILTER = 26
NO_NEW_CONNECTIONS = (
    (0x30, 0, 0, 13),  # load the byte of flags
    (0x54, 0, 0, 0x12),  # of them SYN and ACK
    (0x15, 0, 1, 0x02),  # SYN alone?
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # pass
)
SETTLE = 0.1
"""Seconds for handshakes that have begun."""


async def taken_in(door: socket.socket) -> list[socket.socket]:
    """Let no new handshake begin at a listening socket, and accept those that have. Close it at once afterwards.

    Who knocks meanwhile is refused when the client's kernel tries again. Where there are no such filters, who knocks
    between the last accept and the close is lost, a matter of microseconds.
    """
    if sys.platform == "linux":
        program = b"".join(struct.pack("HBBI", *step) for step in NO_NEW_CONNECTIONS)
        steps = ctypes.create_string_buffer(program, len(program))
        try:
            door.setsockopt(
                socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(NO_NEW_CONNECTIONS), ctypes.addressof(steps))
            )
        except OSError as error:
            log.warning("connections may be lost in the moment when the last one is accepted: %s", error)
        else:
            await asyncio.sleep(SETTLE)
    waiting = []
    while True:
        try:
            waiting.append(door.accept()[0])
        except BlockingIOError:
            return waiting
        except ConnectionError:  # that one left; others may wait behind
            continue
        except OSError as error:  # no descriptor is free
            log.warning("whoever still waits at the door is not accepted: %s", error)
            return waiting
