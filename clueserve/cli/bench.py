"""`clueserve bench ...` is `python -m benchmarks ...`."""

from __future__ import annotations


def run(argv: list[str]) -> int:
    from benchmarks.__main__ import main

    return main(argv)
