"""A bundle: a folder with `bundle.json`, the graph, the tokenizer and nothing that is not named and hashed.

Everything particular to one model (labels, template, limits, decoder parameters) is here, never in code.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from service.errors import BundleError
from service.text import Form

FORMAT = 2
"""Raised with every change of the manifest's schema."""
FILE = "bundle.json"
STORE_FILE = "model.yaml"  # the BentoML store's own
NAME = r"[a-z0-9][a-z0-9._-]*"
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
MAX_MANIFEST = 64 << 20
UNNAMED = re.compile(r"LABEL_\d+", re.IGNORECASE)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Part(Strict):
    """One piece of the input template: a fixed token (`id`) or the tokens of a request field."""

    id: int | None = None
    field: str | None = None
    type: int = 0

    @model_validator(mode="after")
    def _one(self) -> Part:
        if (self.id is None) == (self.field is None):
            raise ValueError("a template part is either a token id or a field")
        return self


class Normalization(Strict):
    """How text is brought to what the model was trained on, before the tokenizer's own normaliser."""

    form: Form = "nfc"
    lowercase: bool = False
    replace: dict[Annotated[str, Field(max_length=1)], Annotated[str, Field(max_length=1, min_length=1)]] = {}


class TokenizerFacts(Strict):
    """What cannot be read from `tokenizer.json` alone."""

    file: str = "tokenizer.json"
    unk_id: int
    special_ids: list[int]
    word_mark_id: int | None = Field(
        None, description="id of a lone word mark such as '▁', which stands for no character"
    )


class Graph(Strict):
    """The ONNX graph: its files, the axes its caller relies on, and how it must be fed."""

    file: str
    encoder: Annotated[str | None, Field(description="graph that goes before `file`; bundles share equal ones")] = None
    precision: Literal["fp32", "fp16", "fp16-packed", "int8"]
    opset: int
    inputs: dict[str, list[str | int]]
    outputs: dict[str, list[str | int]]
    pads: dict[str, int]


class Golden(Strict):
    """A request and the answer that the exporter got from the trained torch model."""

    item: dict[str, Any]
    answer: dict[str, Any]


class Score(Strict):
    """A held-out score of this very checkpoint."""

    metric: str
    value: float
    n: int
    data: str


class Manifest(Strict):
    """`bundle.json`."""

    format: int
    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    family: str
    suite: str
    language: str
    labels: list[str]
    label_names: dict[str, str] = {}
    template: list[Part] = []
    max_length: Annotated[int, Field(gt=2)]
    truncation: Literal["right", "left", "longest_first"]
    normalization: Normalization
    decoder: dict[str, Any]
    tokenizer: TokenizerFacts | None = None
    graph: Graph | None = None
    stages: Annotated[list[str], Field(description="sub-folders, each a bundle: a pipeline has no graph itself")] = []
    golden: Annotated[list[Golden], Field(min_length=1)]
    tolerance: float = Field(description="largest difference of a score from its golden record")
    scores: list[Score]
    provenance: dict[str, Any]
    files: dict[str, str] = Field(description="file name -> sha256 of every other file")

    @model_validator(mode="after")
    def _named(self) -> Manifest:
        unnamed = [label for label in self.labels if UNNAMED.fullmatch(label)]
        if unnamed:
            raise ValueError(f"labels without names: {', '.join(unnamed)}; a class order cannot be guessed")
        strange = [name for name in self.files if not FILE_NAME.fullmatch(name) or name in (FILE, STORE_FILE)]
        if strange:
            raise ValueError(f"{strange[0]!r} cannot be a file of a bundle: all of them lie beside {FILE}")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("labels must be unique")
        if self.stages:
            if self.graph or self.tokenizer or self.template:
                raise ValueError("a pipeline leaves graph, tokenizer and template to its stages")
            return self
        if self.graph is None or self.tokenizer is None:
            raise ValueError("graph and tokenizer, or else stages, are missing")
        for file in (self.graph.file, self.graph.encoder, self.tokenizer.file):
            if file and file not in self.files:
                raise ValueError(f"{file} is not listed under files")
        return self


