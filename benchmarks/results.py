"""What a command measured, as a file: the finding, and everything that somebody needs to believe or repeat it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import machine

ROOT = Path(__file__).parents[1]
NOT_ARGUMENTS = ("command", "save")


def result(
    command: str, arguments: Mapping[str, Any], seed: int | None, found: Any, packages: Sequence[str] = ()
) -> dict[str, Any]:
    """A finding with its time, commit, machine, versions and arguments. `arguments` may be `vars()` of a namespace."""
    return {
        "command": command,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(*packages),
        "seed": seed,
        "arguments": {k: _plain(v) for k, v in arguments.items() if k not in NOT_ARGUMENTS},
        "found": found,
    }


def save(path: Path, result: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """A saved result; ValueError if the file is none."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(read, dict) or not {"command", "found"} <= read.keys():
        raise ValueError(f"{path} is no result of a command")
    return read


def commit(folder: Path = ROOT) -> str | None:
    """The commit that is checked out, `-dirty` where files differ from it; None outside of a repository of its own."""
    try:
        root, head = _git(folder, "rev-parse", "--show-toplevel", "HEAD").split()
        if Path(root) != folder.resolve():
            return None
        return head + ("-dirty" if _git(folder, "status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
