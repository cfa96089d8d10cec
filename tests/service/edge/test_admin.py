"""The repository's calls: what workers say of a change, and references that cannot be."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from service.edge.admin import Admin
from service.process.board import Board, Status


def test_what_one_worker_cannot_load_does_not_hide_what_another_cannot(tmp_path: Path) -> None:
    board = Board(tmp_path)
    revision = board.want({})
    for pid, version in enumerate(("v1", "v2", "v3")):
        board.beat(pid, None)
        board.post(pid, Status(seen=revision, problems={"topic": {version: "broken"}}))
    admin = Admin(cast(Any, SimpleNamespace(draining=False)), board)
    assert asyncio.run(admin._agreed(revision)) == {"topic": {"v1": "broken", "v2": "broken", "v3": "broken"}}
