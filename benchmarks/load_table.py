"""What runs of load found, for people to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.run import BUSY_GENERATOR, LATE_GENERATOR, REFUSALS

Run = Mapping[str, Any]
MOST_ROWS = 8
"""Sizes of batches that are shown, the most frequent ones."""


def report(run: Run, url: str) -> str:
    """One run, a line a subject."""
    width = 12
    lines = [headline(run, url), ""]
    lines += [f"{label:<{width}} {text}".rstrip() for label, text in _subjects(run)]
    return "\n".join([*lines, *(f"\n{warning}" for warning in warnings(run))])


def headline(run: Run, url: str) -> str:
    if run["callers"]:
        how = f"{run['callers']} callers in closed loop"
    else:
        how = f"{run['profile']}, {run['rate_per_s']:g} requests/s"
    return f"{run['name']} at {url}: {how} for {run['seconds']:g} s"


def _subjects(run: Run) -> Iterator[tuple[str, str]]:
    offered, answered, good = run["offered"], run["answered"], run["good"]
    yield "answered", f"{answered} of {offered}: {run['answered_per_s']:.1f}/s"
    share = f" ({good / offered:.2%} of all)" if offered else ""
    yield "goodput", f"{run['goodput_per_s']:.1f}/s within {run['slo_ms']:g} ms{share}"
    if answered:
        yield "latency, ms", "   ".join(f"{name} {_ms(value)}" for name, value in run["latency_ms"].items())
    if others := {kind: n for kind, n in run["kinds"].items() if kind != "200"}:
        yield "otherwise", ", ".join(f"{_kind(kind)}: {n}" for kind, n in others.items())
    if run["refused_ms"]:
        told = f"Retry-After on {run['retry_after']:.0%}"
        yield (
            "refusals",
            f"after {_ms(run['refused_ms']['p50'])} ms (p50), {_ms(run['refused_ms']['p99'])} ms (p99); {told}",
        )
    if run["batch_rows"]:
        yield "batches", _batches(run["batch_rows"])
    yield "server", server(run["server"])
    generator = run["generator"]
    yield "generator", f"sent {generator['lag_p99_ms']:.1f} ms late (p99), {generator['cpu_share']:.0%} of a core"


def warnings(run: Run) -> Iterator[str]:
    """Why a run's numbers are not the server's."""
    generator = run["generator"]
    if generator["saturated"]:
        if generator["cpu_share"] > BUSY_GENERATOR:
            why = f"The generator used {generator['cpu_share']:.0%} of the one core that it has."
        else:
            why = (
                f"Requests left {generator['lag_p99_ms']:.1f} ms late (p99), over {LATE_GENERATOR:.0%} of the SLO: "
                "too many at once, or this machine is busy with other things."
            )
        yield (
            f"WARNING: do not believe these numbers. {why}\nLatencies include that delay, and the server has seen "
            "another load than it should have. Send less, or from another machine or core."
        )


def server(used: Mapping[str, float] | None) -> str:
    if used is None:
        return "CPU and memory unknown: its processes are not this machine's, or not this user's"
    count = f"{used['processes']:.0f} process{'es' * (used['processes'] != 1)}"
    return f"{used['cpu_ms_per_answer']:.2f} ms CPU an answer, {used['rss_mb']:.0f} MB in {count}"


TRIES = ("rate/s", "in time", "p50 ms", "p99 ms", "server CPU ms", "sent late ms")
TRIES_HEAD = f"{'try':<8}  {'  '.join(f'{title:>8}' for title in TRIES)}"


def try_row(one: Mapping[str, Any]) -> str:
    """One try of a search for capacity: below `TRIES_HEAD`."""
    run = one["run"]
    share = run["good"] / run["offered"] if run["offered"] else 0.0
    cpu = f"{run['server']['cpu_ms_per_answer']:.2f}" if run["server"] else "-"
    cells = [
        f"{one['rate_per_s']:.1f}",
        f"{share:.2%}",
        _ms(run["latency_ms"]["p50"]),
        _ms(run["latency_ms"]["p99"]),
        cpu,
        _ms(run["generator"]["lag_p99_ms"]),
    ]
    shown = [f"{cell:>{max(8, len(title))}}" for title, cell in zip(TRIES, cells, strict=True)]
    notes = [f"{kind} x {n}" for kind, n in run["kinds"].items() if kind != "200"]
    notes += ["generator late"] if run["generator"]["saturated"] else []
    said = "passed" if one["passed"] else "missed"
    verdict = f"{said} ({', '.join(notes)})" if notes else said
    return f"{one['phase']:<8}  {'  '.join(shown)}  {verdict}"


def capacity_verdict(found: Mapping[str, Any]) -> str:
    """What the search came to, in a few lines."""
    alone = f"a caller alone waits {_ms(found['alone_p50_ms'])} ms (p50)"
    if found["peak"] is None:
        return f"capacity: none; {alone}, which is past the SLO already, or is not answered"
    peak = f"peak of {found['peak']['callers']} callers in closed loop {found['peak']['answered_per_s']:.1f}/s; {alone}"
    if not found["capacity_per_s"]:
        return f"capacity: none; no rate kept its p99 within {found['slo_ms']:g} ms\n{peak}"
    confirmed = [t["run"] for t in found["tries"] if t["phase"] == "confirm" and t["passed"]]
    count = sum(run["rate_per_s"] == confirmed[-1]["rate_per_s"] for run in confirmed)
    runs = f"{count} run{'s' * (count != 1)} of {found['seconds']:g} s"
    lines = [f"capacity: {found['capacity_per_s']:.1f} requests/s, confirmed by {runs}", peak]
    if found["limited_by"] == "generator":
        lines.append(
            "WARNING: the rate above it failed with a generator that could not send in time: the server may bear more. "
            "Send from another machine or core."
        )
    return "\n".join(lines)


def offline_table(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Batch jobs, a row a model."""
    rows = [["model", "items", "seconds", "items/s", "CPU ms an item", "RSS MB", "not answered"]]
    for job in jobs:
        errors = ", ".join(f"{code} x {n}" for code, n in job["errors"].items()) or "-"
        cpu = "-" if job["cpu_ms_per_item"] is None else f"{job['cpu_ms_per_item']:.2f}"
        rss = "-" if job["rss_mb"] is None else f"{job['rss_mb']:.0f}"
        took = [f"{job['seconds']:.1f}", f"{job['items_per_s']:.1f}", cpu, rss, errors]
        rows.append([job["name"], str(job["items"]), *took])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(f"{cell:{'<' if i == 0 else '>'}{widths[i]}}" for i, cell in enumerate(row)).rstrip() for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _batches(rows: Mapping[str, int]) -> str:
    total = sum(rows.values())
    often = sorted(rows, key=lambda size: -rows[size])[:MOST_ROWS]
    shown = ", ".join(f"{size}: {rows[size] / total:.0%}" for size in sorted(often, key=int))
    return f"share of answers by rows of their take: {shown}" + (", others" if len(often) < len(rows) else "")


def _kind(kind: str) -> str:
    names = {"timeout": "no answer in time", "connection": "connection lost or refused"}
    return names.get(kind, f"{kind} (refused)" if kind in REFUSALS else kind)


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
