"""A text that is asked about many times in one take is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from kit import Loaded

TEXT = "糖尿病患者多饮，用二甲双胍。" * 30


class Counting:
    """A tokenizer that counts what it reads."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.seen: Counter[str] = Counter()

    def encode(self, text: str, **options: Any) -> Any:
        self.seen[text] += 1
        return self.tokenizer.encode(text, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)


@pytest.fixture
def watched(
    loaded: Callable[[str], Loaded], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[Loaded, Counting]]:
    def watch(suite: str) -> tuple[Loaded, Counting]:
        model = loaded(suite)
        counting = Counting(model.task.encoder._tokenizer)
        monkeypatch.setattr(model.task.encoder, "_tokenizer", counting)
        return model, counting

    return watch


def test_a_text_beside_many_others_is_tokenised_once(watched: Callable[[str], tuple[Loaded, Counting]]) -> None:
    model, counting = watched("clue/afqmc")
    requests = [{"text": TEXT, "text_pair": f"第{i}期"} for i in range(50)]
    got = model.ask_all(requests)
    assert counting.seen[TEXT] == 1
    for request, answer in zip(requests, got, strict=True):
        alone = model.ask(**request)
        assert answer["tokens"] == alone["tokens"]
        assert answer["score"] == pytest.approx(alone["score"], abs=1e-5)


def test_what_stands_around_many_pairs_of_spans_is_tokenised_for_each_span(
    watched: Callable[[str], tuple[Loaded, Counting]],
) -> None:
    model, counting = watched("klue/re")
    places = [{"start": i, "end": i + 2, "type": "PER"} for i in range(0, 60, 4)]
    pairs = [{"text": TEXT, "subject": s, "object": o} for s, o in product(places, places) if s != o]
    model.ask_all(pairs)
    far = [text for text in counting.seen.elements() if len(text) > 300]
    assert len(far) <= 2 * len(places) < len(pairs)


def test_nothing_is_remembered_for_the_next_take(watched: Callable[[str], tuple[Loaded, Counting]]) -> None:
    model, counting = watched("clue/afqmc")
    for _ in range(2):
        model.ask(text=TEXT, text_pair="第一期")
    assert counting.seen[TEXT] == 2
