"""What a head family is: items in, rows to the graph, answers out. No HTTP, padding, batching or threads."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from service.bundle import Bundle, Strict
from service.errors import BundleError, InvalidItem
from service.tasks.encoder import Encoder
from service.text import MAX_MARKS, Unit, is_blank, is_overmarked
from service.types import Answer, Outputs, Row, Run, Timing

Text = Annotated[str, Field(description="text as the user wrote it")]
Overflow = Annotated[
    Literal["truncate", "error"],
    Field(description="what to do with text past the model's limit: read what fits and say so, or answer 422"),
]

FRESH = 1 / 8
"""Least part of a row that windows advance by if a caller sizes them, or one text would be read without end."""


class Item(BaseModel):
    """Fields that every request may carry."""

    model_config = ConfigDict(extra="forbid", strict=True)

    series: ClassVar[str | None] = None
    """A field whose texts are each read and answered for by themselves: they count as items of a batch do."""

    offset_unit: Annotated[Unit, Field(description="what offsets count")] = "codepoint"
    timeout_ms: Annotated[int, Field(ge=1, le=600_000, description="give up, unanswered, after this long")] | None = (
        None
    )
    _split: str | None = PrivateAttr(None)

    def split_by(self, text: str) -> None:
        """Of several versions have the same one answer all items that say the same here. For items that are one answer
        together; no request can ask for it."""
        self._split = text

    @property
    def split(self) -> str:
        """What one of several versions is chosen by: all that the caller asked, but not for how long he waits."""
        return self.model_dump_json(exclude={"timeout_ms"}) if self._split is None else self._split


class Reading(BaseModel):
    """Fields that every answer carries: how much of the input the model read."""

    truncated: bool = Field(description="true if part of the input was past the model's limit and was not read")
    tokens: int = Field(description="tokens that the model read, special tokens included, over all rows")


@dataclass(slots=True)
class Encoded:
    """The rows of one item, and whatever its decoder needs to read their outputs."""

    rows: list[Row]
    truncated: bool = False
    context: Any = None

    @property
    def tokens(self) -> int:
        return sum(int(row["attention_mask"].sum()) for row in self.rows)


class Task(ABC):
    """What one bundle does. A subclass names its `family`, its request and answer models, its decoder parameters."""

    family: ClassVar[str]
    staged: ClassVar[bool] = False
    """Whether it is for bundles that are pipelines of others; a family may have a class of either kind."""
    Input: ClassVar[type[Item]]
    Output: ClassVar[type[BaseModel]]
    Params: ClassVar[type[Strict]]
    text_fields: ClassVar[tuple[str, ...]] = ("text",)

    def __init__(self, bundle: Bundle) -> None:
        self.manifest = bundle.manifest
        try:
            self.params: Any = self.Params.model_validate(bundle.manifest.decoder)
        except ValidationError as error:
            problems = "; ".join(f"decoder.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise BundleError(f"{bundle.folder}: {problems}") from None

    def texts(self, item: Any) -> Iterator[tuple[str, str]]:
        """Every text of an item for the model, with its path in the request."""
        for name in self.text_fields:
            value = getattr(item, name)
            if isinstance(value, str):
                yield name, value
            elif value is not None:
                yield from ((f"{name}.{i}", text) for i, text in enumerate(value))

    def check(self, item: Any) -> None:
        """Refuse what no model needs to see: InvalidItem with the path of the field."""
        for path, text in self.texts(item):
            if is_blank(text):
                raise InvalidItem("the text is empty", field=path, code="empty_text")
            if is_overmarked(text):
                raise InvalidItem(f"a character carries more than {MAX_MARKS} marks", field=path, code="invalid_text")

    def weight(self, item: Any) -> int:
        """Characters that the model will read: the measure of an item before it is tokenised."""
        return sum(len(text) for _, text in self.texts(item))

    def limit(self, item: Any) -> float:
        """Most tokens that will be read of an item, however long it is."""
        return math.inf if getattr(item, "on_overflow", None) == "window" else self.manifest.max_length

    @abstractmethod
    def predict(self, items: Sequence[Any], run: Run, timings: Sequence[Timing]) -> list[Answer | Exception]:
        """Answer items together; an item's own fault is returned in its place and touches nobody else."""


class Head(Task):
    """A task of one graph: rows out, outputs in."""

    outputs: ClassVar[tuple[str, ...]]
    """Graph outputs that `decode` reads."""

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        missing = [name for name in self.outputs if name not in bundle.graph.outputs]
        if missing:
            raise BundleError(f"{bundle.folder}: family {self.family} reads graph outputs {missing}, which it lacks")
        self.encoder = Encoder(bundle)

    @abstractmethod
    def encode(self, item: Any) -> Encoded:
        """Rows of one item. InvalidItem if it holds nothing to read, or overflows and the caller wanted an error."""

    @abstractmethod
    def decode(self, item: Any, encoded: Encoded, outputs: Sequence[Outputs]) -> Answer:
        """The answer of one item from the outputs of its own rows."""

    def predict(self, items: Sequence[Any], run: Run, timings: Sequence[Timing]) -> list[Answer | Exception]:
        results: list[Answer | Exception] = [RuntimeError("not answered")] * len(items)
        encoded: dict[int, Encoded] = {}
        rows: list[Row] = []
        for i, item in enumerate(items):
            start = monotonic()
            try:
                encoded[i] = self.encode(item)
            except Exception as error:
                results[i] = error
            else:
                rows.extend(encoded[i].rows)
                timings[i].tokens = encoded[i].tokens
                timings[i].unknown = self.encoder.unknown(encoded[i].rows)
            timings[i].mark("tokenize", start, monotonic())
        start = monotonic()
        outputs = iter(run(rows)) if rows else iter(())
        end = monotonic()
        for i, e in encoded.items():
            own = [next(outputs) for _ in e.rows]
            timings[i].mark("inference", start, end)
            timings[i].rows = len(rows)
            begin = monotonic()
            try:
                results[i] = self.decode(items[i], e, own)
            except Exception as error:
                results[i] = error
            timings[i].mark("decode", begin, monotonic())
        return results
