"""What a command line may look like, by asking the command's own parser; nothing is run."""

from __future__ import annotations

import argparse
import importlib
import re
import tomllib
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import click
import pytest
from docblocks import ROOT, Command, request

import demo
from clueserve.cli import COMMANDS
from service.config import PREFIX, Settings


class Found(Exception):
    """A command is about to read its arguments with this parser."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__("found")
        self.parser = parser


def check(command: Command) -> None:
    """AssertionError or the parser's own error if the command would not understand its arguments."""
    unknown = {name for name in command.env if name.startswith(PREFIX)} - settings()
    assert not unknown, f"no setting is called {', '.join(sorted(unknown))}"
    assert command.name in CHECKS, f"nobody knows how to try `{command.name}`"
    CHECKS[command.name](command.words[1:])


def settings() -> set[str]:
    return {PREFIX + name.upper() for name in Settings.model_fields}


def parser_of(module: str) -> argparse.ArgumentParser:
    """The parser that `python -m MODULE` reads its arguments with."""
    found = find_spec(module)
    assert found is not None, f"there is no module {module}"
    package = found.submodule_search_locations is not None
    return caught(importlib.import_module(f"{module}.__main__" if package else module).main)


def caught(run: Callable[[], object]) -> argparse.ArgumentParser:
    """The parser with which a command is about to read its arguments."""

    def stop(self: argparse.ArgumentParser, *_: object) -> None:
        raise Found(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_known_args", stop)
        with pytest.raises(Found) as about_to:
            run()
    return about_to.value.parser


def options(parser: argparse.ArgumentParser, words: Sequence[str]) -> set[str]:
    """The options of a parser, and of those of its commands that are among the words."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                if name in words:
                    found |= options(inner, words)
    return found


def _python(words: list[str]) -> None:
    assert words[0] in ("-m", "docs/refresh.py"), f"python {words[0]} is not tried"
    if words[:2] == ["-m", "exporters.demo"]:  # it takes names alone
        assert set(words[2:]) <= set(demo.names())
    elif words[:2] == ["-m", "pytest"]:
        assert all((ROOT / word).exists() for word in words[2:] if not word.startswith("-"))
    elif words[0] == "-m":
        parser_of(words[1]).parse_args(words[2:])


def _bentoml(words: list[str]) -> None:
    from bentoml_cli.cli import cli

    command: click.Command = cli
    context = command.make_context("bentoml", list(words))
    while isinstance(command, click.Group):
        name, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert name is not None
        assert inner is not None
        context = inner.make_context(name, rest, parent=context)
        command = inner


def _make(words: list[str]) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    variables = {word.partition("=")[0] for word in words if "=" in word}
    assert {word for word in words if "=" not in word} <= targets
    assert {name for name in variables if f"$({name})" not in text} == set()


def _pip(words: list[str]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert words[0] == "install"
    for word in words[1:]:
        if match := re.fullmatch(r"(?:\.|clueserve)\[([\w,]+)\]", word):
            assert set(match[1].split(",")) <= extras.keys()
        else:
            assert word in ("-e", ".", "--no-deps", "httpx"), f"pip {word} is not tried"


def _activate(words: list[str]) -> None:
    assert words == [".venv/bin/activate"]


def _curl(words: list[str]) -> None:
    request(Command({}, ["curl", *words]))


def _clueserve(words: list[str]) -> None:
    name, *rest = words
    assert name in COMMANDS, f"clueserve {name} does not exist"
    parser = caught(lambda: importlib.import_module(f"clueserve.cli.{name}").run([]))
    if name == "serve":  # what it does not know is BentoML's
        parser.parse_known_args(rest)
    elif name in ("export", "bench"):
        parser.parse_args(rest)
    else:
        parser.parse_intermixed_args(rest)


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "python": _python,
    "clueserve": _clueserve,
    "bentoml": _bentoml,
    "make": _make,
    "pip": _pip,
    "curl": _curl,
    ".": _activate,
}
