"""The heads that the recipe trains: what they compute, and that padding changes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from exporters.heads.biaffine import Biaffine  # noqa: E402  # torch is not there in a server's environment
from exporters.heads.global_pointer import GlobalPointer  # noqa: E402
from exporters.heads.trade import Trade  # noqa: E402

HIDDEN, VOCABULARY, STEPS, PAD = 8, 30, 10, 1
SLOTS = [[5, 6], [7], [8, 9, 10]]
Floats = NDArray[np.float64]


@pytest.fixture(autouse=True)
def _still() -> Iterator[None]:
    torch.manual_seed(3)
    with torch.no_grad():
        yield


def _trade() -> tuple[Trade, torch.Tensor]:
    head = Trade(HIDDEN, SLOTS, gates=5, steps=STEPS, pad_id=PAD)
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return head, torch.randn(VOCABULARY, HIDDEN)


def _numbers(head: torch.nn.Module) -> dict[str, Floats]:
    return {name: value.double().numpy() for name, value in head.named_parameters()}


def _by_hand(head: Trade, states: Floats, ids: list[int], table: Floats) -> tuple[Floats, list[list[int]]]:
    """One unpadded dialogue, slot by slot, with the whole vocabulary's copy mass written out."""
    w = _numbers(head)

    def linear(name: str, x: Floats) -> Floats:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def sigmoid(x: Floats) -> Floats:
        return 1 / (1 + np.exp(-x))

    gates, generated = [], []
    for slot in SLOTS:
        hidden = np.tanh(linear("pooler", states[0]))
        read = table[[*slot, *[PAD] * (3 - len(slot))]].sum(0)
        spoken: list[int] = []
        for step in range(STEPS):
            rx, zx, nx = np.split(linear("gru_input", read), 3)
            rh, zh, nh = np.split(linear("gru_state", hidden), 3)
            z = sigmoid(zx + zh)
            hidden = (1 - z) * np.tanh(nx + sigmoid(rx + rh) * nh) + z * hidden
            attention = np.exp(states @ hidden - (states @ hidden).max())
            attention /= attention.sum()
            context = attention @ states
            if step == 0:
                gates.append(linear("w_gate", context))
            share = sigmoid(linear("w_gen", np.concatenate([read, hidden, context])))
            logits = table @ hidden
            vocabulary = np.exp(logits - logits.max())
            chances = share * vocabulary / vocabulary.sum()
            np.add.at(chances, ids, (1 - share) * attention)
            spoken.append(int(chances.argmax()))
            read = table[spoken[-1]]
        generated.append(spoken)
    return np.array(gates), generated


def test_trade_generates_the_best_piece_of_copying_and_vocabulary() -> None:
    head, table = _trade()
    ids = [0, 12, 13, 12, 2]
    states = torch.randn(1, 5, HIDDEN)
    gates, generated = head(states, torch.tensor([ids]), torch.ones(1, 5, dtype=torch.int64), table)
    right_gates, right = _by_hand(head, states[0].double().numpy(), ids, table.double().numpy())
    assert generated[0].tolist() == right
    np.testing.assert_allclose(gates[0].numpy(), right_gates, atol=1e-5)
    assert {12, 13} & set(np.unique(right))  # copied
    assert set(np.unique(right)) - set(ids)  # spoken


def test_trade_adds_up_the_places_of_a_piece() -> None:
    """Copying only: a piece that stands twice beats one that has the largest single attention."""
    head, table = _trade()
    torch.nn.init.constant_(head.w_gen.bias, -50)
    torch.nn.init.zeros_(head.w_gen.weight)
    for layer in (head.gru_input, head.gru_state, head.pooler):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)  # hidden stays zero: attention is even
    ids = torch.tensor([[20, 21, 22, 21]])
    _, generated = head(torch.randn(1, 4, HIDDEN), ids, torch.ones_like(ids), table)
    assert set(generated.flatten().tolist()) == {21}


def test_trade_ignores_padding() -> None:
    head, table = _trade()
    ids = torch.tensor([[0, 12, 13, 2]])
    states = torch.randn(1, 4, HIDDEN)
    alone = head(states, ids, torch.ones_like(ids), table)
    wide = torch.cat([states, torch.randn(1, 3, HIDDEN)], 1)
    more = torch.cat([ids, torch.full((1, 3), PAD)], 1)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0]])
    padded = head(torch.cat([wide, torch.randn(1, 7, HIDDEN)]), more.repeat(2, 1), mask.repeat(2, 1), table)
    assert padded[1][0].tolist() == alone[1][0].tolist()
    torch.testing.assert_close(padded[0][0], alone[0][0])


