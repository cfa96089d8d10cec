"""Text without models: normalisation that remembers where every character came from, units, windows.

Offsets are code points of the caller's exact string, ends exclusive. Nothing here knows a tokenizer or a task.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, cast

from service.graphemes import INVISIBLE, around

Form = Literal["nfc", "nfkc", "none"]
Unit = Literal["codepoint", "utf16", "byte"]

MAX_MARKS = 32


def _overmarked(last: int) -> re.Pattern[str]:
    # By what a character is put apart into: a few are no marks themselves, but those are what they stand for.
    apart = ((c, unicodedata.normalize("NFKD", c)) for c in map(chr, range(0x300, last)))
    marks = "".join(c for c, whole in apart if unicodedata.combining(whole[0]))
    return re.compile(f"[{marks}]{{{MAX_MARKS + 1}}}")


# Two, because a class within the basic plane is searched fifteen times as fast.
_OVERMARKED, _OVERMARKED_ASTRAL, _ASTRAL = (
    _overmarked(0x10000),
    _overmarked(0x1E951),
    re.compile("[\U00010000-\U0010ffff]"),
)
_VISIBLE = re.compile(rf"[^\s{INVISIBLE}]")


@dataclass(frozen=True, slots=True)
class Normalized:
    """What the tokenizer reads, and where each of its characters lies in the caller's string."""

    original: str
    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    _inside: dict[int, tuple[int, int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in `text` -> offsets in `original`, widened to whole graphemes. `start < end`.

        However many spans are asked for, each grapheme is walked through once.
        """
        first, last = self.starts[start], self.ends[end - 1]
        return around(self.original, first, self._inside)[0], around(self.original, last, self._inside)[1]

    def position(self, offset: int) -> int:
        """An offset of `original` -> the first offset of `text` at or after it."""
        return bisect_left(self.starts, offset)


def normalize(
    text: str, form: Form = "nfc", lowercase: bool = False, replace: dict[int, str] | None = None
) -> Normalized:
    """Bring `text` to a Unicode form, drop invisible characters, then lower-case and replace characters one by one."""
    plain = form == "none" or unicodedata.is_normalized(_name(form), text)
    if plain and not any(c in text for c in INVISIBLE):
        out, starts, ends = text, cast(Sequence[int], range(len(text))), cast(Sequence[int], range(1, len(text) + 1))
    else:
        out, starts, ends = _compose(text, form)
    if lowercase:
        # A character whose lower case is longer (İ) stays, so that offsets do.
        out = "".join(low if len(low := c.lower()) == 1 else c for c in out)
    if replace:
        out = out.translate(replace)
    return Normalized(text, out, starts, ends)


def _name(form: Form) -> Literal["NFC", "NFKC"]:
    return "NFKC" if form == "nfkc" else "NFC"


def _compose(text: str, form: Form) -> tuple[str, list[int], list[int]]:
    """Normalise segment by segment; a segment ends where its neighbours do not change each other."""
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []

    def flush(segment: str, start: int, end: int) -> None:
        if segment:
            piece = segment if form == "none" else unicodedata.normalize(_name(form), segment)
            pieces.append(piece)
            starts.extend([start] * len(piece))
            ends.extend([end] * len(piece))

    segment, begin, last = "", 0, 0
    for i, c in enumerate(text):
        if c in INVISIBLE:
            continue
        if segment and form != "none" and _joins(segment, c, _name(form)):
            segment, last = segment + c, i + 1
            continue
        flush(segment, begin, last)
        segment, begin, last = c, i, i + 1
    flush(segment, begin, last)
    return "".join(pieces), starts, ends


def _joins(segment: str, c: str, form: Literal["NFC", "NFKC"]) -> bool:
    """Does `c` normalise otherwise behind `segment` than by itself?

    A mark always counts as joined: a later one may compose across it.
    """
    single = unicodedata.normalize(form, c)
    if unicodedata.combining(single[0]):
        return True
    return unicodedata.normalize(form, segment + c) != unicodedata.normalize(form, segment) + single


def is_blank(text: str) -> bool:
    """Nothing but white space and invisible characters? Looks only as far as it must: it runs on the event loop."""
    return _VISIBLE.search(text) is None


def is_overmarked(text: str) -> bool:
    """More than MAX_MARKS combining marks in a row? Putting them in order takes time with the square of their number.

    Unicode's stream-safe format has thirty at most; no language comes near. Invisible characters, which are dropped,
    leave what is around them in a row.
    """
    for c in INVISIBLE:
        text = text.replace(c, "")
    return (_OVERMARKED_ASTRAL if _ASTRAL.search(text) else _OVERMARKED).search(text) is not None


class Offsets:
    """Converts between code points and the unit that one caller counts in."""

    def __init__(self, text: str, unit: Unit) -> None:
        self._to: list[int] | None = None
        if unit != "codepoint":
            width = _utf16_width if unit == "utf16" else _utf8_width
            self._to = [0]
            for c in text:
                self._to.append(self._to[-1] + width(c))

    def outward(self, offset: int) -> int:
        """Code points -> the caller's unit."""
        return offset if self._to is None else self._to[offset]

    def inward(self, offset: int) -> int | None:
        """The caller's unit -> code points; None if it falls inside a character or outside the text."""
        if self._to is None:
            return offset
        i = bisect_left(self._to, offset)
        return i if i < len(self._to) and self._to[i] == offset else None


def _utf16_width(c: str) -> int:
    return 2 if c > "\uffff" else 1


def _utf8_width(c: str) -> int:
    return 1 if c < "\x80" else 2 if c < "\u0800" else 3 if c <= "\uffff" else 4


def windows(length: int, room: int, step: int, breaks: Sequence[Sequence[int]] = ()) -> list[tuple[int, int]]:
    """Cover `length` tokens with windows of at most `room` that start `step` apart: [(start, end)], at least one.

    `breaks` are places where a text parts, best kind first. A window that would be cut ends at the last one of the best
    kind that does not leave it too short, and the next begins there.
    """
    if room < 1 or not 0 < step <= room:
        raise ValueError(f"a window of {room} tokens cannot advance by {step}")
    out = [(0, min(room, length))]
    while out[-1][1] < length:
        start, end = out[-1]
        last = (places[bisect_right(places, end) - 1] for places in breaks if places and places[0] <= end)
        at = next((place for place in last if place > start + room // 3), None)
        if at is not None:
            out[-1] = (start, at)
        begin = start + step if at is None else at
        out.append((begin, min(begin + room, length)))
    return out


def owners(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """For windows in order, the tokens each one answers for: overlaps are cut in their middle.

    A token is thus read where it has the most context, once, and spans merge without duplicates.
    """
    cuts = [(end + start) // 2 for (_, end), (start, _) in pairwise(spans)]
    return list(zip([spans[0][0], *cuts], [*cuts, spans[-1][1]], strict=True))
