"""What a contest of servers found, for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.limit import floor_ms

NO_VALUE = "-"
COLUMNS = ("CPU ms", "x floor", "capacity/s", "p99 ms at 70 %", "start s", "RSS MB", "labels")


def table(found: Mapping[str, Any]) -> str:
    """A line a server, the least CPU a request first; below it, why some lines are not full."""
    floors = {name: floor_ms(floor) for name, floor in found["floors"].items()}
    peers = sorted(found["peers"], key=lambda row: row.get("cpu_ms", float("inf")))
    head = [f"{found['model']}, {len(found['cpus'])} cores; CPU of the floor: "]
    head[0] += ", ".join(f"{name} {value:.2f} ms" for name, value in floors.items())
    cells = [["server", *COLUMNS]]
    cells += [[f"{row['name']} ({row['title']})", *_values(row, floors["ours"])] for row in peers]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = [
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in cells
    ]
    return "\n".join([*head, "", *lines, *(f"\n{note}" for row in peers for note in _notes(row))])


def _values(row: Mapping[str, Any], floor: float) -> list[str]:
    cpu, at_70 = row.get("cpu_ms"), row.get("at_70")
    p99 = at_70["latency_ms"]["p99"] if at_70 else None
    return [
        _number(cpu, 2),
        _number(cpu and cpu / floor, 2),
        _number(row.get("capacity_per_s"), 0),
        _number(p99, 0),
        _number(row.get("start_s"), 1),
        _number(row.get("rss_mb"), 0),
        _number(row.get("labels_equal") and 100 * row["labels_equal"], 0, " %"),
    ]


def _number(value: float | None, digits: int, unit: str = "") -> str:
    return NO_VALUE if value is None else f"{value:.{digits}f}{unit}"


def _notes(row: Mapping[str, Any]) -> list[str]:
    """Failures, answers that were none, and runs that the generator spoilt."""
    notes = [f"{row['name']}: {row['error']}"] if row["error"] else []
    for key, when in (("peak", "with 32 callers"), ("at_70", "at 70 %")):
        run = row.get(key)
        if run and (others := {kind: n for kind, n in run["kinds"].items() if kind != "200"}):
            notes.append(f"{row['name']} {when}: {', '.join(f'{kind} x {n}' for kind, n in others.items())}")
        if run and run["generator"]["saturated"]:
            notes.append(f"{row['name']} {when}: the load generator could not send in time, do not believe it")
    if row.get("capacity", {}).get("limited_by") == "generator":
        notes.append(f"{row['name']}: the load generator was the limit of its capacity")
    return notes
