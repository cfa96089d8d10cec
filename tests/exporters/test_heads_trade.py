"""TRADE: the official generator recomputed from a state dict under its own names, slot by slot and word by word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_suite, tokenizer_for
from torch import Tensor, nn
from transformers import BertConfig, BertModel, ElectraConfig, ElectraModel, PreTrainedTokenizerFast

from exporters import checkpoint
from exporters.errors import ExportError
from exporters.heads.dialogue_state import TradeHead
from service.bundle import Bundle
from service.loading import open_bundle

SUITE = tiny_suite("klue/wos")
SMALL: dict[str, Any] = {
    "hidden_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 64,
}


class Baseline(nn.Module):
    """The official network for one dialogue, under the names of its state dict: one slot at a time, and at each step
    the probability of every piece of the vocabulary."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        config = encoder.config
        size = config.hidden_size
        self.model = self.encoder = encoder  # held under two names, and so are its tensors
        if isinstance(encoder, ElectraModel):
            self.encoder_pooler_layer = nn.ModuleDict({"dense": nn.Linear(size, size)})
        self.decoder = nn.ModuleDict(
            {
                "embed": nn.Embedding(config.vocab_size, size),
                "gru": nn.GRU(size, size, batch_first=True),
                "w_gen": nn.Linear(3 * size, 1),
                "w_gate": nn.Linear(size, 5),
            }
        )

    def tie(self) -> None:
        self.decoder["embed"].weight = self.encoder.embeddings.word_embeddings.weight

    def forward(self, ids: Tensor, slot: list[int]) -> tuple[Tensor, list[int], Tensor]:
        """Gate logits [G], generated pieces, and by how much each step's piece beats the next best one."""
        states = self.encoder(ids[None]).last_hidden_state
        own = getattr(self.encoder, "pooler", None)
        dense = own.dense if own is not None else self.encoder_pooler_layer["dense"]
        hidden = torch.tanh(dense(states[:, 0]))[None]
        table = self.decoder["embed"].weight
        word = table[slot].sum(0)[None, None]
        gates, spoken, margins = torch.zeros(0), [], []
        for step in range(10):
            _, hidden = self.decoder["gru"](word, hidden)
            attention = torch.softmax(states[0] @ hidden[0, 0], -1)
            context = attention @ states[0]
            if step == 0:
                gates = self.decoder["w_gate"](context)
            generate = torch.sigmoid(self.decoder["w_gen"](torch.cat([word[0, 0], hidden[0, 0], context])))
            chances = generate * torch.softmax(table @ hidden[0, 0], -1)
            chances = chances.scatter_add(0, ids, (1 - generate) * attention)
            best = chances.topk(2)
            spoken.append(int(best.indices[0]))
            margins.append(best.values[0] - best.values[1])
            word = table[spoken[-1]][None, None]
        return gates, spoken, torch.stack(margins)


Official = Callable[..., tuple[Baseline, Path, PreTrainedTokenizerFast]]


@pytest.fixture
def official(tmp_path: Path) -> Official:
    """`official()`: the network with random numbers, and the folder that its training leaves."""

    def make(electra: bool = False, **options: Any) -> tuple[Baseline, Path, PreTrainedTokenizerFast]:
        tokenizer = tokenizer_for("bert", SUITE)
        kind, cls = (ElectraConfig, ElectraModel) if electra else (BertConfig, BertModel)
        config = kind(vocab_size=len(tokenizer), **SMALL, **({"embedding_size": 12} if electra else {}) | options)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            network = Baseline(cls(config)).eval()
            for parameter in network.parameters():
                nn.init.normal_(parameter, std=0.5)
        network.tie()
        config.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        torch.save(network.state_dict(), tmp_path / "trade-1200.bin")
        return network, tmp_path, tokenizer

    return make


