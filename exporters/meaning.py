"""Do the labels of a pair model mean what they say? A text beside itself follows from it, and means the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from exporters import verify
from service.tasks.base import Task
from service.tasks.pair_classification import Params
from service.types import Run


def doubt(task: Task, run: Run, items: Sequence[Mapping[str, Any]]) -> str | None:
    """What a person should look at, if most first texts of `items`, each beside itself, are answered as if they were
    two different ones: classes in another order than they were trained in, or numbers on another scale. A weak model
    does so too, and so it is no error."""
    p = task.params
    if not isinstance(p, Params) or (p.entailment or p.positive or p.binary_threshold) is None:
        return None
    answers = verify.answers(task, run, [{"text": item["text"], "text_pair": item["text"]} for item in items])
    if p.binary_threshold is not None:
        wrong = [f"{a['value']:.2f}" for a in answers if a["value"] < p.binary_threshold]
        seen = f"{', '.join(wrong)}, below {p.binary_threshold:g}: were numbers learned on the suite's scale?"
    else:
        expected = p.entailment or p.positive
        wrong = [a["label"] for a in answers if a["label"] != expected]
        seen = f"{', '.join(dict.fromkeys(wrong))}, not {expected}: is this the order in which classes were learned?"
    few = 2 * len(wrong) <= len(answers)
    return None if few else f"of {len(answers)} texts beside themselves {len(wrong)} are {seen}"
