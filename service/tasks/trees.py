"""Scores of every head for every word -> one head a word. Exact, in numpy; knows no model and no label.

`scores` is `[words, words + 1]`: row `i` is word `i + 1`, column `j` says how well word `j` is its head, 0 is the root.
Heads come back as one such `j` a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from service.types import Array

Method = Literal["argmax", "mst", "projective"]


def decode(scores: Array, method: Method) -> list[int]:
    """Heads by one of three methods.

    `argmax`: the best head of every word for itself, which may make circles and any number of roots.
    `mst`: the tree of the greatest sum of scores with exactly one root (Chu and Liu, 1965; Edmonds, 1967).
    `projective`: the same among trees whose arcs do not cross (Eisner, 1996).
    """
    scores = scores.astype(np.float64)
    if method == "argmax":
        return _best(scores)
    valid, search = _METHODS[method]
    scores = scores.copy()
    np.fill_diagonal(scores[:, 1:], -np.inf)  # no word is its own head
    heads = _best(scores)
    # Nothing can beat every word's own best head.
    return heads if valid(heads) else search(scores)


def _best(scores: Array) -> list[int]:
    return [int(j) for j in scores.argmax(axis=1)]


def is_tree(heads: list[int]) -> bool:
    """Exactly one root, and every word leads up to it."""
    return heads.count(0) == 1 and _circle([-1, *heads]) is None


def is_projective(heads: list[int]) -> bool:
    """A tree in which every word between a word and its head is below that head."""
    if not is_tree(heads):
        return False
    arcs = [(min(i, j), max(i, j)) for i, j in enumerate(heads, 1)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


def _circle(heads: list[int]) -> list[int] | None:
    """The nodes of a circle, or None if all lead to node 0, whose own head does not count."""
    seen = [0] * len(heads)  # which walk came by
    for start in range(1, len(heads)):
        node = start
        while node and not seen[node]:
            seen[node] = start
            node = heads[node]
        if node and seen[node] == start:
            circle = [node]
            while heads[circle[-1]] != node:
                circle.append(heads[circle[-1]])
            return circle
    return None


def _mst(scores: Array) -> list[int]:
    """A tree needs one root at least. A fine on roots that outweighs all scores together leaves it at one."""
    finite = scores[np.isfinite(scores)]
    fine = (finite.max() - finite.min() + 1.0) * len(scores)
    square = np.full((len(scores) + 1,) * 2, -np.inf)
    square[1:] = scores
    square[1:, 0] -= fine
    return _edmonds(square)[1:]


def _edmonds(scores: Array) -> list[int]:
    """Best heads of nodes `1..n-1` that lead to node 0, from `scores[node, head]`; the head of node 0 is no head."""
    heads = [-1, *_best(scores[1:])]
    circle = _circle(heads)
    if circle is None:
        return heads
    # The circle becomes one node, the last of a smaller graph. What it costs to break it open at one of its nodes is
    # part of the score of the arc that enters there.
    rest = [node for node in range(len(scores)) if node not in set(circle)]
    entering = scores[np.ix_(circle, rest)] - scores[circle, [heads[node] for node in circle]][:, None]
    leaving = scores[np.ix_(rest, circle)]
    small = np.full((len(rest) + 1,) * 2, -np.inf)
    small[:-1, :-1] = scores[np.ix_(rest, rest)]
    small[-1, :-1] = entering.max(axis=0)
    small[:-1, -1] = leaving.max(axis=1)
    found = _edmonds(small)
    for i, j in enumerate(found[:-1]):
        if i:
            heads[rest[i]] = circle[int(leaving[i].argmax())] if j == len(rest) else rest[j]
    heads[circle[int(entering[:, found[-1]].argmax())]] = rest[found[-1]]
    return heads


def _eisner(scores: Array) -> list[int]:
    """Half trees over growing spans `i..j` of words: `left[i, j]` is the best below `j`, `right[i, j]` below `i`."""
    words = len(scores)
    arcs = scores[:, 1:]
    left, right, meeting = (np.zeros((words, words)) for _ in range(3))
    left_cut, right_cut, meeting_cut = (np.zeros((words, words), dtype=np.int64) for _ in range(3))

    def best(values: Array, cuts: Array, chances: Array, places: Array) -> None:
        """Fill in the spans of one width from the chances of each place to cut them."""
        chosen = chances.argmax(axis=1)
        values[i, j], cuts[i, j] = chances[i, chosen], places[i, chosen]

    for width in range(1, words):
        i = np.arange(words - width)
        j = i + width
        k = i[:, None] + np.arange(width)
        first, last = i[:, None], j[:, None]
        # Two half trees that meet between k and k + 1, for an arc above them that joins i and j.
        best(meeting, meeting_cut, right[first, k] + left[k + 1, last], k)
        # The arc that reaches farthest from the head goes to k, and beyond k is k's own half tree.
        best(left, left_cut, left[first, k] + meeting[k, last] + arcs[k, last], k)
        k = k + 1
        best(right, right_cut, meeting[first, k] + arcs[k, first] + right[k, last], k)
    root = int((left[0] + right[:, -1] + scores[:, 0]).argmax())
    heads = [0] * words
    todo = [(0, root, True), (root, words - 1, False)]
    while todo:
        a, b, leftward = todo.pop()
        if a == b:
            continue
        far = int((left_cut if leftward else right_cut)[a, b])
        heads[far] = (b if leftward else a) + 1
        inner = (far, b) if leftward else (a, far)
        middle = int(meeting_cut[inner])
        todo.append((a, far, True) if leftward else (far, b, False))
        todo += [(inner[0], middle, False), (middle + 1, inner[1], True)]
    return heads


_METHODS: dict[str, tuple[Callable[[list[int]], bool], Callable[[Array], list[int]]]] = {
    "mst": (is_tree, _mst),
    "projective": (is_projective, _eisner),
}
