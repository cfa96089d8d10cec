"""Deadlines, waits and life signs are counted on a clock that nobody sets."""

from __future__ import annotations

import ast
from pathlib import Path

import service

WALL = {"time", "time_ns", "now", "utcnow", "today", "localtime", "gmtime"}
# What is about the wall: when a key expires, when a process began, when a span and a log line happened.
ALLOWED = {"access.py": {"time"}, "telemetry.py": {"time"}, "tracing.py": {"time_ns"}, "keys.py": {"now"}}


def wall(path: Path) -> set[str]:
    """Calls of clocks on the wall in a file, by name or as an attribute."""
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    named = {f.id for f in calls if isinstance(f, ast.Name)} | {f.attr for f in calls if isinstance(f, ast.Attribute)}
    return {name for name in named & WALL if name not in ("time", "now") or _is_clock(path, name)}


def _is_clock(path: Path, name: str) -> bool:
    """`time` of the module time, `now` of datetime: a field may have the same name."""
    text = path.read_text(encoding="utf-8")
    return {"time": "from time import" in text, "now": "datetime" in text}[name]


def test_only_what_is_about_the_wall_reads_the_clock_there() -> None:
    root = Path(service.__file__).parent
    found = {path.name: read for path in root.rglob("*.py") if (read := wall(path))}
    assert found == ALLOWED
