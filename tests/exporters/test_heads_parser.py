"""Parsers: the official one recomputed from a state dict under its own names, ours at every head, padding in both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_suite, tokenizer_for
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from exporters import checkpoint
from exporters.errors import ExportError
from exporters.heads import Encoded
from exporters.heads.dependency_parsing import BiaffineHead, ParserHead
from service.bundle import Bundle
from service.loading import open_bundle

OFFICIAL = tiny_suite("klue/dp")
SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
PAIRS = 6


class Baseline(nn.Module):
    """The official network for one sentence without padding, under the names of its state dict."""

    def __init__(self, config: BertConfig, tags: int, labels: int, layers: int = 1) -> None:
        super().__init__()
        size, tag = PAIRS, 5
        self.model = BertModel(config)
        self.pos_embedding = nn.Embedding(tags + 1, tag) if tags else None
        self.encoder = nn.LSTM(2 * config.hidden_size + (tag if tags else 0), 7, layers, bidirectional=True)
        self.decoder = nn.LSTM(7, 7)
        self.src_dense, self.hx_dense = nn.Linear(14, 7), nn.Linear(14, 7)
        self.arc_c, self.arc_h = nn.Linear(14, size), nn.Linear(7, size)
        self.type_c, self.type_h = nn.Linear(14, size - 1), nn.Linear(7, size - 1)
        self.attention = self._numbers(U=(1, size, size), W_e=(1, size), W_d=(1, size), b=(1, 1, 1))
        wide = (labels, size - 1)
        self.bilinear = self._numbers(U=(*wide, size - 1), W_l=wide, W_r=wide, bias=(labels,))
        self.model.embeddings.register_buffer("position_ids", torch.arange(64)[None])  # as it was in 2021

    @staticmethod
    def _numbers(**shapes: tuple[int, ...]) -> nn.ParameterDict:
        return nn.ParameterDict({name: nn.Parameter(torch.zeros(shape)) for name, shape in shapes.items()})

    def forward(self, ids: Tensor, first: list[int], last: list[int], tags: list[int]) -> tuple[Tensor, Tensor]:
        """Arc scores [W,W+1], and relation scores [W,R] at the best heads."""
        states = self.model(ids[None]).last_hidden_state[0]
        words = torch.cat([states[[0, *first]], states[[0, *last]]], -1)
        if self.pos_embedding is not None:
            root = self.pos_embedding.num_embeddings - 1
            words = torch.cat([words, self.pos_embedding(torch.tensor([root, *tags]))], -1)
        packed = nn.utils.rnn.pack_sequence([words])
        read, (_, cell) = self.encoder(packed)
        heads, _ = nn.utils.rnn.pad_packed_sequence(read)
        heads = heads[:, 0]
        cell = self.hx_dense(torch.cat([cell[-2, 0], cell[-1, 0]]))[None, None]
        dependents, _ = self.decoder(functional.elu(self.src_dense(heads[1:]))[:, None], (cell.tanh(), cell))
        dependents = dependents[:, 0]
        of, to = functional.elu(self.arc_h(dependents)), functional.elu(self.arc_c(heads))
        a, b = self.attention, self.bilinear
        arc = of @ a["U"][0] @ to.T + (of @ a["W_d"][0])[:, None] + (to @ a["W_e"][0])[None] + a["b"][0]
        of, to = functional.elu(self.type_h(dependents)), functional.elu(self.type_c(heads))[arc.argmax(-1)]
        return arc, functional.bilinear(of, to, b["U"], b["bias"]) + of @ b["W_l"].T + to @ b["W_r"].T


Official = Callable[..., tuple[Baseline, Path]]


@pytest.fixture
def official(tmp_path: Path) -> Official:
    """`official(tags=45)`: the network with random numbers, and the folder that its training leaves."""

    def make(tags: int = 45, **options: Any) -> tuple[Baseline, Path]:
        tokenizer = tokenizer_for("bert", OFFICIAL)
        config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **SMALL)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            network = Baseline(config, tags, len(OFFICIAL.labels), **options).eval()
            for parameter in network.parameters():
                nn.init.normal_(parameter, std=0.4)
        config.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        torch.save(network.state_dict(), tmp_path / "dp-model.bin")
        return network, tmp_path

    return make


def sized(tags: bool = True) -> Any:
    about = {"type": "klue-parser", "lstm_size": 7, "arc_size": PAIRS, "relation_size": PAIRS - 1, "pos_size": 5}
    return OFFICIAL.model_copy(update={"head": about | ({"pos_tags": OFFICIAL.head["pos_tags"]} if tags else {})})


def sentence(words: int, seed: int) -> dict[str, Any]:
    """A made-up sentence of words of one to three pieces."""
    rng = np.random.default_rng(seed)
    last = np.cumsum(rng.integers(1, 4, words))
    first = np.concatenate([[1], last[:-1] + 1])
    ids = torch.from_numpy(rng.integers(5, 60, int(last[-1]) + 2))
    return {"ids": ids, "first": first.tolist(), "last": last.tolist(), "tags": rng.integers(0, 45, words).tolist()}


@pytest.mark.parametrize("tags", [45, 0])
def test_the_official_network_is_recomputed_from_its_own_state_dict(official: Official, tags: int) -> None:
    """Sentences side by side: padding reaches neither the backward LSTM nor the choice of heads."""
    network, folder = official(tags)
    loaded = checkpoint.load(str(folder), sized(tags > 0))
    sentences = [sentence(words, seed) for seed, words in enumerate((4, 1, 9, 2))]

    def batch(name: str, ones: bool = False) -> Tensor:
        rows = [torch.as_tensor(s[name]) for s in sentences]
        return nn.utils.rnn.pad_sequence([torch.ones_like(r) if ones else r for r in rows], batch_first=True)

    inputs = {
        "input_ids": batch("ids"),
        "attention_mask": batch("ids", ones=True),
        "head_idx": batch("first"),
        "tail_idx": batch("last"),
        "word_mask": batch("first", ones=True),
    }
    with torch.no_grad():
        got = loaded.model(**inputs, **({"pos_ids": batch("tags")} if tags else {}))
        for i, s in enumerate(sentences):
            arc, at_best = network(**s)
            words = len(s["first"])
            assert torch.allclose(got["arc"][i, :words, : words + 1], arc, atol=1e-5)
            assert (got["arc"][i, :words, words + 1 :] < -1e3).all()
            rel = got["rel"][i, torch.arange(words), arc.argmax(-1)]
            assert torch.allclose(rel, at_best, atol=1e-5)
    assert arc.std() > 0.01, "too alike to tell anything"


def test_the_official_state_dict_becomes_a_bundle_that_reads_tags(official: Official, export_to) -> None:
    _, folder = official()
    done = export_to(folder, sized(), declared_labels=["suite"])
    manifest = Bundle(Path(done.place)).manifest
    assert manifest.decoder == {"tree": "projective", "pos_tags": OFFICIAL.head["pos_tags"]}
    assert manifest.labels == OFFICIAL.labels
    assert manifest.graph.inputs["pos_ids"] == manifest.graph.inputs["head_idx"] == ["words"]


def test_relation_names_that_nobody_gave_are_asked_for(official: Official, export_to) -> None:
    with pytest.raises(ExportError, match="does not name its classes"):
        export_to(official()[1], sized())


@pytest.mark.parametrize(
    ("lost", "ours"),
    [
        ("hx_dense.weight", r"lacks head\.decoder_start\.weight"),
        ("encoder.bias_hh_l0_reverse", r"lacks head\.encoder\.bias_hh_l0_reverse"),
        ("bilinear.W_r", r"lacks head\.relation_of_head"),
        ("pos_embedding.weight", r"lacks head\.pos_embedding\.weight"),
        ("model.embeddings.LayerNorm.bias", r"lacks trunk\.embeddings\.LayerNorm\.bias"),
    ],
)
def test_a_tensor_that_is_missing_is_named(official: Official, lost: str, ours: str) -> None:
    network, folder = official()
    tensors = network.state_dict()
    del tensors[lost]
    torch.save(tensors, folder / "dp-model.bin")
    with pytest.raises(ExportError, match=rf"not a klue-parser checkpoint; read as 'DPTransformer' it {ours}"):
        checkpoint.load(str(folder), sized())


def test_an_encoder_of_two_layers_is_refused(official: Official) -> None:
    with pytest.raises(ExportError, match=r"does not know head\.encoder\.bias_hh_l1"):
        checkpoint.load(str(official(layers=2)[1]), sized())


def test_a_parser_with_tags_is_not_taken_for_one_without(official: Official) -> None:
    with pytest.raises(ExportError, match=r"does not know head\.pos_embedding\.weight"):
        checkpoint.load(str(official()[1]), sized(tags=False))


@pytest.fixture
def biaffine() -> BiaffineHead:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = BiaffineHead(BertConfig(**SMALL), OFFICIAL.labels, 6, 4, pos_size=3, pos_tags=["NNG", "VV"])
        for parameter in head.parameters():
            nn.init.normal_(parameter, std=0.5)
    return head.eval()


def test_relations_of_all_heads_are_those_of_each_head(biaffine: BiaffineHead) -> None:
    parser, vectors = biaffine.parser, torch.randn(2, 6, 19)
    every = parser.relations(vectors)
    assert every.shape == (2, 5, 6, 38)
    for head in range(6):
        assert torch.allclose(every[:, :, head], parser.relations_at(vectors, torch.full((2, 5), head)), atol=1e-5)


def test_the_biaffine_head_reads_tags_where_it_was_trained_with_them(biaffine: BiaffineHead) -> None:
    encoded = Encoded(torch.randn(1, 5, 8), None, torch.zeros(1, 5, 8), torch.zeros(3, 8))
    row = {"head_idx": [1, 2], "tail_idx": [1, 3], "word_mask": [1, 1]}
    inputs = {name: torch.tensor([value]) for name, value in row.items()}
    nouns, verbs = (biaffine(encoded, inputs | {"pos_ids": torch.tensor([[i, i]])})["arc"] for i in (0, 1))
    assert not torch.allclose(nouns, verbs)
    assert biaffine.inputs["pos_ids"] == ("words",)
    assert biaffine.decoder() == {"pos_tags": ["NNG", "VV"]}
    assert "pos_ids" not in BiaffineHead(BertConfig(**SMALL), OFFICIAL.labels, 6, 4).inputs


@pytest.mark.parametrize("length", [1, 2, 3, 8, 64])
def test_sampled_words_cover_the_row_in_order(biaffine: ParserHead, length: int) -> None:
    row = biaffine.sample(length, np.random.default_rng(length))
    first, last = row["head_idx"], row["tail_idx"]
    assert (first <= last).all()
    assert (first[1:] == last[:-1] + 1).all()
    assert first[0] == min(1, length - 1) or length > 2
    assert last[-1] == length - 1
    assert set(row) == set(biaffine.inputs)


@pytest.mark.parametrize("name", ["clueserve", "trained"])
def test_our_own_tensors_are_read_with_and_without_the_adapters_name(save, export_to, name: str) -> None:
    """Training saves the head alone; the tiny checkpoint has the exporter's own names."""
    suite = tiny_suite("klue/dp-no-pos")
    folder = save(suite)
    if name == "trained":
        tensors = load_file(folder / "model.safetensors")
        trained = {k.replace("trunk.", "bert.").replace("head.parser.", "head."): v for k, v in tensors.items()}
        assert not trained.keys() & tensors.keys()
        save_file(trained, folder / "model.safetensors")
    assert checkpoint.load(str(folder), suite).model.head.parser.arc_weight.shape == (8, 8)


@pytest.mark.parametrize("architecture", ["bert", "klue-roberta"])
@pytest.mark.parametrize("suite", ["klue/dp", "klue/dp-no-pos"])
def test_the_graph_is_the_network_over_all_shapes(
    bundle_of: Callable[..., Path], suite: str, architecture: str
) -> None:
    folder = bundle_of(suite, architecture)
    manifest = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    assert manifest["provenance"]["parity"]["shapes"] == 32
    assert manifest["provenance"]["parity"]["max_logit_delta"] < 1e-4
    assert manifest["graph"]["outputs"] == {
        "arc": ["words", "words_and_root"],
        "rel": ["words", "words_and_root", 38],
    }
    open_bundle(Bundle(folder), "cpu")  # the answers of torch, once more
