"""`python -m benchmarks COMMAND`: what is measured here."""

from __future__ import annotations

import argparse
import sys
from typing import Protocol

from benchmarks import accuracy, capacity, frontier, lengths, limit, load, offline, scaling, submission
from benchmarks.pages import command as report
from benchmarks.peers import command as peers
from benchmarks.proof import command as proof
from benchmarks.soak import command as soak


class Command(Protocol):
    """A module of a command."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def problem(self, args: argparse.Namespace) -> str | None:
        """What makes no sense about the arguments together."""
        ...

    def run(self, args: argparse.Namespace) -> int: ...


COMMANDS: dict[str, Command] = {
    "accuracy": accuracy,
    "submission": submission,
    "load": load,
    "capacity": capacity,
    "offline": offline,
    "lengths": lengths,
    "limit": limit,
    "peers": peers,
    "proof": proof,
    "soak": soak,
    "frontier": frontier,
    "scaling": scaling,
    "report": report,
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure bundles and servers.")
    chosen = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = {}
    for name, command in COMMANDS.items():
        parsers[name] = chosen.add_parser(name, help=command.HELP, description=command.__doc__)
        command.add_arguments(parsers[name])
    args = parser.parse_args(argv)
    command = COMMANDS[args.command]
    if problem := command.problem(args):
        parsers[args.command].error(problem)
    return command.run(args)


if __name__ == "__main__":
    sys.exit(main())