def test_pointer_ignores_padding_and_masks_what_is_no_span() -> None:
    head = GlobalPointer(HIDDEN, types=2, size=4)
    states = torch.randn(2, 7, HIDDEN)
    mask = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])
    scores = head(states, mask)
    torch.testing.assert_close(scores[1, :, :5, :5], head(states[1:, :5], mask[1:, :5])[0])
    allowed = scores[1, 0] > -1e4
    assert allowed.nonzero().tolist() == [[i, j] for i in range(1, 4) for j in range(i, 4)]
    free = GlobalPointer(HIDDEN, types=2, size=4, masked=False)
    assert (free(states, mask) > -1e4).all()


def test_pointer_turns_by_distance_alone() -> None:
    """The same two states score the same wherever they stand, as long as they are as far apart."""
    head = GlobalPointer(HIDDEN, types=1, size=4, masked=False)
    first, last = torch.randn(2, HIDDEN)
    states = torch.zeros(1, 9, HIDDEN)
    for at in (1, 5):
        states[0, at], states[0, at + 2] = first, last
    scores = head(states, torch.ones(1, 9, dtype=torch.int64))[0, 0]
    torch.testing.assert_close(scores[1, 3], scores[5, 7])
    assert abs(float(scores[1, 3] - scores[1, 7])) > 1e-4


def test_pointer_score_by_hand() -> None:
    """Two numbers a query: position p turns them by p radians, so a score is |q||k| cos(angle between + distance)."""
    head = GlobalPointer(4, types=1, size=2, masked=False)
    torch.nn.init.eye_(head.dense.weight)  # query = state[:2], key = state[2:]
    torch.nn.init.zeros_(head.bias)
    states = torch.tensor([[[1.0, 0.0, 1.0, 0.0]] * 4])
    scores = head(states, torch.ones(1, 4, dtype=torch.int64))[0, 0]
    assert float(scores[1, 3]) == pytest.approx(math.cos(2.0) / math.sqrt(2), abs=1e-6)


@pytest.mark.parametrize("tags", [0, 6])
def test_parser_ignores_padding(tags: int) -> None:
    head = Biaffine(HIDDEN, relations=3, arc_size=5, relation_size=4, pos_tags=tags, pos_size=2 if tags else 0)
    states = torch.randn(2, 9, HIDDEN)
    first, last = torch.tensor([[1, 3, 4], [1, 2, 0]]), torch.tensor([[2, 3, 6], [1, 2, 0]])
    words = torch.tensor([[1, 1, 1], [1, 1, 0]])
    pos = torch.tensor([[0, 5, 2], [3, 1, 0]]) if tags else None
    arcs, relations = head(states, first, last, words, pos)
    short = (states[1:, :4], first[1:, :2], last[1:, :2], words[1:, :2], None if pos is None else pos[1:, :2])
    alone_arcs, alone_relations = head(*short)
    torch.testing.assert_close(arcs[1:, :2, :3], alone_arcs)
    torch.testing.assert_close(relations[1:, :2], alone_relations)
    assert (arcs[1, :, 3] == -1e4).all()
    assert arcs.shape == (2, 3, 4)


def test_parser_scores_relations_at_the_best_head() -> None:
    head = Biaffine(HIDDEN, relations=3, arc_size=5, relation_size=4)
    states, first = torch.randn(1, 5, HIDDEN), torch.tensor([[1, 2, 3]])
    arcs, relations = head(states, first, first, torch.ones(1, 3, dtype=torch.int64))
    vectors = head.words(states, first, first)
    assert torch.equal(relations, head.relations_at(vectors, arcs.argmax(-1)))
    torch.testing.assert_close(vectors[0, 0], torch.cat([states[0, 0], states[0, 0]]))  # the root


def test_refusals_name_the_numbers() -> None:
    with pytest.raises(ValueError, match="size is 3"):
        GlobalPointer(HIDDEN, types=1, size=3)
    with pytest.raises(ValueError, match="pos_size 4"):
        Biaffine(HIDDEN, relations=3, arc_size=5, relation_size=4, pos_size=4)
    tagged = Biaffine(HIDDEN, relations=3, arc_size=5, relation_size=4, pos_tags=2, pos_size=4)
    with pytest.raises(ValueError, match="pos_ids is missing"):
        tagged.words(torch.zeros(1, 2, HIDDEN), torch.tensor([[1]]), torch.tensor([[1]]))
