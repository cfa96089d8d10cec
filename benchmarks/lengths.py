"""`python -m benchmarks lengths`: how long the texts of each benchmark are, for `--trace mixed`. Numbers, no text."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

import suites
from benchmarks import datasets, trace
from benchmarks.readers import READERS
from benchmarks.records import ReaderError, Record

HELP = "measure how long the texts of the benchmarks' own files are"
STEPS = range(0, 101, 5)
HEADER = f"""\
# Characters of each text field of the benchmarks' records: quantiles {STEPS[0]}, {STEPS[1]}, ... {STEPS[-1]}.
# `python -m benchmarks lengths --data-dir DIR` rewrites the suites for which DIR has data.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, required=True, metavar="DIR", help="where the benchmarks' files are")


def problem(args: argparse.Namespace) -> str | None:
    return None if args.data_dir.is_dir() else f"--data-dir: there is no folder {args.data_dir}"


def run(args: argparse.Namespace) -> int:
    """Write the table; 0 if there was data for any suite."""
    found: dict[str, dict[str, list[int]]] = {}
    for name in suites.names():
        suite = suites.load(name)
        files = datasets.find(args.data_dir, *_names(suite))
        reader = READERS.get(suite.reader or suite.name)
        if files and reader:
            try:
                found[name] = quantiles(record for path in files for record in reader(path, suite))
            except ReaderError as error:
                print(f"{name}: not measured: {error}", file=sys.stderr)
    measured = {name: fields for name, fields in found.items() if fields}
    if not measured:
        print(f"no data in {args.data_dir}", file=sys.stderr)
        return 1
    trace.LENGTHS.write_text(text(trace.lengths() | measured), encoding="utf-8")
    print(f"{trace.LENGTHS}: {', '.join(measured)}")
    return 0


def quantiles(records: Iterable[Record]) -> dict[str, list[int]]:
    """By field, for those that `mixed` fills with other text."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for record in records:
        for field in trace.text_fields(record.item):
            sizes[field].append(len(record.item[field]))
    return {field: [round(q) for q in np.percentile(values, list(STEPS))] for field, values in sorted(sizes.items())}


def text(table: Mapping[str, Mapping[str, list[int]]]) -> str:
    """The table as YAML, a line a field."""
    lines = [HEADER]
    for name, fields in sorted(table.items()):
        lines += [f"{name}:\n", *(f"  {field}: {values}\n" for field, values in fields.items())]
    return "".join(lines)


def _names(suite: suites.Suite) -> list[str]:
    """What its files may be called: as for `accuracy --all`, whose bundles often have the last name of their suite."""
    full = [name for name in (suite.name, suite.reader) if name]
    return [*full, *(name.rpartition("/")[2] for name in full)]
