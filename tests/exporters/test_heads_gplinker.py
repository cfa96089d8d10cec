"""GPLinker: worked scores, parity of its graph, and whose checkpoints it takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import own_model_for, tiny_suite, tokenizer_for
from torch import Tensor

from exporters.errors import ExportError
from exporters.export import export
from exporters.heads import Encoded, Head, heads
from service.bundle import Bundle
from suites import Suite

WHOLE = tiny_suite("cblue/cmeie-joint")
Save = Callable[..., Path]


def few(suite: Suite, count: int = 3) -> Suite:
    """The suite with its first relations only."""
    decoder = suite.decoder | {"relations": suite.decoder["relations"][:count]}
    return suite.model_copy(
        update={"labels": suite.labels[:count], "decoder": decoder, "head": {"type": "gplinker", "size": 8}}
    )


SUITE = few(WHOLE)


def made(labels: int = 2, size: int = 2) -> Head:
    config = own_model_for("bert", SUITE, tokenizer_for("bert", SUITE)).config
    config.hidden_size = 4
    return heads()["gplinker"](config, [str(i) for i in range(labels)], size=size)


def test_relations_join_tokens_by_their_queries_and_keys_without_positions() -> None:
    """Of relation r, numbers 4r and 4r+1 are the query of a token, 4r+2 and 4r+3 its key."""
    head = made()
    states = torch.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]])
    with torch.no_grad():
        for layer in (head.head, head.tail):
            layer.weight.zero_()
            layer.bias.zero_()
        head.head.weight[4:6, 0] = torch.tensor([2.0, 3.0])  # relation 1: the query of the first token
        head.head.weight[6:8, 2] = torch.tensor([5.0, 7.0])  # and the key of the third
        head.tail.weight[0:2, 1] = torch.tensor([1.0, 1.0])
        head.tail.weight[2:4, 1] = torch.tensor([1.0, -4.0])
    out = head(Encoded(states, None, states, states), {"attention_mask": torch.ones(1, 3, dtype=torch.int64)})
    want_head, want_tail = torch.zeros(1, 2, 3, 3), torch.zeros(1, 2, 3, 3)
    want_head[0, 1, 0, 2] = (2 * 5 + 3 * 7) / math.sqrt(2)
    want_tail[0, 0, 1, 1] = (1 - 4) / math.sqrt(2)
    assert torch.allclose(out["head"], want_head)
    assert torch.allclose(out["tail"], want_tail)


def test_spans_lie_within_the_text_and_do_not_end_before_they_start() -> None:
    head = made()
    states = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(0))
    entity = head(Encoded(states, None, states, states), {"attention_mask": torch.tensor([[1, 1, 1, 1, 1, 0]])})[
        "entity"
    ]
    assert entity.shape == (1, 2, 6, 6)
    allowed = torch.zeros(6, 6, dtype=torch.bool)
    for first in (1, 2, 3):
        allowed[first, first:4] = True
    assert (entity[0, :, ~allowed] < -1e3).all()
    assert (entity[0, :, allowed] > -1e3).all()


def test_a_score_of_a_span_depends_on_how_far_apart_its_ends_are() -> None:
    head = made(size=4)
    states = torch.ones(1, 8, 4)
    entity = head(Encoded(states, None, states, states), {"attention_mask": torch.ones(1, 8, dtype=torch.int64)})[
        "entity"
    ]
    assert torch.allclose(entity[0, :, 1, 3], entity[0, :, 4, 6], atol=1e-4)
    assert not torch.allclose(entity[0, :, 1, 3], entity[0, :, 1, 4], atol=1e-4)


def test_there_is_no_bias_a_role() -> None:
    assert "entity.bias" not in made().state_dict()
    assert made().entity.bias.tolist() == [0.0, 0.0]


def test_the_graph_is_the_model(bundle_of: Callable[[str], Path]) -> None:
    bundle = Bundle(bundle_of("cblue/cmeie-joint"))
    matrix = ["sequence_length", "sequence_length"]
    assert bundle.graph.outputs == {"entity": [2, *matrix], "head": [53, *matrix], "tail": [53, *matrix]}
    assert bundle.manifest.labels == WHOLE.labels
    assert bundle.manifest.provenance["parity"]["max_logit_delta"] < 1e-4
    assert any(golden.answer["triples"] for golden in bundle.manifest.golden)


def official(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names of GPLinker_torch's ERENet, with what it saves beside."""
    parts = {"trunk.": "encoder.", "head.entity.": "mention_detect.", "head.head.": "s_o_head.dense.",
             "head.tail.": "s_o_tail.dense."}  # fmt: skip
    renamed = {
        next(name.replace(ours, theirs, 1) for ours, theirs in parts.items() if name.startswith(ours)): value
        for name, value in tensors.items()
    }
    return renamed | {
        "encoder.embeddings.position_ids": torch.arange(64)[None],
        "encoder.pooler.dense.weight": torch.zeros(32, 32),
    }


def published(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Path:
    tensors = change(official(load_file(folder / "model.safetensors")))
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "erenet.pth")
    return folder


def test_published_tensors_make_the_same_bundle(save: Save, tmp_path: Path) -> None:
    ours, theirs = save(SUITE), published(save(SUITE), lambda tensors: tensors)
    places = [export(str(s), SUITE, name=n, out=tmp_path).place for s, n in ((ours, "ours"), (theirs, "theirs"))]
    one, two = (Bundle(Path(place)).manifest.golden for place in places)
    assert one == two
    assert any(golden.answer["triples"] for golden in one)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda t: {k: v for k, v in t.items() if k != "s_o_tail.dense.bias"},
            r"as 'ERENet' it lacks head\.tail\.bias",
        ),
        (lambda t: t | {"mention_detect.bias": torch.zeros(2)}, r"does not know head\.entity\.bias"),
        (lambda t: t | {"s_o_head.dense.bias": torch.zeros(44 * 16)}, r"head\.head\.bias is \[704\], not \[48\]"),
    ],
)
def test_a_checkpoint_that_is_not_one_is_refused_and_the_tensor_named(
    save: Save, tmp_path: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]], why: str
) -> None:
    source = published(save(SUITE), change)
    with pytest.raises(ExportError, match=why):
        export(str(source), SUITE, name="tiny", out=tmp_path)
    assert not (tmp_path / "tiny").exists()
