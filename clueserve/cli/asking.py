"""What the commands share that ask a server: its address, how long to wait, and what a failure is told as."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from clueserve.client import Client
from clueserve.errors import ClueserveError, ConnectionFailed, NotAllowed, UnknownModel

VARIABLE = "CLUESERVE_URL"
KEY = "CLUESERVE_KEY"
"""A key on the command line would be seen by whoever lists processes."""
LOCAL = "http://127.0.0.1:3000"
# Somebody sits and waits: a server that is not there is told soon.
RETRIES = 2


class Misuse(Exception):
    """A command that was called wrongly; the message says how to call it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        default=os.environ.get(VARIABLE) or LOCAL,
        help=f"the server; default: ${VARIABLE}, or else {LOCAL}. If it wants a key: ${KEY}",
    )
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds to wait at most; default: 60")
    parser.add_argument("--json", action="store_true", help="print the server's own JSON, on one line")


def asked(args: argparse.Namespace, prog: str, work: Callable[[Client], int | None]) -> int:
    """Let `work` ask and print; say in a line or two why it could not. The exit status: `work` may return its own."""
    try:
        client = Client(args.url, timeout=args.timeout, retries=RETRIES, key=os.environ.get(KEY))
    except ValueError as error:
        print(f"{prog}: --url: {error}", file=sys.stderr)
        return 2
    with client:
        try:
            return work(client) or 0
        except Misuse as error:
            print(f"{prog}: {error}", file=sys.stderr)
            return 2
        except ClueserveError as error:
            print(f"{prog}: {_told(error)}", file=sys.stderr)
            return 1


def _told(error: ClueserveError) -> str:
    if isinstance(error, ConnectionFailed):
        return f"{error.message}\nStart a server with `clueserve serve`, or say where one is: --url or {VARIABLE}."
    if isinstance(error, NotAllowed):
        return f"{error.message}\nSet {KEY} to a key of this server."
    if isinstance(error, UnknownModel):
        return f"{error.message}\n`clueserve models` lists them."
    return str(error)


def read(texts: list[str]) -> list[str]:
    """Texts of a command line; `-` is standard input, once. Misuse if it is asked for twice."""
    if texts.count("-") > 1:
        raise Misuse("standard input can be only one of the texts")
    return [sys.stdin.read().rstrip("\n") if text == "-" else text for text in texts]
