"""What is made from the same files is made once, and goes when nobody uses it any more."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

from service.bundle import Bundle
from service.shared import Shared
from service.tasks.encoder import Encoder


class Thing:
    pass


def test_equal_keys_share_one_thing_and_others_do_not() -> None:
    shared: Shared[Thing] = Shared()
    one, two, other = shared.get("a", Thing), shared.get("a", Thing), shared.get("b", Thing)
    assert one is two
    assert one is not other


def test_threads_that_ask_at_once_get_the_same() -> None:
    shared: Shared[Thing] = Shared()

    def slowly() -> Thing:
        sleep(0.02)
        return Thing()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: shared.get("a", slowly), range(8)))
    assert len(set(map(id, found))) == 1


def test_what_nobody_uses_is_made_anew() -> None:
    shared: Shared[Thing] = Shared()
    made: list[int] = []

    def make() -> Thing:
        made.append(1)
        return Thing()

    shared.get("a", make)
    gc.collect()
    shared.get("a", make)
    assert len(made) == 2


def test_bundles_with_the_same_tokenizer_hold_it_once(bundle_of: Callable[..., Path]) -> None:
    one, two = (Encoder(Bundle(bundle_of(name))) for name in ("klue/ynat", "klue/ynat"))
    assert one._tokenizer is two._tokenizer
