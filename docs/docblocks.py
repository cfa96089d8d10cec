"""Fenced blocks of README.md and docs/, and the commands in them: what `refresh.py` rewrites and the tests run."""

from __future__ import annotations

import argparse
import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOST = "localhost:3000"
FENCE = re.compile(r"[ \t]*```(\S*)[ \t]*(.*)")
TITLE = re.compile(r'title="([^"]+)"')
EXCUSE = re.compile(r"\s*<!-- not run: (.+?) -->")
VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Command:
    """One command line: variables before it, and its words."""

    env: dict[str, str]
    words: list[str]

    @property
    def name(self) -> str:
        return self.words[0]


@dataclass(frozen=True)
class Request:
    """What a curl command sends to the server."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Block:
    """A fenced block. `line` is that of its first line of text, from 1; `excuse` says why it is not run.

    `shows` is the text of a json or text block directly below: what the block answers or prints.
    """

    page: str
    line: int
    language: str
    title: str | None
    text: str
    excuse: str | None
    shows: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[Command]:
        """The commands of a sh block; a quoted word may hold line breaks."""
        found, pending = [], ""
        for line in self.text.splitlines():
            pending += line + "\n"
            if pending.endswith("\\\n"):
                pending = pending[:-2] + " "
                continue
            try:
                words = shlex.split(pending, comments=True)
            except ValueError:  # the quotation goes on in the next line
                continue
            pending = ""
            if words:
                found.append(_command(words))
        if pending:
            raise ValueError(f"{self.place}: a quotation is not closed")
        return found


def _command(words: list[str]) -> Command:
    env = {}
    while words and (match := VARIABLE.fullmatch(words[0])):
        env[match[1]] = match[2]
        words = words[1:]
    return Command(env, words)


def pages() -> list[str]:
    """README.md and every page of docs/, relative to the repository."""
    return ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = list(_read(page, (ROOT / page).read_text(encoding="utf-8").splitlines()))
    shown: list[Block] = []
    for i, block in enumerate(found):
        below = found[i + 1] if i + 1 < len(found) else None
        # One line closes this block, the next opens the other.
        adjacent = below is not None and below.line == block.line + block.text.count("\n") + 2
        answers = below is not None and below.language in ("json", "text") and below.title is None
        shown.append(replace(block, shows=below.text) if below is not None and adjacent and answers else block)
    return shown


def _read(page: str, lines: Sequence[str]) -> Iterator[Block]:
    opened: tuple[int, str, str | None, str | None] | None = None
    excuse: str | None = None
    for number, line in enumerate(lines, 1):
        fence = FENCE.fullmatch(line)
        if opened is None and fence:
            title = TITLE.search(fence[2])
            opened = (number + 1, fence[1], title[1] if title else None, excuse)
        elif opened is not None and line.strip() == "```":
            first, language, name, why = opened
            text = textwrap.dedent("\n".join(lines[first - 1 : number - 1])) + "\n"
            yield Block(page, first, language, name, text, why)
            opened, excuse = None, None
        elif opened is None and line.strip():
            match = EXCUSE.fullmatch(line)
            excuse = match[1] if match else None
    if opened is not None:
        raise ValueError(f"{page}:{opened[0]}: a block is not closed")


def request(command: Command) -> Request:
    """What curl would send; ValueError for an option that is not read here, or another host."""
    parser = argparse.ArgumentParser(prog="curl", exit_on_error=False)
    parser.add_argument("-s", action="store_true")
    parser.add_argument("-X", default=None)
    parser.add_argument("-H", action="append", default=[])
    parser.add_argument("-d", default=None)
    parser.add_argument("url")
    args, unknown = parser.parse_known_args(command.words[1:])
    host, slash, path = args.url.removeprefix("http://").partition("/")
    if unknown or host != HOST:
        raise ValueError(f"curl {' '.join(unknown)} {args.url} cannot be tried")
    headers = dict(header.split(": ", 1) for header in args.H)
    body = "" if args.d is None else args.d
    return Request(args.X or ("GET" if args.d is None else "POST"), slash + path, headers, body.encode())
