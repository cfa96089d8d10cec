"""Whether a model still works: one that fails on everything is taken out alone, and comes back by itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("bentoml.clueserve")

# So many failures in a row, whoever's items they were, are a reason to look.
FAILURES = 5
# Seconds between two looks at a model that is out; doubled each time.
FIRST, LONGEST = 1.0, 60.0


class Health:
    """Counts a model's failures in a row. After too many its golden records decide: items that it cannot stand are
    their callers' misfortune, golden records that fail are everybody's.

    `prove` raises what is wrong with the model. `tell(well)` hears of every change. `reason`: why it is out, or None.
    """

    def __init__(
        self, name: str, prove: Callable[[], None] = lambda: None, tell: Callable[[bool], None] = lambda _: None
    ) -> None:
        self.name = name
        self.reason: str | None = None
        self._prove = prove
        self._tell = tell
        self._failures = 0
        self._looking = False
        self._closed = threading.Event()

    def note(self, failed: bool) -> None:
        """How an item ended; called by whatever thread ran it."""
        self._failures = self._failures + 1 if failed else 0
        if self._failures >= FAILURES and not self._looking:
            self._looking = True
            threading.Thread(target=self._look, name=f"health-{self.name}", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _look(self) -> None:
        """Prove the model until it passes."""
        pause = FIRST
        while problem := self._problem():
            if self.reason is None:
                log.error("%s is taken out: %s", self.name, problem)
                self.reason = problem
                self._tell(False)
            if self._closed.wait(pause):
                return
            pause = min(2 * pause, LONGEST)
        self._failures = 0
        if self.reason is not None:
            log.warning("%s works again", self.name)
            self.reason = None
            self._tell(True)
        self._looking = False

    def _problem(self) -> str | None:
        try:
            self._prove()
        except Exception as error:
            return f"it fails on its own golden records ({type(error).__name__}: {error})"
        return None
