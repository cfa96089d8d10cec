"""What families share that read a text past the model's limit in overlapping windows, a row each."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, PrivateAttr

from service.bundle import Bundle, Strict
from service.errors import BundleError, InvalidItem
from service.tasks.base import FRESH, Encoded, Head, Item, Text
from service.tasks.encoder import Tokens, breaks, refuse_overflow
from service.text import Normalized, windows


class WindowParams(Strict):
    """`alignment`: pieces of the tokenizer, or one look-up a character. `stride`: tokens that neighbouring windows
    share, unless they part behind a mark of `break_after`, best kind first."""

    alignment: Literal["token", "char"] = "token"
    stride: Annotated[int, Field(ge=0)]
    break_after: list[str] = []


class WindowedItem(Item):
    text: Text
    threshold: Annotated[float, Field(ge=0, le=1, description="leave out what scores below this")] | None = None
    on_overflow: Annotated[
        Literal["window", "truncate", "error"],
        Field(description="text past the model's limit: read it in windows, read what fits and say so, or answer 422"),
    ] = "window"
    _stride: int | None = PrivateAttr(None)

    def with_stride(self, stride: int) -> Self:
        """Have windows overlap otherwise than the bundle says. No request can ask for it: it is for protocols whose
        clients do."""
        self._stride = stride
        return self


class Context(NamedTuple):
    """A text as it was read: its tokens, the windows over them, and where a row's first token of text lies."""

    text: Normalized
    tokens: Tokens
    windows: list[tuple[int, int]]
    at: int


class Windowed(Head):
    """`params.stride` must leave a way forward in the room that the template leaves a text."""

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self._room = self.encoder.max_length - self.encoder.fixed
        if not 0 <= self.params.stride < self._room:
            raise BundleError(
                f"{bundle.folder}: stride {self.params.stride} leaves no way forward in windows of {self._room}"
            )

    def check(self, item: Any) -> None:
        super().check(item)
        most = int(self._room * (1 - FRESH))
        if isinstance(item, WindowedItem) and (item._stride or 0) > max(most, self.params.stride):
            why = f"windows of {self._room} tokens share at most {most} with their neighbours"
            raise InvalidItem(why, field="stride", code="unsupported_parameter")

    def encode(self, item: Any) -> Encoded:
        text = self.encoder.normalize(item.text)
        if self.params.alignment == "char":
            tokens = self.encoder.characters(text.text)
        else:
            tokens = self.encoder.tokenize(text.text, "text")
        if len(tokens) > self._room and item.on_overflow == "error":
            raise refuse_overflow("text", len(tokens), self._room)
        places = breaks(text.text, tokens, self.params.break_after)
        stride = self.params.stride if item._stride is None else item._stride
        spans = windows(len(tokens), self._room, self._room - stride, places)
        truncated = item.on_overflow == "truncate" and len(spans) > 1
        if truncated:
            spans = spans[:1]
        built = [self.encoder.row({"text": tokens.ids[start:end]}) for start, end in spans]
        return Encoded([row for row, _ in built], truncated, Context(text, tokens, spans, built[0][1]["text"]))
