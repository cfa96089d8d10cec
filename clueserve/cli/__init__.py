"""`clueserve COMMAND`: one word for asking, serving, exporting and measuring. A command is imported when it is run."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

EXAMPLE = 'clueserve ask klue-ner "이순신은 여수에 갔다."'


@dataclass(frozen=True)
class Command:
    """`module` has `run(arguments) -> exit status`; `extra` is what pip installs for it."""

    module: str
    help: str
    extra: str


COMMANDS = {
    "ask": Command("ask", f"ask one model: {EXAMPLE}", "client"),
    "parse": Command("parse", "ask several models about the same texts", "client"),
    "models": Command("models", "list what a server serves", "client"),
    "serve": Command("serve", "start a server: clueserve serve klue-ner my-folder/my-bundle", "cpu"),
    "export": Command("export", "make a verified bundle of a checkpoint", "export"),
    "bench": Command("bench", "measure bundles and servers", "bench"),
    "keys": Command("keys", "make, list and remove the keys of a server's callers", "cpu"),
}
OURS = {"clueserve", "service", "exporters", "benchmarks", "suites", "demo"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status: 0, 1 if it failed, 2 if it was called wrongly."""
    name, *rest = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help", "help"):
        print(_help())
        return 0
    if name in ("-V", "--version"):
        print(f"clueserve {version('clueserve')}")
        return 0
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(COMMANDS)}"
        print(f"clueserve: there is no command {name!r}; {hint}", file=sys.stderr)
        return 2
    try:
        return _run(name, rest)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `| head` has seen enough; nor shall Python try to flush at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(name: str, rest: list[str]) -> int:
    command = COMMANDS[name]
    try:
        status: int = importlib.import_module(f"{__name__}.{command.module}").run(rest)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in OURS:
            raise
        print(
            f"clueserve {name} needs {missing}, which is not installed; "
            f"in a clone of the repository: pip install -e '.[{command.extra}]'",
            file=sys.stderr,
        )
        return 1
    return status


def _help() -> str:
    commands = "\n".join(f"  {name:8}{command.help}" for name, command in COMMANDS.items())
    return (
        "usage: clueserve COMMAND ...\n\nAsk a server of language models, or run one.\n\n"
        f"{commands}\n\nclueserve COMMAND --help says more; clueserve --version says which this is."
    )
