"""A server with keys, and the file that they are in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from time import sleep
from typing import Any

import httpx
from e2e_servers import Server

from service.keys import main

TEXT = "이순신은 서울에서 태어났다."
NAMES = ("klue-ner", "klue-nli", "klue-ynat")
ORIGIN = "https://shop.example"


class Keeper:
    """A file of keys, and the command that changes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts: dict[str, str] = {}

    def new(self, name: str, *options: str) -> str:
        with redirect_stdout(StringIO()) as out:
            assert main(["new", name, *options, "--file", str(self.path)]) == 0
        self.texts[name] = out.getvalue().strip()
        return self.texts[name]

    def remove(self, name: str) -> None:
        assert main(["remove", name, "--file", str(self.path)]) == 0


class Guarded(Server):
    """Two workers behind a file with a key of each kind."""

    def __init__(self, folder: Path) -> None:
        self.keeper = Keeper(folder / "keys.json")
        self.keeper.new("all")
        self.keeper.new("ner", "--bundles", "klue-ner")
        self.keeper.new("scraper", "--role", "metrics")
        self.keeper.new("ops", "--role", "admin")
        self.keeper.new("ops-ner", "--role", "admin", "--bundles", "klue-ner")
        self.keeper.new("slow", "--rate", "1", "--burst", "4")
        super().__init__(
            {
                "NLU_MODELS": ",".join(f"{name}:latest" for name in NAMES),
                "NLU_KEYS_FILE": str(self.keeper.path),
                "NLU_WORKERS": "2",
                "NLU_THREADS": "1",
                "NLU_CORS_ORIGINS": ORIGIN,
                "NLU_LOG_REQUESTS": "all",
            }
        )

    def key(self, name: str) -> str:
        """The text of a key by its id; what is no id is a text already."""
        return self.keeper.texts.get(name, name)

    def ask(self, method: str, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        """On a connection of its own, so that every worker gets its part."""
        headers = {"authorization": f"Bearer {self.key(key)}"} if key else {}
        headers |= options.pop("headers", {})
        return httpx.request(method, self.url + path, headers=headers, timeout=60, trust_env=False, **options)


@contextmanager
def serving(folder: Path) -> Iterator[Guarded]:
    server = Guarded(folder)
    try:
        server.wait()
        sleep(1)  # the other worker
        yield server
    finally:
        server.stop()
