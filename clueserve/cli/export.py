"""`clueserve export ...` is `python -m exporters ...`."""

from __future__ import annotations


def run(argv: list[str]) -> int:
    from exporters.__main__ import main

    return main(argv)
