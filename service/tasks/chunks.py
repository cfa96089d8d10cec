"""Many rows in takes of bounded size, so that a long document needs no more memory than a short one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from service.types import Outputs, Row, Run

ROWS = 16
"""Rows of one take: what the activations of so many windows need is the most memory that a document can take."""


def in_chunks(run: Run, keep: Callable[[Outputs], Outputs] = lambda outputs: outputs, size: int = ROWS) -> Run:
    """`run` by `size` rows at a time; of a row's outputs only what `keep` makes of them outlives its take."""

    def chunked(rows: Sequence[Row], **stage: str) -> list[Outputs]:
        return [keep(out) for i in range(0, len(rows), size) for out in run(rows[i : i + size], **stage)]

    return chunked
