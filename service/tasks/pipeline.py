"""A bundle made of others: each stage is a bundle of its own, and what one finds is the next one's request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from service.bundle import Bundle
from service.errors import BundleError
from service.tasks.base import Task
from service.types import Answer, Run, Timing


class Pipeline(Task):
    """`stages` names what a bundle must have, and the family of each; `ask` puts items of many callers to one stage."""

    staged = True
    stages: ClassVar[dict[str, str]]

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        from service.tasks import family  # the registry imports this module

        got = {name: stage.manifest.family for name, stage in bundle.stages.items()}
        if got != self.stages:
            raise BundleError(f"{bundle.folder}: family {self.family} has stages {self.stages}, the bundle {got}")
        self.tasks: dict[str, Task] = {name: family(stage)(stage) for name, stage in bundle.stages.items()}
        self.longest = {name: stage.manifest.max_length for name, stage in bundle.stages.items()}

    def ask(
        self, stage: str, requests: Sequence[dict[str, Any]], run: Run, timings: Sequence[Timing]
    ) -> list[Answer | Exception]:
        """Answers of one stage to requests, as rows of one take. `timings[i]` is that of the item request i is for."""
        if not requests:
            return []
        task = self.tasks[stage]
        own = [Timing() for _ in requests]
        answers = task.predict([task.Input.model_validate(r) for r in requests], partial(run, stage=stage), own)
        inference: dict[int, tuple[Timing, Timing]] = {}
        spans: dict[int, dict[str, tuple[float, float]]] = {}
        for timing, part in zip(timings, own, strict=True):
            timing.tokenize += part.tokenize
            timing.decode += part.decode
            timing.tokens += part.tokens
            timing.unknown += part.unknown
            inference[id(timing)] = (timing, part)
            for name, start, end in part.spans:  # one of each stage, from the first request's to the last one's
                of = spans.setdefault(id(timing), {})
                of[name] = (of.get(name, (start,))[0], end)
        for timing, part in inference.values():  # the take is one for all requests of an item
            timing.inference += part.inference
            timing.rows += part.rows
            timing.spans += [(name, *span) for name, span in spans.get(id(timing), {}).items()]
        return answers
