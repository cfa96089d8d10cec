"""`python -m exporters.demo [NAME ...]`: export the demo heads that the BentoML model store does not hold yet."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import bentoml

import demo
import exporters
import suites
from service import __version__, graphemes, tasks, text, types
from service.bundle import FORMAT, sha256

SOURCE = "demo"
"""Store label: fingerprint of the files that a demo bundle was made from."""


def fingerprint(name: str) -> str:
    """Changes with all that a demo bundle is made from.

    That is the trunk, the head, its stages and assets, their suites and those they include, and the code that exports
    graphs and decodes golden answers: a store that an earlier version filled must not be taken for ours.
    """
    suite = suites.load(demo.suite_path(name)).model_dump_json()
    facts = [*map(sha256, demo.files(name)), *map(sha256, sources()), suite, str(FORMAT), __version__]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def sources() -> list[Path]:
    """The modules of ours whose change may change a bundle.

    Of what tasks import, texts and numbers are part of golden answers; bundles have `FORMAT`, errors refuse.
    """
    packages = [path for package in (exporters, tasks) for path in sorted(Path(*package.__path__).rglob("*.py"))]
    return packages + [Path(str(module.__file__)) for module in (graphemes, text, types)]


def main(argv: list[str] | None = None) -> int:
    """Export what is missing; 1 if a head could not be exported."""
    wanted = (sys.argv[1:] if argv is None else argv) or demo.default_names()
    unknown = sorted(set(wanted) - set(demo.names()))
    if unknown:
        print(f"no demo head {', '.join(unknown)}; there are {', '.join(demo.names())}", file=sys.stderr)
        return 1
    missing = [(name, mark) for name in wanted if (mark := fingerprint(name)) != _latest(name)]
    if missing and not _export(missing):
        return 1
    print(f"{len(wanted)} demo bundles in the BentoML store, {len(missing)} of them new")
    return 0


def _latest(name: str) -> str | None:
    """What the version that servers take was made from; older ones do not count."""
    try:
        mark: str | None = bentoml.models.get(f"{name}:latest").info.labels.get(SOURCE)
    except bentoml.exceptions.NotFound:
        return None
    return mark


def _export(missing: list[tuple[str, str]]) -> bool:
    # Imported only now: torch takes longer than a start with everything in place.
    from exporters.export import ExportError, export

    begun = perf_counter()
    for i, (name, mark) in enumerate(missing, 1):
        with tempfile.TemporaryDirectory(prefix="clueserve-demo-") as temporary:
            folder = demo.assemble(name, Path(temporary))
            try:
                done = export(str(folder), suites.load(demo.suite_path(name)), name=name, store_labels={SOURCE: mark})
            except ExportError as error:
                print(f"{name}: not exported: {error}", file=sys.stderr)
                return False
        print(
            f"[{i}/{len(missing)}, {perf_counter() - begun:3.0f} s] {done.place}: {done.parity.shapes} shapes within "
            f"{done.parity.logit_delta:.0e} of torch, answers equal",
            flush=True,
        )
    return True


if __name__ == "__main__":
    sys.exit(main())
