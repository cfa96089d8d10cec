"""Texts of a command line as the fields of a model's request."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from clueserve.cli.asking import Misuse
from clueserve.models import Model

SEVERAL = "..."
"""Ends the name of a field that takes all texts which are left, as a list."""

TEXTS = {
    "pair-classification": ("text", "text_pair"),
    "span-pair-classification": ("text", "subject", "object"),
    "question-answering": ("question", "context"),
    "multiple-choice": ("context", "question", "choices..."),
    "cloze": ("passages", "candidates..."),
    "dialogue-state": ("turns...",),
}
"""By family, the fields that texts fill in order; of all other families it is `text`."""


def takes(model: Model) -> tuple[str, ...]:
    """The fields that texts fill; a field that the model's own example lacks is none of this model's."""
    names = TEXTS.get(model.family, ("text",))
    return tuple(n for n in names if n.removesuffix(SEVERAL) in model.example) or names


def item(model: Model, texts: Sequence[str], options: Sequence[str]) -> dict[str, Any]:
    """The request: texts in order, then `key=value` options, which win. Misuse says what the model takes."""
    given = dict(_option(option) for option in options)
    names = [name for name in takes(model) if name.removesuffix(SEVERAL) not in given]
    if not texts and not given:
        raise Misuse(usage(model))
    if model.family == "document-classification" and len(texts) > 1:
        return {"notes": [{"text": text} for text in texts]} | given
    fields: dict[str, Any] = {}
    left = list(texts)
    for name in names if texts else ():
        if name.endswith(SEVERAL):
            fields[name.removesuffix(SEVERAL)], left = left, []
        elif left:
            fields[name] = left.pop(0)
    missing = [name for name in names if fields.get(name.removesuffix(SEVERAL)) in (None, [])] if texts else []
    if left or missing:
        raise Misuse(usage(model))
    return _shaped(model.family, fields, given) | given


def usage(model: Model) -> str:
    names = ", ".join(name.replace(SEVERAL, " (one or more)") for name in takes(model))
    return f"{model.name} ({model.family}) takes {names}. For example:\n  {example(model)}"


def example(model: Model) -> str:
    """A command that runs: the model's own example."""
    given = dict(model.example)
    texts: list[str] = []
    for name in takes(model):
        value = given.pop(name.removesuffix(SEVERAL), None)
        if isinstance(value, list):
            texts += [one["text"] if isinstance(one, dict) else one for one in value]
        elif isinstance(value, dict):
            texts.append(given_text[value["start"] : value["end"]] if (given_text := model.example["text"]) else "")
        elif value is not None:
            texts.append(value)
    options = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items()]
    return shlex.join(["clueserve", "ask", model.name, *texts, *(x for o in options for x in ("--field", o))])


def _option(option: str) -> tuple[str, Any]:
    key, equals, value = option.partition("=")
    if not equals or not key:
        raise Misuse(f"--field {option}: write it as key=value, the value in JSON or as plain text")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _shaped(family: str, fields: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if family == "cloze" and "passages" in fields:
        return fields | {"passages": [fields["passages"]]}
    if family == "dialogue-state" and "turns" in fields:
        turns = fields["turns"]
        # The user speaks last, and every other turn before.
        return {
            "turns": [
                {"role": "sys" if (len(turns) - i) % 2 == 0 else "user", "text": text} for i, text in enumerate(turns)
            ]
        }
    if family == "span-pair-classification":
        text = str(fields.get("text") or given.get("text", ""))
        return fields | {
            name: _span(name, fields[name], text, given) for name in ("subject", "object") if name in fields
        }
    return fields


def _span(name: str, part: str, text: str, given: dict[str, Any]) -> dict[str, int]:
    """Where a part of the text stands, as the request says it."""
    if given.get("offset_unit", "codepoint") != "codepoint":
        raise Misuse(f'with another offset_unit give --field {name}={{"start": ..., "end": ...}} yourself')
    start = text.find(part)
    if start < 0:
        raise Misuse(f"the {name} {part!r} does not stand in the text")
    return {"start": start, "end": start + len(part)}
