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
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

__all__ = ["InvalidSuite", "Normalization", "Published", "Score", "Suite", "UnknownSuite", "load", "names"]

ROOT = Path(__file__).parent
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
    simplify: bool = Field(False, description="Traditional Chinese characters become Simplified ones, one for one")
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
    """One task. `labels` is in id order; `decoder` is checked by the family that reads it.

    `head` names a head that transformers lacks, with its sizes. A pipeline has `stages`, by name the suite of each, and
    neither template nor limits of its own. `assets` are files of the checkpoint that the bundle takes over.
    `reader` names the suite whose official file format holds the task's data.
    """

    name: str
    title: str
    language: Literal["ko", "zh", "zh-Hant", "en"]
    family: str
    labels: list[str]
    label_names: dict[str, str] = {}
    template: str = ""
    max_length: int | None = Field(None, gt=0)
    truncation: Literal["right", "left", "longest_first"] = "right"
    normalization: Normalization = Normalization()
    head: dict[str, Any] | None = None
    stages: dict[str, Suite] = {}
    assets: list[str] = []
    decoder: dict[str, Any]
    reader: str = ""
    metrics: list[str] = Field(min_length=1)
    published: list[Published] = []
    scores: list[Score] = []
    examples: list[dict[str, Any]] = Field(min_length=1)

    @model_validator(mode="after")
    def _whole(self) -> Suite:
        if self.stages and (self.head or self.template):
            raise ValueError("a pipeline leaves head and template to its stages")
        if not self.stages and not (self.template and self.max_length):
            raise ValueError("template and max_length are missing")
        if self.head is not None and "type" not in self.head:
            raise ValueError("head has no type")
        return self

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
    # A stage that is a file, too, is found from here.
    refs = {n: path.parent / ref if ref.endswith(".yaml") else ref for n, ref in data.pop("stages", {}).items()}
    stages = {name: load(ref).model_dump() for name, ref in refs.items()}
    own = {**data, "stages": stages} if stages else data
    return own if base is None else {**_read(_packaged(base)), **own}
