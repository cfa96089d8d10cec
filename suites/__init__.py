"""Task suites: one YAML file a benchmark task, read and checked here.

A suite says everything about a task that its checkpoint does not: label order, input template, lengths, decoding
parameters, metrics and example requests. `klue/ner` is the file `klue/ner.yaml` beside this module; a path ending in
`.yaml` names a suite of one's own, which may start from a packaged one with `include: klue/ner`.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

__all__ = ["InvalidSuite", "Normalization", "Published", "Score", "Suite", "UnknownSuite", "load", "names"]

ROOT = Path(__file__).parent
Family = Literal[
    "text-classification",
    "pair-classification",
    "span-pair-classification",
    "token-classification",
    "question-answering",
    "multiple-choice",
]
Character = Annotated[str, StringConstraints(min_length=1, max_length=1)]


class UnknownSuite(KeyError):
    """No packaged suite has this name."""

    def __init__(self, name: str) -> None:
        close = difflib.get_close_matches(name.lower(), names(), n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        super().__init__(f"unknown suite {name!r}{hint}")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the repr


class InvalidSuite(ValueError):
    """A suite file that does not follow the schema; the message names the file."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Normalization(_Strict):
    """Text preparation before the tokenizer. Replacements are one character to one, so that offsets stay."""

    form: Literal["nfc", "nfkc", "none"] = "nfc"
    lowercase: bool = False
    replace: dict[Character, Character] = {}


class Published(_Strict):
    """Scores of one model as its authors report them, in percent."""

    model: str
    split: str
    scores: dict[str, float]
    source: str


class Score(_Strict):
    """One held-out score, in percent, of the checkpoint that the suite goes with."""

    metric: str
    value: float
    n: int
    data: str


class Suite(_Strict):
    """One task. `labels` is in id order; `decoder` is checked by the family that reads it."""

    name: str
    title: str
    language: Literal["ko", "zh", "zh-Hant", "en"]
    family: Family
    labels: list[str]
    label_names: dict[str, str] = {}
    template: str
    max_length: int = Field(gt=0)
    truncation: Literal["right", "left", "longest_first"]
    normalization: Normalization = Normalization()
    decoder: dict[str, Any]
    metrics: list[str] = Field(min_length=1)
    published: list[Published] = []
    scores: list[Score] = []
    examples: list[dict[str, Any]] = Field(min_length=1)

    @field_validator("labels")
    @classmethod
    def _real_labels(cls, labels: list[str]) -> list[str]:
        if len(set(labels)) != len(labels):
            raise ValueError("labels repeat")
        if any(re.fullmatch(r"LABEL_\d+", label) for label in labels):
            # A placeholder says that nobody knows the class order; answers would be numbers in disguise.
            raise ValueError("labels are placeholders; name them in id order")
        return labels


def names() -> list[str]:
    """Names of the packaged suites."""
    return sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.rglob("*.yaml"))


def load(ref: str | Path) -> Suite:
    """Read a packaged suite by name, or a suite file by its path (anything that ends in .yaml)."""
    packaged = not str(ref).endswith(".yaml")
    path = _packaged(str(ref)) if packaged else Path(ref)
    try:
        suite = Suite.model_validate(_read(path))
    except ValidationError as error:
        raise InvalidSuite(f"{path}: {error}") from error
    if packaged and suite.name != str(ref):
        raise InvalidSuite(f"{path}: its name is {suite.name!r}, its path says {str(ref)!r}")
    return suite


def _packaged(name: str) -> Path:
    if name not in names():
        raise UnknownSuite(name)
    return ROOT / f"{name}.yaml"


def _read(path: Path) -> dict[str, Any]:
    """The file's mapping over the one it includes; a top-level key replaces the included one as a whole."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise InvalidSuite(f"{path}: not a mapping")
    base = data.pop("include", None)
    return data if base is None else {**_read(_packaged(base)), **data}