def names(tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """Pieces of every slot's name, filled up with padding that counts, as the baseline does it."""
    found = [tokenizer.encode(slot.replace("-", " "), add_special_tokens=False) for slot in SUITE.labels]
    return [ids + [tokenizer.pad_token_id] * (max(map(len, found)) - len(ids)) for ids in found]


@pytest.mark.parametrize("electra", [False, True])
def test_the_official_network_is_recomputed_from_its_own_state_dict(official: Official, electra: bool) -> None:
    network, folder, tokenizer = official(electra)
    model = checkpoint.load(str(folder), SUITE).model
    texts = ["강남 쪽에 주차할 수 있는 한식당을 찾아 주세요.", "네."]
    rows = [torch.tensor(tokenizer.encode(text)) for text in texts]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
    compared = 0
    with torch.no_grad():
        got = model(input_ids=ids, attention_mask=(ids != tokenizer.pad_token_id).long())
        assert got["gate_logits"].shape == (2, 45, 5)
        assert got["gen_ids"].shape == (2, 45, 10)
        for i, row in enumerate(rows):
            for j, slot in enumerate(names(tokenizer)):
                gates, spoken, margins = network(row, slot)
                assert torch.allclose(got["gate_logits"][i, j], gates, atol=1e-4)
                # What comes after a tie is chance.
                clear = int((margins > 1e-4).long().cumprod(0).sum())
                assert got["gen_ids"][i, j, :clear].tolist() == spoken[:clear]
                compared += clear
    assert compared > 600, "hardly a step was clear"
    assert got["gen_ids"].unique().numel() > 10


def test_slots_are_asked_for_by_the_pieces_of_their_names(official: Official) -> None:
    _, folder, tokenizer = official()
    head = checkpoint.load(str(folder), SUITE).model.head
    assert head.generator.slot_pieces.tolist() == names(tokenizer)
    assert len({tuple(pieces) for pieces in names(tokenizer)}) > 20
    assert "generator.slot_pieces" not in head.state_dict(), "a constant of the graph is no weight of the checkpoint"


def test_the_official_state_dict_becomes_a_bundle(official: Official, export_to) -> None:
    """It names no slots; their order cannot be another one, because each was asked for by its name."""
    done = export_to(official()[1], SUITE)
    manifest = json.loads((Path(done.place) / "bundle.json").read_text(encoding="utf-8"))
    assert manifest["labels"] == SUITE.labels == sorted(SUITE.labels)
    assert manifest["decoder"] == {**SUITE.decoder, "gates": SUITE.head["gates"]}
    assert manifest["graph"]["outputs"] == {"gate_logits": [45, 5], "gen_ids": [45, 10]}


def test_another_order_of_slots_is_refused(official: Official, export_to) -> None:
    with pytest.raises(ExportError, match="part of this model: their order is that of klue/wos"):
        export_to(official()[1], SUITE, declared_labels=SUITE.labels[::-1])


@pytest.mark.parametrize(
    ("lost", "ours"),
    [
        ("decoder.gru.bias_hh_l0", r"head\.generator\.gru_state\.bias"),
        ("decoder.w_gate.weight", r"head\.generator\.w_gate\.weight"),
        ("encoder.pooler.dense.bias", r"head\.generator\.pooler\.bias"),
        ("encoder.embeddings.word_embeddings.weight", r"trunk\.embeddings\.word_embeddings\.weight"),
    ],
)
def test_a_tensor_that_is_missing_is_named(official: Official, lost: str, ours: str) -> None:
    network, folder, _ = official()
    tensors = network.state_dict()
    del tensors[lost]
    torch.save(tensors, folder / "trade-1200.bin")
    with pytest.raises(ExportError, match=f"not a trade checkpoint; read as 'DSTTransformer' it lacks {ours}"):
        checkpoint.load(str(folder), SUITE)


def test_other_gates_than_the_suites_are_refused(official: Official) -> None:
    suite = SUITE.model_copy(update={"head": {"type": "trade", "gates": ["none", "ptr"], "steps": 10}})
    with pytest.raises(ExportError, match=r"other shapes: head\.generator\.w_gate"):
        checkpoint.load(str(official()[1]), suite)


def test_embeddings_of_another_size_than_the_states_are_refused(official: Official) -> None:
    with pytest.raises(ExportError, match="word embeddings of 6 numbers cannot score states of 12"):
        checkpoint.load(str(official(electra=True, embedding_size=6)[1]), SUITE)


def test_our_own_tensors_are_read_without_the_adapters_name(save) -> None:
    folder = save(SUITE)
    tensors = load_file(folder / "model.safetensors")
    trained = {k.replace("trunk.", "bert.").replace("head.generator.", "head."): v for k, v in tensors.items()}
    assert not trained.keys() & tensors.keys()
    save_file(trained, folder / "model.safetensors")
    head = checkpoint.load(str(folder), SUITE).model.head
    assert isinstance(head, TradeHead)
    assert torch.equal(head.generator.w_gate.weight, tensors["head.generator.w_gate.weight"])


@pytest.mark.parametrize("architecture", ["bert", "klue-roberta"])
def test_the_graph_is_the_network_over_all_shapes(bundle_of: Callable[..., Path], architecture: str) -> None:
    folder = bundle_of("klue/wos", architecture)
    manifest = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    assert manifest["provenance"]["parity"]["shapes"] == 32
    assert manifest["provenance"]["parity"]["max_logit_delta"] < 1e-4
    open_bundle(Bundle(folder), "cpu")  # the answers of torch, once more
