"""What several bundles have in common is in memory once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

Thing = TypeVar("Thing")


class Shared(Generic[Thing]):
    """Things by what they were made from, such as the hashes of files, for as long as somebody uses them."""

    def __init__(self) -> None:
        self._things: WeakValueDictionary[Hashable, Thing] = WeakValueDictionary()
        self._making = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Thing]) -> Thing:
        """The thing that is there already, or else a new one."""
        with self._making:
            thing = self._things.get(key)
            if thing is None:
                self._things[key] = thing = make()
            return thing
