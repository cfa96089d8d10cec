"""The proof: what is promised of speed, and whether it was kept."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from benchmarks.pages.figure import Section, figure
from benchmarks.pages.files import Result, those
from benchmarks.pages.formats import number
from benchmarks.pages.markup import Content, table, tag
from benchmarks.pages.shapes import Proof


def section(found: Sequence[Result]) -> Section | None:
    parts = [figure(_verdict(proof), _READ, _table(label, proof)) for label, proof in those(found, Proof)]
    return Section("promises", "Promises", parts) if parts else None


_READ = "Each promise with its bound and what was measured; a goal is further than what is promised."


def verdict(kept: bool) -> Element:
    """A cell of a table."""
    class_, said = ("passed", "✓ kept") if kept else ("missed", "✕ missed")
    return tag("b", said, class_=f"verdict {class_}")


def _verdict(proof: Proof) -> str:
    return f"{sum(claim.kept for claim in proof.claims)} of {len(proof.claims)} promises are kept"


def _table(label: str, proof: Proof) -> Element:
    rows: list[list[Content]] = []
    for claim in proof.claims:
        rows.append([claim.text, verdict(claim.kept), number(claim.value), claim.bound])
    missed = [i for i, claim in enumerate(proof.claims) if not claim.kept]
    return table(f"Promises ({label})", ["promise", "verdict", "measured", "bound"], rows, left=2, strong=missed)
