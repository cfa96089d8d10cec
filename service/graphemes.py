"""Graphemes: what readers take for one character, and no span may open."""

from __future__ import annotations

import unicodedata

# Invisible and without a meaning for words: zero width space, word joiner, byte order mark. BERT's cleaning drops
# them, SentencePiece turns them into a space in the middle of a word; dropping them first makes both agree.
INVISIBLE = "\u200b\u2060\ufeff"
ZWJ = "\u200d"
MAX_GRAPHEME = 64
"""Code points of the longest grapheme that is kept whole; the longest emoji sequence has ten."""
_INDICATORS = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def around(text: str, i: int, inside: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """The boundaries before and behind `i`, which is both if it is one. `inside` remembers the graphemes of a text.

    What would be longer than MAX_GRAPHEME parts in pieces of it: each of a thousand marks is not worth all of them.
    """
    if is_boundary(text, i):
        return i, i
    if i not in inside:
        start, end = i - 1, i + 1
        while not is_boundary(text, start):
            start -= 1
        while not is_boundary(text, end):
            end += 1
        for j in range(start + 1, end):
            first = start + (j - start) // MAX_GRAPHEME * MAX_GRAPHEME
            inside[j] = (first, min(first + MAX_GRAPHEME, end)) if first < j else (j, j)
    return inside[i]


def is_boundary(text: str, i: int) -> bool:
    """May a span begin or end before `text[i]`? Not in a Hangul syllable, before a mark, or in an emoji sequence."""
    if i <= 0 or i >= len(text) or text[i] < "\u0300":
        return True
    before, after = text[i - 1], text[i]
    if after == ZWJ:
        return before in INVISIBLE or before.isspace()
    if before == ZWJ:
        return not (unicodedata.category(after).startswith("S") or _extends(after))
    return not (_extends(after) or _jamo_joins(before, after) or _second_of_flag(text, i))


def _extends(c: str) -> bool:
    """Marks, skin tones, and the letters of a subdivision's flag belong to what stands before them."""
    tone, letter = "\U0001f3fb" <= c <= "\U0001f3ff", "\U000e0020" <= c <= "\U000e007f"
    return tone or letter or unicodedata.category(c) in ("Mn", "Me", "Mc")


def _second_of_flag(text: str, i: int) -> bool:
    """Is `text[i]` the second of a pair of regional indicators? They pair up from the left."""
    if text[i] not in _INDICATORS:
        return False
    # Looks back only so far: a text of nothing but indicators must not be read anew for each of them.
    before = text[max(0, i - MAX_GRAPHEME) : i]
    return (len(before) - len(before.rstrip(_INDICATORS))) % 2 == 1


def _jamo_joins(before: str, after: str) -> bool:
    """Do two code points belong to one Hangul syllable: a consonant and its vowel, or a syllable and its final?

    Narrower than Unicode's grapheme rules, which would glue the lone jamo of laughter and tears to a name beside them.
    """
    return (_hangul(before), _hangul(after)) in {("L", "V"), ("V", "T"), ("LV", "T")}


def _hangul(c: str) -> str:
    o = ord(c)
    if 0x1100 <= o <= 0x115F or 0xA960 <= o <= 0xA97C:
        return "L"
    if 0x1160 <= o <= 0x11A7 or 0xD7B0 <= o <= 0xD7C6:
        return "V"
    if 0x11A8 <= o <= 0x11FF or 0xD7CB <= o <= 0xD7FB:
        return "T"
    if 0xAC00 <= o <= 0xD7A3:
        return "LV" if (o - 0xAC00) % 28 == 0 else "LVT"
    return ""
