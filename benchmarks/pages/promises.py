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


def _verdict(proof: Proof) -> str:
    return f"{sum(claim.kept for claim in proof.claims)} of {len(proof.claims)} promises are kept"


def _table(label: str, proof: Proof) -> Element:
    rows: list[list[Content]] = []
    for claim in proof.claims:
        said = ("passed", "✓ kept") if claim.kept else ("missed", "✕ missed")
        rows.append([claim.text, tag("b", said[1], class_=f"verdict {said[0]}"), number(claim.value), claim.bound])
    missed = [i for i, claim in enumerate(proof.claims) if not claim.kept]
    return table(f"Promises ({label})", ["promise", "verdict", "measured", "bound"], rows, left=2, strong=missed)
