"""`clueserve keys ...` is `python -m service.keys ...`."""

from __future__ import annotations


def run(argv: list[str]) -> int:
    from service.keys import main

    return main(argv)
