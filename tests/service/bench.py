"""A runner over a tiny bundle whose task and graph can be watched, held and made to fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from service.batching.jobs import Turn
from service.batching.pool import Pool
from service.batching.runner import Runner
from service.bundle import Bundle
from service.graph.session import Model, Session
from service.tasks.text_classification import TextClassification
from service.types import Answer, Outputs, Row, Timing

TEXTS = ["서울에서 회의가 열렸다", "네", "오늘은 집에 있다. " * 3, "코스피 2% 상승", "이강인 골", "비가 온다 " * 9]


class Watched(TextClassification):
    """Notes what is run, waits while its gate is shut, and fails as the test says."""

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self.takes: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.busy = threading.Event()
        self.spoil: Callable[[list[Any]], list[Any]] = lambda results: results
        self.refuse: Callable[[str], object] = lambda _: None

    def encode(self, item: Any) -> Any:
        self.refuse(item.text)
        return super().encode(item)

    def predict(self, items: Sequence[Any], run: Any, timings: Sequence[Timing]) -> list[Answer | Exception]:
        self.busy.set()
        assert self.gate.wait(20)
        self.takes.append([item.text for item in items])
        return self.spoil(super().predict(items, run, timings))

    @property
    def ran(self) -> list[str]:
        return [text for take in self.takes for text in take]


class Poisoned(Session):
    """A graph that cannot stand rows of one length."""

    bad = -1

    def run(self, rows: Sequence[Row]) -> list[Outputs]:
        if any(self.length(row) == self.bad for row in rows):
            raise RuntimeError(f"the model failed on {rows}")
        return super().run(rows)


class Bench:
    """Runners over one pool, and what a test does with them."""

    def __init__(self, folder: Path, pool: Pool) -> None:
        bundle = Bundle(folder)
        self.pool = pool
        self.task = Watched(bundle)
        assert bundle.graph.encoder
        models = [Model(bundle.folder / file) for file in (bundle.graph.file, bundle.graph.encoder)]
        self.session = Poisoned(models[0], pads=bundle.graph.pads, encoder=models[1])
        self.runner = Runner(self.task, self.session, pool)
        self.solo = {text: self._alone(text) for text in TEXTS}

    def _alone(self, text: str) -> Answer:
        (answer,) = TextClassification.predict(self.task, [self.item(text)], self.session.run, [Timing()])
        assert isinstance(answer, dict)
        return answer

    def item(self, text: str, **options: Any) -> Any:
        return self.task.Input(text=text, **options)

    def read(self, text: str) -> int:
        """Tokens of a text."""
        return self.task.encode(self.item(text)).tokens

    async def ask(self, text: str, timeout: float = 20.0, **options: Any) -> Answer:
        return (await self.runner.submit(self.item(text, **options), timeout, Turn())).answer

    async def blocked(self, timeout: float = 20.0) -> asyncio.Task[Answer]:
        """Keep a worker busy with an item."""
        self.task.gate.clear()
        self.task.busy.clear()
        first = asyncio.create_task(self.ask(TEXTS[0], timeout))
        assert await asyncio.to_thread(self.task.busy.wait, 20)
        return first

    def equals(self, got: Answer, text: str) -> None:
        want = self.solo[text]
        assert got["label"] == want["label"]
        assert got["tokens"] == want["tokens"]
        scores = {s["label"]: s["score"] for s in want["scores"]}
        assert all(s["score"] == pytest.approx(scores[s["label"]], abs=2e-6) for s in got["scores"])
