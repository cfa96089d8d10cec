"""How one peer is installed, started and asked: the recipes are the YAML files beside this one.

Its strings may name places: {model} is the checkpoint's folder and {graph} the ONNX graph in it, {bundle} what our
exporter made of it, {python} and {bin} the environment's interpreter and programs, {run} an empty folder of the peer's
own, {root} this repository, {port} where it shall listen, {cpus} how many cores it has. A recipe may start from another
with `include: NAME`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

FOLDER = Path(__file__).parent
TEXT = "{text}"


class Environment(BaseModel):
    """A venv: the interpreter that makes it, and what each `pip install` in it is given, one after another."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    python: str = sys.executable
    install: list[str]


class Recipe(BaseModel):
    """One peer: a comment in its file says why it is set up so."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    environment: Environment | None = None
    """None: the environment of this repository."""
    files: dict[str, str] = {}
    """Written into {run} before the start."""
    env: dict[str, str] = {}
    cwd: str = "{run}"
    command: list[str]
    path: str
    body: Any
    """What is posted; the string "{text}" in it stands for the text."""
    label: list[str | int]
    """Where the answer says which label won, key by key."""
    start_s: float = 120.0
    """How long its start may take."""


def names() -> list[str]:
    """The peers, in the order of their names."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Recipe:
    """Read a recipe by the name of its file."""
    return Recipe.model_validate(_read(name))


def _read(name: str) -> dict[str, Any]:
    """The file's mapping over the one it includes; a top-level key replaces the included one as a whole."""
    data: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    base = data.pop("include", None)
    return data if base is None else _read(base) | data


def filled(text: str, places: Mapping[str, object]) -> str:
    """A string of a recipe with every place named in it replaced; other braces stay as they are."""
    for key, value in places.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text


def body(template: Any, text: str) -> bytes:
    """The JSON that carries a text in place of "{text}"."""
    return json.dumps(_with(template, text), ensure_ascii=False).encode()


def _with(template: Any, text: str) -> Any:
    if isinstance(template, dict):
        return {key: _with(value, text) for key, value in template.items()}
    if isinstance(template, list):
        return [_with(value, text) for value in template]
    return text if template == TEXT else template


def at(answer: Any, path: list[str | int]) -> Any:
    """The value of an answer at a path. A JSON document inside a string is read, too, where the path goes on in it."""
    for key in path:
        if isinstance(answer, str):
            answer = json.loads(answer)
        answer = answer[key]
    return answer
