"""What every test may use: an own BentoML home and tiny bundles, exported when first asked for."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

# All of it before bentoml, transformers or tokenizers are imported. A home that a developer uses is never touched.
os.environ["BENTOML_DO_NOT_TRACK"] = "True"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
# The end-to-end tests serve the demo bundles of the store as it was; xdist's workers inherit the variable.
os.environ.setdefault("CLUESERVE_STORE", os.environ.get("BENTOML_HOME", str(Path.home() / "bentoml")))
os.environ["BENTOML_HOME"] = tempfile.mkdtemp(prefix="clueserve-tests-bentoml-")
atexit.register(shutil.rmtree, os.environ["BENTOML_HOME"], ignore_errors=True)

BundleOf = Callable[..., Path]


@pytest.fixture(scope="session")
def bundle_of(tmp_path_factory: pytest.TempPathFactory) -> BundleOf:
    """`bundle_of("klue/ner")` or `bundle_of("token-classification")`: the folder of a tiny bundle, made once a session.

    Nobody may change it; copy it first. `architecture` and `precision` are as in `tiny` and the exporter.
    """
    made: dict[tuple[str, str, str], Path] = {}

    def bundle(name: str, architecture: str = "bert", precision: str = "fp32") -> Path:
        import torch
        from tiny import SUITE_OF, checkpoint, tiny_suite

        from exporters.export import export

        name = SUITE_OF.get(name, name)
        key = (name, architecture, precision)
        if key not in made:
            torch.set_num_threads(1)  # a test process has one core
            suite = tiny_suite(name)
            source = checkpoint(architecture, suite, tmp_path_factory.mktemp("checkpoint"))
            out = tmp_path_factory.mktemp("bundle")
            accepted = "answers of random weights" if precision == "int8" else None
            done = export(
                str(source), suite, name=name.replace("/", "-"), precision=precision, accept_loss=accepted, out=out
            )
            made[key] = Path(done.place)
        return made[key]

    return bundle


@pytest.fixture(scope="session")
def bundles(bundle_of: BundleOf) -> Mapping[str, Path]:
    """One bundle a family, by its name; each is exported when it is first looked up."""
    return _Lazy(bundle_of)


class _Lazy(Mapping[str, Path]):
    def __init__(self, bundle_of: BundleOf) -> None:
        self._bundle_of = bundle_of

    def __getitem__(self, family: str) -> Path:
        from tiny import SUITE_OF

        return self._bundle_of(SUITE_OF[family])

    def __iter__(self) -> Iterator[str]:
        from tiny import SUITE_OF

        return iter(SUITE_OF)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The parity table of tests/exporters. It stands here because xdist's controller reads no deeper conftest."""
    cells = {
        (architecture, family): delta
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "parity"
        for architecture, family, delta in [value]
    }
    if not cells:
        return
    families = sorted({family for _, family in cells})
    terminalreporter.section("largest logit difference between torch and the exported graph")
    terminalreporter.write_line(" " * 12 + "".join(f"  {family}" for family in families))
    for architecture in sorted({architecture for architecture, _ in cells}):
        row = {family: cells.get((architecture, family)) for family in families}
        shown = {family: "-" if delta is None else f"{delta:.1e}" for family, delta in row.items()}
        terminalreporter.write_line(f"{architecture:12}" + "".join(f"  {v:>{len(k)}}" for k, v in shown.items()))
