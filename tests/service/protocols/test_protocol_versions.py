"""Where a model has two versions, what is one answer is given by one of them, and several are all named."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from booth import Booth

from service.batching.runner import Result
from service.protocols.common import together
from service.repository import Split
from service.types import Timing

ZERO = {"candidate_labels": [f"label {i}" for i in range(12)]}
RANK = {"query": "서울", "texts": [f"text {i}" for i in range(12)]}


class Noted(Split):
    """Notes which version each item gets."""

    def __init__(self, runner: Any) -> None:
        super().__init__("nli", [(0.5, SimpleNamespace(version=version)) for version in "ab"])  # type: ignore[misc]
        self.runner = runner
        self.versions: list[str] = []

    def choose(self, item: Any) -> Any:
        self.versions.append(super().choose(item).version)
        return self.runner


@pytest.fixture
def noted(booth_of: Callable[..., Booth]) -> tuple[Booth, Noted]:
    booth = booth_of("nli")
    chooser = Noted(booth.server.runners["nli"])
    booth.server.splits["nli"] = chooser
    return booth, chooser


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/models/nli", lambda n: {"inputs": f"text {n}", "parameters": ZERO}),
        ("/tei/nli/rerank", lambda n: RANK | {"query": f"query {n}"}),
    ],
    ids=["zero-shot", "rerank"],
)
def test_what_is_one_answer_is_of_one_version(noted: tuple[Booth, Noted], path: str, body: Any) -> None:
    """Labels were scored by two models, and put in one order."""
    booth, chooser = noted
    seen = set()
    for n in range(12):
        chooser.versions.clear()
        reply = booth.post(path, body(n))
        assert reply.status == 200, reply.body
        assert len(chooser.versions) == 12
        assert len(set(chooser.versions)) == 1
        seen |= set(chooser.versions)
    assert seen == {"a", "b"}


def test_items_that_are_answered_apart_are_chosen_for_apart(noted: tuple[Booth, Noted]) -> None:
    booth, chooser = noted
    booth.post("/tei/nli/predict", {"inputs": [["text", f"text {i}"] for i in range(40)]})
    assert set(chooser.versions) == {"a", "b"}


@pytest.mark.parametrize(("versions", "told"), [("a", "a"), ("bab", "a, b"), (["", ""], ""), (["", "a"], "a")])
def test_all_versions_that_answered_are_named(versions: Any, told: str) -> None:
    assert together([Result({}, Timing(version=version)) for version in versions]).version == told
