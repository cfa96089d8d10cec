"""Trees from scores: as good as the best of all trees, tried one by one."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from service.tasks import trees
from service.types import Array

Heads = tuple[int, ...]


def above(heads: Heads, word: int) -> list[int]:
    """The words from `word` upwards, until the root or a word met before."""
    path: list[int] = []
    while word and word not in path:
        path.append(word)
        word = heads[word - 1]
    return path


def is_tree(heads: Heads) -> bool:
    """By the definition: one word hangs on the root, and no way upwards comes back."""
    return heads.count(0) == 1 and all(heads[above(heads, w)[-1] - 1] == 0 for w in range(1, len(heads) + 1))


def is_projective(heads: Heads) -> bool:
    """By the definition: whatever stands between a word and its head is below that head."""
    arcs = [(w, h) for w, h in enumerate(heads, 1) if h]
    return all(h in above(heads, between) for w, h in arcs for between in range(min(w, h) + 1, max(w, h)))


@cache
def all_trees(words: int) -> list[Heads]:
    return [heads for heads in product(range(words + 1), repeat=words) if is_tree(heads)]


def total(scores: Array, heads: Heads | list[int]) -> float:
    return float(sum(scores[i, j] for i, j in enumerate(heads)))


@st.composite
def scored(draw: st.DrawFn) -> Array:
    """Small whole numbers, so that sums are exact and ties are many."""
    words = draw(st.integers(1, 5))
    whole = arrays(np.int64, (words, words + 1), elements=st.integers(-6, 6))
    found: Array = draw(whole).astype(np.float32)
    return found


def test_the_number_of_trees_is_that_of_the_formula() -> None:
    assert [len(all_trees(n)) for n in range(1, 6)] == [n ** (n - 1) for n in range(1, 6)]


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
def test_trees_are_recognised(words: int) -> None:
    for heads in product(range(words + 1), repeat=words):
        assert trees.is_tree(list(heads)) == is_tree(heads)
        assert trees.is_projective(list(heads)) == (is_tree(heads) and is_projective(heads))


@given(scored())
def test_mst_is_the_best_of_all_trees(scores: Array) -> None:
    found = trees.decode(scores, "mst")
    assert is_tree(tuple(found))
    assert total(scores, found) == max(total(scores, heads) for heads in all_trees(len(scores)))


@given(scored())
def test_projective_is_the_best_of_all_trees_without_crossing_arcs(scores: Array) -> None:
    found = trees.decode(scores, "projective")
    assert is_tree(tuple(found))
    assert is_projective(tuple(found))
    best = max(total(scores, heads) for heads in all_trees(len(scores)) if is_projective(heads))
    assert total(scores, found) == best


@given(scored())
def test_argmax_is_each_words_own_best_head(scores: Array) -> None:
    """The official decoder, whatever comes out: circles, words that are their own heads, no root."""
    assert trees.decode(scores, "argmax") == scores.argmax(axis=1).tolist()


@given(scored(), st.sampled_from(["mst", "projective"]))
def test_scores_are_left_as_they_were(scores: Array, method: trees.Method) -> None:
    before = scores.copy()
    trees.decode(scores, method)
    assert np.array_equal(scores, before)


@pytest.mark.parametrize("method", ["mst", "projective"])
@pytest.mark.parametrize("words", [1, 2, 35, 120])
def test_long_sentences_and_equal_scores_make_trees_too(method: trees.Method, words: int) -> None:
    rng = np.random.default_rng(words)
    for scores in (np.zeros((words, words + 1)), rng.normal(size=(words, words + 1)), nested_circles(words)):
        found = tuple(trees.decode(scores, method))
        assert len(found) == words
        assert is_tree(found)
        if method == "projective":
            assert is_projective(found)


def nested_circles(words: int) -> Array:
    """Every word prefers its neighbours to all others, so that circles lie within circles to the last."""
    place = np.arange(words + 1)
    return -np.abs(place[1:, None] - place[None, :]) * np.linspace(1, 2, words)[:, None]


def test_a_circle_is_opened_where_it_costs_least() -> None:
    #       root  1   2   3
    scores = np.array([[0, -9, 8, 1], [0, 8, -9, 6], [5, 0, 1, -9]], float)
    assert trees.decode(scores, "argmax") == [2, 1, 0]
    # 2 goes to 3 (6 instead of 8) rather than 1 (1 instead of 8).
    assert trees.decode(scores, "mst") == trees.decode(scores, "projective") == [2, 3, 0]


def test_of_two_roots_the_better_stays() -> None:
    scores = np.array([[4, -9, 3], [6, 1, -9]], float)
    assert trees.decode(scores, "argmax") == [0, 0]
    assert trees.decode(scores, "mst") == trees.decode(scores, "projective") == [2, 0]


def test_only_projective_uncrosses_arcs() -> None:
    scores = np.zeros((4, 5))
    for word, head in enumerate((3, 4, 0, 3), 1):
        scores[word - 1, head] = 5
    assert trees.decode(scores, "mst") == [3, 4, 0, 3]
    assert total(scores, trees.decode(scores, "projective")) == 15
