"""One booth for all tests of the protocols, and small ones with settings of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from booth import Booth
from kit import copy

SUITES = {
    "ner": "klue/ner",
    "nested": "cblue/cmeee-nested",
    "nli": "klue/nli",
    "same": "chineseblue/cmedqq",
    "sts": "klue/sts",
    "topic": "klue/ynat",
    "signs": "clinical-clue/phenotyping",
    "reading": "klue/mrc",
    "sure": "clue/cmrc2018",
    "unsure": "klue/mrc",
    "tree": "klue/dp-no-pos",
}
CHANGES: dict[str, dict[str, Any]] = {
    "ner": {"orphan_inside": "open"},  # random weights begin no entity: here whatever is within one begins it
    "unsure": {"null_threshold": -1000.0},  # never finds an answer
}


@pytest.fixture(scope="session")
def booth_of(
    bundle_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Booth]]:
    """`booth_of("nli", max_batch_items=4)`: a server of these models."""
    made: list[Booth] = []
    folders: dict[str, Path] = {}

    def folder(name: str) -> Path:
        made = bundle_of(SUITES[name])
        if name in CHANGES and name not in folders:
            folders[name] = copy(made, tmp_path_factory.mktemp("bundle") / name, decoder=CHANGES[name])
        return folders.get(name, made)

    def make(*names: str, **settings: Any) -> Booth:
        made.append(Booth({name: folder(name) for name in names}, **settings))
        return made[-1]

    yield make
    for booth in made:
        booth.close()


@pytest.fixture(scope="session")
def shared_booth(booth_of: Callable[..., Booth]) -> Booth:
    return booth_of(*SUITES, max_batch_items=40, max_text_chars=2000)


@pytest.fixture
def booth(shared_booth: Booth) -> Booth:
    """The booth with its counters at zero."""
    shared_booth.takes.clear()
    shared_booth.counts.outcomes.clear()
    shared_booth.counts.refusals.clear()
    return shared_booth
