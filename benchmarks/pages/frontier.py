"""Precisions of bundles: how fast each is, and how much of the answers it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from benchmarks.pages.axes import linear
from benchmarks.pages.figure import Section, figure, key_of
from benchmarks.pages.files import Result, those
from benchmarks.pages.formats import NONE, count, number, percent
from benchmarks.pages.markup import Content, table
from benchmarks.pages.plots import Frame, Size, both, colour
from benchmarks.pages.shapes import Frontier, Precision

Named = tuple[str, Precision]
"""A bundle's name and one of its precisions."""


def section(found: Sequence[Result]) -> Section | None:
    shown = [
        (bundle, row)
        for _, frontier in those(found, Frontier)
        for bundle, measured in frontier.root.items()
        for row in measured.precisions
    ]
    if not shown:
        return None
    names = list(dict.fromkeys(row.precision for _, row in shown))
    read = (
        "A mark for each precision of each bundle: the CPU time of a text against fp32, and the labels that are those "
        "of fp32. Left is faster, high is more faithful. A cross was refused by the gate: its score or labels differ "
        "too much."
    )
    key = key_of((colour(i), name) for i, name in enumerate(names))
    drawings = both(lambda size: _dots(shown, names, size))
    return Section("frontier", "Precisions", [figure("Speed and fidelity", read, key, *drawings, _table(shown))])


def _dots(shown: Sequence[Named], names: Sequence[str], size: Size) -> Element:
    y = linear(100.0, min(99.0, *(row.labels_equal for _, row in shown)))
    x = linear(max(row.of_fp32 for _, row in shown))
    told = f"{len(names)} precisions of {len({bundle for bundle, _ in shown})} bundles"
    frame = Frame(size, x, y, ("CPU a text, in parts of fp32", "labels equal to fp32, %"), told)
    for bundle, row in shown:
        said = f"{bundle}, {row.precision}: {number(row.of_fp32)} of fp32, {number(row.labels_equal, 4)} % equal"
        frame.dot(row.of_fp32, row.labels_equal, colour(names.index(row.precision)), said, cross=not row.passes)
    return frame.svg


def _table(shown: Sequence[Named]) -> Element:
    rows: list[list[Content]] = []
    for bundle, row in shown:
        changes = ", ".join(f"{metric} {after - before:+.2f}" for metric, (before, after) in row.scores.items())
        equal = [percent(row.labels_equal / 100), percent(row.records_equal / 100)]
        numbers = [number(row.ms), number(row.of_fp32), count(row.mb), *equal, number(row.batch_change)]
        rows.append([bundle, row.precision, "passes" if row.passes else "refused", *numbers, changes or NONE])
    head = ["bundle", "precision", "gate", "CPU ms a text", "of fp32", "MB", "labels equal", "records equal"]
    name = "Precisions; scores change in points"
    return table(name, [*head, "change in a batch (logits)", "scores"], rows, left=3)
