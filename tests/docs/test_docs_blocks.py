"""Every fenced block of README.md and docs/ is run or read by something, or says above it why not.

Requests and Python run against a server in tests/e2e/test_e2e_docs.py, the tutorial from top to bottom in
tests/e2e/test_e2e_tutorial.py. Here commands are read by their own parsers, and files by those who load them.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from command_lines import check, options, parser_of
from docblocks import ROOT, Block, Command, blocks, pages

import suites

ALL = [block for page in pages() for block in blocks(page)]
TRIED = [block for block in ALL if block.excuse is None]
COMMANDS = [(block.place, command) for block in TRIED if block.language == "sh" for command in block.commands]
# Commands in the text, such as `python -m benchmarks limit`: what they are called with, but no values.
INLINE = re.compile(r"`((?:python -m|make)\s[^`]+)`")


def of(language: str) -> list[pytest.param]:
    return [pytest.param(block, id=block.place) for block in TRIED if block.language == language]


def test_the_pages_have_blocks() -> None:
    assert {"README.md", "docs/index.md", "docs/tasks.md", "docs/tutorial.md"} <= {block.page for block in ALL}


def test_every_block_is_of_a_kind_that_is_tried() -> None:
    """`text` is what programs print, drawings and synopses."""
    strange = {block.place: block.language for block in TRIED if block.language not in KINDS}
    assert strange == {}, "say `<!-- not run: why -->` above them"


@pytest.mark.parametrize(("place", "command"), COMMANDS, ids=[f"{p}-{c.name}" for p, c in COMMANDS])
def test_a_command_is_understood(place: str, command: Command) -> None:
    check(command)


@pytest.mark.parametrize("block", of("json"))
def test_json_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", of("python"))
def test_python_is_python(block: Block) -> None:
    compile(block.text, block.place, "exec")


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_is_loaded_by_those_who_read_it(block: Block, tmp_path: Path) -> None:
    data = yaml.safe_load(block.text)
    if isinstance(data, list):
        layouts = yaml.safe_load((ROOT / "exporters/heads/crf.yaml").read_text(encoding="utf-8"))
        assert all(layout.keys() <= {"name", "rename", "ignore"} for layout in [*data, *layouts])
        assert all(re.compile(pattern) for layout in data for pattern in layout["rename"])
    elif "service" in data:
        from bentoml._internal.bento.build_config import BentoBuildConfig

        BentoBuildConfig.load(data)
    else:
        (path := tmp_path / "own.yaml").write_text(block.text, encoding="utf-8")
        suites.load(path)


KINDS = {"sh", "json", "python", "yaml", "text"}


def shown_in_text() -> list[tuple[str, str]]:
    """Commands within sentences, and synopses."""
    found = []
    for page in pages():
        text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        found += [(page, " ".join(command.split())) for command in INLINE.findall(text)]
    for block in TRIED:
        if block.language == "text" and block.text.startswith("python -m"):
            found.append((block.place, " ".join(block.text.split())))
    return found


@pytest.mark.parametrize(("place", "text"), shown_in_text(), ids=[f"{p}-{t}" for p, t in shown_in_text()])
def test_a_command_in_the_text_has_options_that_exist(place: str, text: str) -> None:
    words = shlex.split(re.sub(r"[\[\]]", " ", text))
    named = {word for word in words if word.startswith("--")}
    if words[0] == "make" or words[2] in ("exporters.demo", "pytest"):
        check(Command({}, words))
    else:
        assert named <= options(parser_of(words[2]), words)
