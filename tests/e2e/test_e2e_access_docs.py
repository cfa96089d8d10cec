"""docs/security.md, typed in from top to bottom: keys are made, asked with and rotated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from time import sleep

import httpx
from docblocks import ROOT, Block, Command, blocks, request
from e2e_servers import Server

from service.loading import difference

PAGE = "docs/security.md"


class Reader:
    """Who follows the page, with a folder of their own; `keys` are those that were printed, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys: list[str] = []
        self.server: Server | None = None
        self.asked = 0

    def type(self, command: Command, block: Block) -> None:
        if command.name == "python":
            printed = self.run(command)
            if printed.startswith("clue_"):
                self.keys.append(printed)
        elif command.name == "bentoml":
            env = command.env | {"NLU_KEYS_FILE": str(self.folder / command.env["NLU_KEYS_FILE"])}
            self.server = Server(env)
            self.server.wait()
        else:
            self.ask(command, block)

    def run(self, command: Command) -> str:
        done = subprocess.run(
            [sys.executable, *command.words[1:]],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ask(self, command: Command, block: Block) -> None:
        assert block.shows is not None
        shown = json.loads(block.shows)
        answer = self.send(command, self.keys[0])
        assert difference(shown, answer.json(), tolerance=1e-4) is None
        assert answer.is_client_error == ("error" in shown)
        self.asked += 1
        self.last = command

    def send(self, command: Command, key: str) -> httpx.Response:
        assert self.server is not None
        asked = request(command)
        headers = {name: value.replace("$KEY", key) for name, value in asked.headers.items()}
        url = self.server.url + asked.path
        return httpx.request(asked.method, url, content=asked.body, headers=headers, trust_env=False)


def test_the_page_on_keys_works_from_top_to_bottom(tmp_path: Path, demo_store: Path) -> None:
    reader = Reader(tmp_path)
    try:
        for block in blocks(PAGE):
            if block.language == "sh":
                for command in block.commands:
                    reader.type(command, block)
        first, scraper, second = reader.keys
        assert (reader.asked, reader.last.words[2]) == (3, "localhost:3000/klue-nli")
        sleep(1.2)
        # Rotated: the old key is unknown now, the new one may as little as the old.
        assert [reader.send(reader.last, key).status_code for key in (first, scraper, second)] == [401, 403, 403]
    finally:
        if reader.server is not None:
            reader.server.stop()
