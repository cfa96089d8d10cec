"""Tags of tokens as entities: what the prefixes of each scheme mean, and the policies for what no scheme allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from service.bundle import Strict

# How each scheme's prefixes act; a BMES middle is an inside.
PREFIXES = {"B": "B", "I": "I", "M": "I", "E": "E", "S": "S"}


class Scheme(Strict):
    """`orphan_inside`: an I- that continues nothing opens an entity, is dropped and ends the open one as in strict
    IOB2, or is ignored and leaves the open one open as in CLUENER's script. `lone_begin`: an entity that is a B- and
    nothing more is kept, or dropped as that script does, because its models have an S- for it.
    `piece_begin`: a B- on a later piece of the same word opens a new entity (tags are by character), or continues
    the open one (tags are by word)."""

    scheme: Literal["IOB2", "BIOS", "BMES"]
    orphan_inside: Literal["open", "drop", "ignore"]
    lone_begin: Literal["keep", "drop"] = "keep"
    piece_begin: Literal["open", "continue"]
    ignore_labels: list[str] = []


class Tag(NamedTuple):
    prefix: str
    type: str | None


class Run(NamedTuple):
    """An entity in tokens: type, first token, token after the last, score."""

    type: str
    first: int
    last: int
    score: float


def parse(label: str, scheme: Scheme) -> Tag:
    """`B-PS` -> (B, PS); anything without a type is outside."""
    prefix, dash, kind = label.partition("-")
    if not dash or prefix not in PREFIXES or label in scheme.ignore_labels:
        return Tag("O", None)
    return Tag(PREFIXES[prefix], kind)


def group(steps: Sequence[tuple[Tag, int, float]], spans: Sequence[tuple[int, int]], scheme: Scheme) -> list[Run]:
    """Merge `(tag, token, score)` steps into entities by the bundle's policies."""
    found: list[Run] = []
    kind: str | None = None
    opening = ""
    members: list[tuple[int, float]] = []

    def close() -> None:
        nonlocal kind
        lone = opening == "B" and len(members) == 1
        if kind is not None and not (lone and scheme.lone_begin == "drop"):
            found.append(Run(kind, members[0][0], members[-1][0] + 1, sum(s for _, s in members) / len(members)))
        kind = None
        members.clear()

    for tag, token, score in steps:
        within = kind is not None and tag.type == kind
        if tag.prefix in "IE" and not within and scheme.orphan_inside == "ignore":
            continue
        if tag.prefix == "B" and within and scheme.piece_begin == "continue":
            within = spans[token][0] == spans[members[-1][0]][1]
        elif tag.prefix in "BSO":
            within = False
        if not within:
            close()
            if tag.type is None or (tag.prefix in "IE" and scheme.orphan_inside == "drop"):
                continue
            kind, opening = tag.type, tag.prefix
        members.append((token, score))
        if tag.prefix in "SE":
            close()
    close()
    return found
