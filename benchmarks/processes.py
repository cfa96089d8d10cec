"""What a server's processes use: CPU time and memory, read from outside."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import suppress

import psutil


class Processes:
    """Process trees by their roots. What has ended meanwhile keeps the CPU time that it was last seen with."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = [psutil.Process(pid) for pid in roots]
        self._cpu: dict[int, float] = {}
        self.tree()

    def tree(self) -> list[psutil.Process]:
        """Look again which processes there are; never this one. It walks all of the machine's: milliseconds."""
        found = {process.pid: process for process in self._roots}
        for root in self._roots:
            with suppress(psutil.Error):
                found |= {child.pid: child for child in root.children(recursive=True)}
        found.pop(os.getpid(), None)
        self._tree = list(found.values())
        return self._tree

    def cpu(self) -> float:
        """CPU seconds used so far by the processes that were there when last looked."""
        for process in self._tree:
            with suppress(psutil.Error):
                times = process.cpu_times()
                self._cpu[process.pid] = times.user + times.system
        return sum(self._cpu.values())

    def rss_mb(self) -> float:
        """Their resident memory; pages that several share count in each."""
        total = 0
        for process in self._tree:
            with suppress(psutil.Error):
                total += process.memory_info().rss
        return total / 2**20


NAMES = ("python", "bentoml", "clueserve")
"""What processes of a server are called. What listens in the place of one elsewhere, such as kubectl, has another."""
EVERYWHERE = {"0.0.0.0", "::"}


def behind(host: str, port: int) -> Processes | None:
    """The processes of a server that listen there, with their children.

    None if they run on another machine, in a container or as another user.
    """
    own = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    try:
        known = {str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        return None
    listening = (
        [process.pid for process in psutil.process_iter() if _listens(process, known, port)] if known & own else []
    )
    return Processes(listening) if listening else None


def _listens(process: psutil.Process, addresses: set[str], port: int) -> bool:
    """Asked of each process: workers share one socket, which the list of all sockets gives to one of them."""
    if process.pid == os.getpid():
        return False
    try:
        if not process.name().startswith(NAMES):
            return False
        sockets = process.net_connections("tcp")
    except psutil.Error:
        return False
    places = {(address, port) for address in addresses | EVERYWHERE}
    return any(s.status == psutil.CONN_LISTEN and s.laddr and tuple(s.laddr) in places for s in sockets)
