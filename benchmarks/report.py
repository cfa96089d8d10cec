"""What was measured, for people and for files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.bootstrap import LEVEL, Interval
from benchmarks.machine import machine
from benchmarks.measure import Measured

PACKAGES = ("bentoml", "numpy", "onnxruntime", "tokenizers")


def table(measured: Measured) -> str:
    """One benchmark: a column a metric; below the scores what the bundle and the publications say of theirs."""
    metrics = list(measured.scores)
    rows = [
        [measured.name, *(f"{score.value:.2f}" for score in measured.scores.values())],
        [f"  {LEVEL} % interval", *map(_range, measured.scores.values())],
    ]
    for data, n in dict.fromkeys((score.data, score.n) for score in measured.recorded):
        known = {s.metric: s.value for s in measured.recorded if (s.data, s.n) == (data, n)}
        if known.keys() & measured.scores.keys():
            rows.append([f"  recorded: {data}, n {n}", *_cells(known, metrics)])
    for published in measured.suite.published:
        rows.append([f"{published.model} ({published.split})", *_cells(published.scores, metrics)])
    return "\n".join([_headline(measured), *aligned([["", *metrics], *rows]), *_losses(measured)])


def summary(all_measured: Sequence[Measured]) -> str:
    """Several benchmarks: a row a metric."""
    rows = [["bundle", "metric", "score", f"{LEVEL} % interval", "n", "left out", "refused", "recorded"]]
    for m in all_measured:
        for metric, score in m.scores.items():
            known = next((f"{s.value:.2f}" for s in m.recorded if s.metric == metric), "-")
            counts = map(str, (len(m.outcomes), m.data.left_out.total(), m.refused.total()))
            rows.append([m.name, metric, f"{score.value:.2f}", _range(score), *counts, known])
    return "\n".join(aligned(rows, left=2))


def save(measured: Measured, folder: Path) -> None:
    """Write `predictions.jsonl` (a line a record) and `result.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "predictions.jsonl").open("w", encoding="utf-8") as file:
        for record, outcome in zip(measured.data.records, measured.outcomes, strict=True):
            found = {"answer": outcome.answer} if outcome.error is None else {"error": outcome.error}
            file.write(json.dumps({"id": record.id, "gold": record.gold, **found}, ensure_ascii=False) + "\n")
    text = json.dumps(result(measured), ensure_ascii=False, indent=1)
    (folder / "result.json").write_text(text + "\n", encoding="utf-8")


def result(measured: Measured) -> dict[str, Any]:
    """Everything but the predictions, as JSON."""
    data = measured.data
    return {
        "suite": measured.suite.name,
        "bundle": {"name": measured.name, "sha256": measured.bundle_sha256},
        "data": {"files": [path.name for path in data.files], "sha256": data.sha256, "whole": data.whole},
        "n": len(measured.outcomes),
        "metrics": {name: score._asdict() for name, score in measured.scores.items()},
        "interval_percent": LEVEL,
        "left_out": dict(data.left_out),
        "refused": dict(measured.refused),
        "recorded": [score.model_dump() for score in measured.recorded],
        "seconds": round(measured.seconds, 1),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(*PACKAGES),
    }


def _headline(m: Measured) -> str:
    part = "" if m.data.whole else "the first "
    where = f"{part}{len(m.outcomes)} records of {m.data.name} (sha256 {m.data.sha256[:12]})"
    return f"{m.name}, {m.suite.name}: {where}, {m.seconds:.1f} s"


def _losses(m: Measured) -> Iterator[str]:
    if m.data.left_out:
        yield f"left out: {_counts(m.data.left_out)}"
    if m.refused:
        yield f"refused, and counted as wrong: {_counts(m.refused)}"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in counts.most_common())


def _range(score: Interval) -> str:
    return f"{score.low:.2f} to {score.high:.2f}"


def _cells(known: dict[str, float], metrics: Sequence[str]) -> list[str]:
    return [f"{known[metric]:.2f}" if metric in known else "-" for metric in metrics]


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Columns as wide as their widest cell; the first `left` of them begin at the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:{'<' if i < left else '>'}{widths[i]}}" for i, cell in enumerate(row))
        yield "  ".join(cells).rstrip()
