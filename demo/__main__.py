"""Command line of the demo checkpoints: list the heads, or assemble some of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import demo
import suites


def _list() -> None:
    chosen = set(demo.default_names())
    for name in demo.names():
        suite = suites.load(demo.suite_path(name))
        score = suite.scores[0]
        mark = "default" if name in chosen else "on request"
        print(f"{name:14} {suite.family:26} {score.metric} {score.value:.1f} (n={score.n})  {mark}")


def main(argv: list[str] | None = None) -> int:
    """Run the command; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="Assemble demo checkpoints.")
    parser.add_argument("name", nargs="*", metavar="NAME", help="heads to assemble; none means the default set")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder that gets one checkpoint folder a head")
    parser.add_argument("--list", action="store_true", help="print name, task, held-out score and whether default")
    args = parser.parse_args(argv)
    if args.list:
        _list()
        return 0
    if args.out is None:
        parser.error("--out DIR is needed to assemble")
    chosen = args.name or demo.default_names()
    unknown = sorted(set(chosen) - set(demo.names()))
    if unknown:
        parser.error(f"no demo head {', '.join(unknown)}; see --list")
    for number, name in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {demo.assemble(name, args.out)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
