"""Tags chained by a CRF: the decoder against every sequence there is, and entities over windows and special tokens."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import SPECIALS, Loaded, copy, edit, gather, load, vocabulary

from service.errors import BundleError
from service.tasks.viterbi import Crf, best_path, decode, marginals

Copy = Callable[..., Path]
Arrays = tuple[Any, Any, Any, Any]


@st.composite
def chains(draw: st.DrawFn, exact: bool = False) -> Arrays:
    """Emissions [T, C] and a chain over C classes; `exact` draws few numbers, so that sequences tie."""
    length, classes = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    number = st.integers(-2, 2).map(float) if exact else st.floats(-9, 9, allow_subnormal=False)

    def array(*shape: int) -> Any:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(number, min_size=size, max_size=size))).reshape(shape)

    return array(length, classes), array(classes, classes), array(classes), array(classes)


def score(path: tuple[int, ...], emissions: Any, transitions: Any, start: Any, end: Any) -> float:
    steps = sum(float(transitions[a, b]) for a, b in itertools.pairwise(path))
    return float(start[path[0]] + end[path[-1]] + sum(emissions[t, c] for t, c in enumerate(path)) + steps)


def everything(emissions: Any) -> list[tuple[int, ...]]:
    length, classes = emissions.shape
    return list(itertools.product(range(classes), repeat=length))


@given(chains() | chains(exact=True))
def test_no_sequence_scores_higher_than_the_one_that_is_found(chain: Arrays) -> None:
    found = score(tuple(best_path(*chain).tolist()), *chain)
    assert found == pytest.approx(max(score(path, *chain) for path in everything(chain[0])), abs=1e-9)


@given(chains())
def test_probabilities_are_shares_of_all_sequences(chain: Arrays) -> None:
    paths = everything(chain[0])
    weights = np.exp([score(path, *chain) for path in paths])
    want = np.zeros(chain[0].shape)
    for path, weight in zip(paths, weights / weights.sum(), strict=True):
        want[np.arange(len(path)), path] += weight
    assert np.allclose(marginals(*chain), want, atol=1e-9)


def test_worked_values() -> None:
    emissions = np.array([[1.0, 0.0], [0.0, 0.4], [0.0, 0.1]])
    transitions, zero = np.array([[0.0, -1.0], [-1.0, 0.0]]), np.zeros(2)
    assert emissions.argmax(axis=1).tolist() == [0, 1, 1]
    assert best_path(emissions, transitions, zero, zero).tolist() == [0, 0, 0], "a change costs more than it gains"
    assert best_path(emissions, transitions, zero, np.array([0.0, 2.0])).tolist() == [0, 1, 1]
    assert best_path(emissions, transitions, np.array([-3.0, 0.0]), zero).tolist() == [1, 1, 1]
    assert best_path(emissions, transitions.T * 0, zero, zero).tolist() == [0, 1, 1]


def test_direction_of_transitions_is_from_row_to_column() -> None:
    only = np.full((3, 3), -1e4)
    only[0, 1] = only[1, 2] = 0.0
    assert best_path(np.zeros((3, 3)), only, np.zeros(3), np.zeros(3)).tolist() == [0, 1, 2]


def test_a_long_sequence_of_large_numbers_stays_finite() -> None:
    rng = np.random.default_rng(0)
    emissions = rng.normal(scale=200, size=(3000, 5)).astype(np.float32)
    chain = [rng.normal(scale=50, size=size) for size in ((5, 5), 5, 5)]
    p = marginals(emissions, *chain)
    assert np.isfinite(p).all()
    assert np.allclose(p.sum(axis=1), 1)
    assert len(best_path(emissions, *chain)) == 3000


def test_a_chain_without_preferences_is_a_softmax_of_each() -> None:
    emissions = np.random.default_rng(1).normal(size=(6, 4))
    path, probability = decode(emissions, Crf(transitions=[[0.0] * 4] * 4, start=[0.0] * 4, end=[0.0] * 4, span="all"))
    assert path.tolist() == emissions.argmax(axis=1).tolist()
    alone = np.exp(emissions) / np.exp(emissions).sum(axis=1, keepdims=True)
    assert np.allclose(probability, alone.max(axis=1))


LABELS = ["O", "B-LOC", "I-LOC"]
PIECES = {"他": (9, 0, 0), "在": (9, 0, 0), "北": (0, 6, 4), "京": (2, 0, 1), "南": (3, 0, 2), "。": (9, 0, 0)}
# From O to I-LOC never; from B-LOC to I-LOC gladly.
TRANSITIONS = [[0.0, 0.0, -99.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]
FREE = {"start": [0.0] * 3, "end": [0.0] * 3}


@pytest.fixture
def chained(copy_of: Copy) -> Callable[..., Loaded]:
    """A bundle whose graph scores each character by a table, and a chain over its tags."""

    def make(special: tuple[float, float, float] = (9, 0, 0), **crf: Any) -> Loaded:
        folder = copy_of("clue/cluener", decoder={"crf": {"transitions": TRANSITIONS, "span": "all"} | FREE | crf})
        edit(folder, labels=LABELS, decoder={"scheme": "IOB2", "orphan_inside": "drop", "ignore_labels": []})
        edit(folder, decoder={"lone_begin": "keep"}, graph={"outputs": {"logits": ["sequence_length", 3]}})
        vocabulary(folder, list(PIECES))
        gather(folder / "model.onnx", {"logits": np.array([special] * len(SPECIALS) + [*PIECES.values()], np.float32)})
        return load(folder)

    return make


def found(answer: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(e["text"], e["start"], e["end"]) for e in answer["entities"]]


def test_the_chain_finds_what_single_tags_do_not(chained: Callable[..., Loaded]) -> None:
    answer = chained().ask(text="他在北京。", tags=True)
    assert found(answer) == [("北京", 2, 4)], "京 by itself is outside"
    assert answer["tags"] == ["O", "O", "B-LOC", "I-LOC", "O"]
    assert 0.5 < answer["entities"][0]["score"] <= 1


def test_special_tokens_belong_to_the_chain_where_it_was_trained_so(chained: Callable[..., Loaded]) -> None:
    special = (0, 0, 9)  # [CLS] and [SEP] look like the inside of an entity
    start = {"transitions": [[0.0, 0.0, -99.0], [0.0, 0.0, 3.0], [-99.0, -99.0, 4.0]]}
    assert found(chained(special, span="all", **start).ask(text="南")) == [], (
        "inside, but of nothing that the text holds"
    )
    assert chained(special, span="all", **start).ask(text="南", tags=True)["tags"] == ["I-LOC"]
    assert chained(special, span="text", **start).ask(text="南", tags=True)["tags"] == ["O"]


def test_start_and_end_count_once_however_many_windows(chained: Callable[..., Loaded]) -> None:
    """Every 北京 is found once, and a chain that must not end inside changes the last one only."""
    text = "他在北京。" * 60 + "北京"
    places = [("北京", 5 * i + 2, 5 * i + 4) for i in range(60)]
    assert found(chained().ask(text=text)) == [*places, ("北京", 300, 302)]
    last = chained(span="text", end=[0.0, 0.0, -99.0]).ask(text=text)
    assert found(last) == [*places, ("北", 300, 301)]
    first = chained(span="text", start=[0.0, -99.0, 0.0]).ask(text="北京" + text)
    assert found(first)[0] != ("北京", 0, 2)
    assert len(found(first)) == 61 + (found(first)[0][1] == 0)


def test_answers_do_not_depend_on_company(loaded: Callable[[str], Loaded]) -> None:
    model = loaded("clue/cluener-crf")
    text = "张伟在北京大学读书"
    alone = model.ask(text=text)
    together = model.ask_all([{"text": "记者从上海市教育局了解到，" * 40}, {"text": text}, {"text": "。"}])[1]
    assert found(together) == found(alone) != []
    scores = [[e["score"] for e in answer["entities"]] for answer in (together, alone)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


@pytest.mark.parametrize(
    ("crf", "problem"),
    [
        ({"start": [0.0]}, "transitions, start and end are of different sizes"),
        ({"span": "some"}, "decoder.crf.span"),
        ({"transitions": [[0.0]], "start": [0.0], "end": [0.0]}, "the CRF has 1 tags, the bundle names 34"),
    ],
)
def test_a_chain_that_does_not_fit_is_refused(copy_of: Copy, crf: dict[str, Any], problem: str) -> None:
    with pytest.raises(BundleError, match=problem):
        load(copy_of("clue/cluener-crf", decoder={"crf": crf}))


def test_a_bundle_of_the_suite_has_its_chain(bundle_of: Callable[[str], Path], tmp_path: Path) -> None:
    task = load(copy(bundle_of("clue/cluener-crf"), tmp_path / "copy")).task
    assert np.array(task.params.crf.transitions).shape == (34, 34)
    assert task.params.crf.span == "all"
