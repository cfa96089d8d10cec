"""One law over every kind of tokenizer: an entity or an answer begins and ends with its own first and last letter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import Loaded, load

TEXT = "그는 부산 에 갔고 오늘 은 서울 에 있다"
ARCHITECTURES = [
    "bert",
    "klue-roberta",
    "roberta",
    "xlm-roberta",
    "albert",
    "deberta-v2",
    "modernbert",
]
BundleOf = Callable[..., Path]


def covering(model: Loaded, tokens: Any, word: str) -> tuple[int, int]:
    """First and last piece that stand for a character of the word."""
    a = TEXT.index(word)
    inside = [
        i
        for i, (start, end) in enumerate(tokens.spans)
        if start < a + len(word) and end > a and tokens.ids[i] != model.task.encoder.word_mark_id
    ]
    return inside[0], inside[-1]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_entity_is_the_word_and_not_the_space_before_it(bundle_of: BundleOf, architecture: str) -> None:
    model = load(bundle_of("klue/ner", architecture))
    labels = model.task.manifest.labels
    item = model.item(text=TEXT)
    encoded = model.task.encode(item)
    logits = np.zeros((len(encoded.rows[0]["input_ids"]), len(labels)))
    logits[:, labels.index("O")] = 1
    for word, kind in (("부산", "LC"), ("서울", "LC"), ("오늘", "DT")):
        first, last = covering(model, encoded.context.tokens, word)
        for i in range(first, last + 1):
            logits[encoded.context.at + i, labels.index(f"{'B' if i == first else 'I'}-{kind}")] = 9
    got = model.task.decode(item, encoded, [{"logits": logits}])
    assert [(e["text"], e["start"]) for e in got["entities"]] == [(w, TEXT.index(w)) for w in ("부산", "오늘", "서울")]


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name != "modernbert"])
def test_an_answer_is_the_word_and_not_the_space_before_it(bundle_of: BundleOf, architecture: str) -> None:
    model = load(bundle_of("klue/mrc", architecture))
    item = model.item(question="어디?", context=TEXT)
    encoded = model.task.encode(item)
    first, last = covering(model, encoded.context.tokens, "서울")
    n = len(encoded.rows[0]["input_ids"])
    start, end = np.full(n, -9.0), np.full(n, -9.0)
    start[encoded.context.at + first] = end[encoded.context.at + last] = 9
    got = model.task.decode(item, encoded, [{"start_logits": start, "end_logits": end}])
    assert (got["answer"]["text"], got["answer"]["start"]) == ("서울", TEXT.index("서울"))
