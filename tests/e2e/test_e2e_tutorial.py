"""The tutorial, typed in from top to bottom: a checkpoint becomes a bundle, a server and a bento that answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
from docblocks import ROOT, Block, Command, blocks, request
from e2e_servers import Server

from service.loading import difference

PAGE = "docs/tutorial.md"
PROGRAMS = {"python": [sys.executable], "bentoml": [sys.executable, "-m", "bentoml"]}
# What brings the environment that the test has already.
BEFORE = (["make", "install"], [".", ".venv/bin/activate"])


class Reader:
    """Who follows the tutorial, in a clone of the repository with a BentoML home of their own."""

    def __init__(self, folder: Path) -> None:
        self.clone, self.home = folder / "clone", folder / "home"
        self.home.mkdir()
        for name in ("service", "requirements"):  # what a bento is built from
            shutil.copytree(ROOT / name, self.clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        (self.clone / "tests").symlink_to(ROOT / "tests")
        self.server: Server | None = None
        self.answers: list[object] = []

    def follow(self, block: Block) -> None:
        if block.title:
            (self.clone / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            for command in block.commands:
                self.type(command, block)

    def type(self, command: Command, block: Block) -> None:
        if command.words[:2] == ["bentoml", "serve"]:
            self.serve(command)
        elif command.name == "curl":
            self.ask(command, block)
        elif command.words not in BEFORE:
            self.run(command)

    def run(self, command: Command) -> None:
        variables = {"PYTHONPATH": str(ROOT), "BENTOML_HOME": str(self.home), **command.env}
        done = subprocess.run(
            [*PROGRAMS[command.name], *command.words[1:]],
            cwd=self.clone,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"

    def serve(self, command: Command) -> None:
        """Whoever serves something else ends what they served before."""
        self.leave()
        what = command.words[2]
        if what != "service.app:NLU":  # a bento
            name, _, version = what.partition(":")
            folder = self.home / "bentos" / name
            what = str(folder / (folder / version).read_text().strip())
        self.server = Server(command.env, command.words[3:], models=self.home / "models", service=what)
        self.server.wait()
        if self.answers:
            assert self.post(self.last) == self.answers[-1]

    def ask(self, command: Command, block: Block) -> None:
        self.last = command
        self.answers.append(self.post(command))
        assert block.shows is not None
        assert difference(json.loads(block.shows), self.answers[-1], tolerance=1e-4) is None

    def post(self, command: Command) -> object:
        assert self.server is not None
        asked = request(command)
        url = self.server.url + asked.path
        return httpx.request(asked.method, url, content=asked.body, headers=asked.headers, trust_env=False).json()

    def leave(self) -> None:
        if self.server is not None:
            self.server.stop()


def test_the_tutorial_works_from_top_to_bottom(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    try:
        for block in blocks(PAGE):
            if block.excuse is None:
                reader.follow(block)
    finally:
        reader.leave()
    assert len(reader.answers) == 1
    assert (reader.home / "bentos").is_dir()
