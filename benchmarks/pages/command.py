"""`python -m benchmarks report RESULT.json ...`: saved results as a page with plots, tables and doubts.

The page is one file that asks for no other: send it, print it, open it offline.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pages import (
    anything,
    batches,
    costs,
    frontier,
    head,
    latency,
    peers,
    promises,
    searches,
    soak,
    timeline,
)
from benchmarks.pages.files import Result, read
from benchmarks.pages.markup import page, tag

HELP = "saved results as one HTML page"
SECTIONS = (
    promises.section,
    searches.section,
    latency.section,
    timeline.section,
    batches.section,
    peers.section,
    costs.limit,
    costs.offline,
    frontier.section,
    soak.section,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULT.json", help="what a command saved by --save")
    parser.add_argument(
        "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page; default: report.html"
    )


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    return "--out is one of the results" if args.out.resolve() in {p.resolve() for p in args.results} else None


def run(args: argparse.Namespace) -> int:
    """Write the page; 1 if one of the files is no result."""
    try:
        text = html(read(list(dict.fromkeys(args.results))))
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text, encoding="utf-8")
    except (ValueError, OSError) as error:
        print(f"no report: {error}", file=sys.stderr)
        return 1
    print(args.out)
    return 0


def html(found: Sequence[Result]) -> str:
    """The page of results."""
    made = [section for make in SECTIONS if (section := make(found))]
    sections = [*made, *anything.sections(found), head.files(found)]
    title = f"Benchmarks: {', '.join(dict.fromkeys(result.origin.command for result in found))}"
    body = [head.header(found, sections), tag("main", *(section.html() for section in sections))]
    return page(title, body)
