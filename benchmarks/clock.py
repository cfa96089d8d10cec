"""What a long command tells whoever waits for it."""

from __future__ import annotations

import sys
from time import monotonic


class Clock:
    """Says on stderr what begins, and how many seconds after the clock was made."""

    def __init__(self) -> None:
        self._begun = monotonic()

    def __call__(self, text: str) -> None:
        print(f"{monotonic() - self._begun:5.0f} s  {text}", file=sys.stderr, flush=True)