class Bundle:
    """A manifest and the folder it lies in. Reading it checks the manifest; `verify` checks the files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / FILE
        try:
            raw = _read(path)
            self.version = version_of(folder)
        except OSError as error:
            raise BundleError(f"{folder} cannot be read: {error.strerror}") from None
        if isinstance(raw, dict) and raw.get("format", FORMAT) != FORMAT:
            raise BundleError(
                f"{path} has format {raw['format']!r}, this version reads {FORMAT}: export the bundle again"
            )
        try:
            self.manifest = Manifest.model_validate(raw)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or FILE}: {e['msg']}" for e in error.errors())
            raise BundleError(f"{path}: {problems}") from None
        if any(not re.fullmatch(NAME, stage) or (folder / stage).is_symlink() for stage in self.manifest.stages):
            raise BundleError(f"{path}: a stage is a folder beside {FILE}")
        self.stages = {stage: Bundle(folder / stage) for stage in self.manifest.stages}

    @property
    def graph(self) -> Graph:
        if self.manifest.graph is None:
            raise BundleError(f"{self.folder} is a pipeline: its graphs are those of {', '.join(self.stages)}")
        return self.manifest.graph

    @property
    def tokenizer(self) -> TokenizerFacts:
        if self.manifest.tokenizer is None:
            raise BundleError(f"{self.folder} is a pipeline: its tokenizers are those of {', '.join(self.stages)}")
        return self.manifest.tokenizer

    @property
    def parts(self) -> list[Bundle]:
        """The bundles with a graph: itself, or its stages."""
        return [part for stage in self.stages.values() for part in stage.parts] or [self]

    @property
    def precision(self) -> str:
        return "/".join(dict.fromkeys(part.graph.precision for part in self.parts))

    @property
    def size(self) -> int:
        """Bytes of its files, those of its stages included."""
        return sum(path.stat().st_size for path in self.folder.rglob("*"))

    @property
    def tokenizer_path(self) -> Path:
        return self.folder / self.tokenizer.file

    def asset(self, name: str) -> Path:
        """A further file of the bundle; BundleError if the manifest does not list it."""
        if name not in self.manifest.files:
            raise BundleError(f"{self.folder}: {name} is not listed under files in {FILE}")
        return self.folder / name

    def verify(self) -> None:
        """Every file that the manifest names is there and is the one that was exported, and there are no others."""
        known = self.manifest.files.keys() | self.stages.keys() | {FILE, STORE_FILE}
        strange = {p.name for p in self.folder.iterdir()} - known
        if strange:
            raise BundleError(f"{self.folder}: {', '.join(sorted(strange))} is not listed in {FILE}")
        for name, expected in self.manifest.files.items():
            path = self.folder / name
            if path.is_symlink():
                raise BundleError(f"{self.folder}: {name} is a link; a bundle holds its files itself")
            if not path.is_file():
                raise BundleError(f"{self.folder}: {name} is listed in {FILE} but missing")
            if sha256(path) != expected:
                raise BundleError(f"{self.folder}: {name} is not the file that was exported (sha256 differs)")
        for stage in self.stages.values():
            stage.verify()


def _read(path: Path) -> Any:
    if not _is_here(path):
        raise BundleError(f"{path.parent} is not a bundle: {FILE} is missing")
    if path.stat().st_size > MAX_MANIFEST:
        raise BundleError(f"{path} is larger than {MAX_MANIFEST >> 20} MiB")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not JSON: {error}") from None


def version_of(folder: Path) -> str:
    """A bundle's version in the BentoML store; the beginning of its manifest's hash if it lies elsewhere."""
    return folder.name if (folder / STORE_FILE).is_file() else sha256(folder / FILE)[:12]


def _is_here(path: Path) -> bool:
    """Whether it is a file of its own: not a link to somewhere, nor a pipe that never ends."""
    return path.is_file() and not path.is_symlink()


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
