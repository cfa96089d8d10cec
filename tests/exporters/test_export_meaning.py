"""Names in the wrong order fit a graph as well as those in the right one: what a text beside itself tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tiny import tiny_suite

from exporters.__main__ import main
from exporters.meaning import doubt
from service.bundle import Bundle
from service.tasks import family
from service.tasks.base import Task
from service.types import Outputs, Row, Run

ITEMS = [{"text": text, "text_pair": "그는 집에 있다."} for text in ("비가 온다.", "서울에 갔다.", "책을 샀다.")]


@pytest.fixture
def task_of(bundle_of: Callable[[str], Path]) -> Callable[[str], Task]:
    def make(suite: str) -> Task:
        bundle = Bundle(bundle_of(suite))
        return family(bundle)(bundle)

    return make


def always(*logits: float) -> Run:
    """A model that says the same of all pairs."""

    def run(rows: Sequence[Row]) -> list[Outputs]:
        return [{"logits": np.array(logits, np.float32)} for _ in rows]

    return run


@pytest.mark.parametrize(
    ("suite", "logits", "told"),
    [
        ("klue/nli", (9, 0, 0), None),
        ("klue/nli", (0, 9, 0), "of 3 texts beside themselves 3 are contradiction, not entailment: is this the order"),
        ("chineseblue/cmedqq", (0, 9), None),
        ("chineseblue/cmedqq", (9, 0), "of 3 texts beside themselves 3 are 0, not 1: is this the order"),
        ("klue/sts", (4.8,), None),
        ("klue/sts", (0.98,), "of 3 texts beside themselves 3 are 0.98, 0.98, 0.98, below 3: were numbers learned"),
        ("chineseblue/cmedtc", (9,) * 13, None),
    ],
)
def test_a_text_beside_itself_is_the_same(
    task_of: Callable[[str], Task], suite: str, logits: tuple[float, ...], told: str | None
) -> None:
    """With two classes swapped every answer was wrong and nothing noticed (cardiffnlp/xlm-t#3)."""
    found = doubt(task_of(suite), always(*logits), ITEMS)
    assert found is None if told is None else str(found).startswith(told)


def test_a_doubt_is_told_behind_the_result(save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = save(tiny_suite("klue/sts"))  # weights at random give numbers near 0
    assert main([str(source), "--suite", "klue/sts", "--name", "same", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(str(tmp_path / "same"))
    assert said.err.splitlines()[-1].startswith("same: of 3 texts beside themselves ")
