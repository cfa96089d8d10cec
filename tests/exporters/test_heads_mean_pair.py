"""The ranker over mean vectors: with padding as the baseline has it, without as it should be, the same in any batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny import checkpoint, own_model_for, tiny_suite, tokenizer_for
from torch import Tensor
from transformers import BertModel

from exporters.errors import ExportError
from exporters.export import export
from exporters.heads import Encoded, heads
from service.bundle import Bundle
from service.graph.session import Session
from service.loading import open_graph
from service.types import Row
from suites import Suite

SUITE = tiny_suite("cblue/chip-cdn-ranker")
MASKED = SUITE.model_copy(update={"head": {"type": "mean-pair", "masked": True}})
Save = Callable[..., Path]


def row(ids: list[int]) -> Row:
    return {
        "input_ids": np.array(ids),
        "attention_mask": np.ones(len(ids), np.int64),
        "token_type_ids": np.array([0] * (len(ids) // 2) + [1] * (len(ids) - len(ids) // 2)),
    }


def baseline(suite: Suite, one: Row, length: int) -> list[float]:
    """The definition by hand: fill a row up, run BERT, take the mean of last states and embeddings."""
    model = own_model_for("bert", suite, tokenizer_for("bert", suite))
    trunk: BertModel = model.trunk
    fill = length - len(one["input_ids"])
    inputs = {name: torch.tensor([[*values.tolist(), *[0] * fill]]) for name, values in one.items()}
    with torch.no_grad():
        out = trunk(**inputs, output_hidden_states=True)
        features = (out.last_hidden_state + out.hidden_states[0]).mean(1)
        logits: list[float] = model.head.classifier(features)[0].tolist()
    return logits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Suite], Path]:
    made: dict[str, Path] = {}

    def of(suite: Suite) -> Path:
        key = str(suite.head)
        if key not in made:
            source = checkpoint("bert", suite, tmp_path_factory.mktemp("checkpoint"))
            made[key] = Path(export(str(source), suite, name="tiny", out=tmp_path_factory.mktemp("out")).place)
        return made[key]

    return of


def session(folder: Path) -> Session:
    return open_graph(Bundle(folder))


ROWS = [row([2, 7, 3]), row([2, 9, 8, 7, 3, 11, 12, 3]), row([2, *range(5, 66), 3]), row([2, 7, 3])]


def test_padding_counts_as_in_the_baseline_whatever_the_batch(folder: Callable[[Suite], Path]) -> None:
    """A row alone, beside others, and filled up by hand: one number, that of the fixed length of training."""
    graph = session(folder(SUITE))
    together = graph.run_together(ROWS)
    for one, got in zip(ROWS, together, strict=True):
        want = baseline(SUITE, one, 64)
        assert got["logits"].tolist() == pytest.approx(want, abs=1e-4)
        assert graph.run_together([one])[0]["logits"].tolist() == pytest.approx(want, abs=1e-4)
    short = baseline(SUITE, ROWS[0], 8)
    assert short != pytest.approx(baseline(SUITE, ROWS[0], 64), abs=1e-2), "the length of padding does matter"


def test_a_masked_mean_is_that_of_the_row_alone(folder: Callable[[Suite], Path]) -> None:
    graph = session(folder(MASKED))
    for one, got in zip(ROWS, graph.run_together(ROWS), strict=True):
        assert got["logits"].tolist() == pytest.approx(baseline(MASKED, one, len(one["input_ids"])), abs=1e-4)


def test_worked_values() -> None:
    config = own_model_for("bert", SUITE, tokenizer_for("bert", SUITE)).config
    states = torch.tensor([[[1.0], [2.0], [6.0]]]).expand(1, 3, 32)
    embedded = torch.tensor([[[0.0], [1.0], [2.0]]]).expand(1, 3, 32)
    inputs = {"attention_mask": torch.tensor([[1, 1, 0]])}
    for sizes, mean in (({"masked": True}, (1 + 3) / 2), ({"masked": False, "length": 3}, (1 + 3 + 8) / 3)):
        head = heads()["mean-pair"](config, ["0", "1"], **sizes)
        with torch.no_grad():
            head.classifier.weight.fill_(1 / 32)
            head.classifier.bias.zero_()
        logits = head(Encoded(states, None, embedded, embedded), inputs)["logits"]
        assert logits.tolist() == [pytest.approx([mean, mean])]


def test_rows_are_filled_up_with_the_padding_id_and_never_cut() -> None:
    config = own_model_for("bert", SUITE, tokenizer_for("bert", SUITE), pad_token_id=4).config
    head = heads()["mean-pair"](config, ["0", "1"], masked=False, length=5)
    inputs = {name: torch.tensor([[7, 8, 9]]) for name in ("input_ids", "attention_mask", "token_type_ids")}
    filled = {name: values.tolist() for name, values in head.complete(inputs).items()}
    assert filled == {
        "input_ids": [[7, 8, 9, 4, 4]],
        "attention_mask": [[7, 8, 9, 0, 0]],
        "token_type_ids": [[7, 8, 9, 0, 0]],
    }
    longer = {"input_ids": torch.ones(2, 9, dtype=torch.int64)}
    assert head.complete(longer)["input_ids"].shape == (2, 9)


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"masked": False}, r"length belongs to a mean over padding \(masked: false\), which needs it"),
        ({"masked": True, "length": 64}, "length belongs to a mean over padding"),
        ({"masked": False, "length": 65}, "length is 65; the encoder has 64 positions"),
        ({"size": 3}, "size"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(save: Save, tmp_path: Path, sizes: dict[str, Any], why: str) -> None:
    source = save(SUITE)
    suite = SUITE.model_copy(update={"head": {"type": "mean-pair", **sizes}})
    with pytest.raises(ExportError, match=why):
        export(str(source), suite, name="tiny", out=tmp_path / "out")


def official(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names of CBLUE's CDNForCLSModel, with what it saves beside."""
    names = {name.replace("trunk.", "encoder.", 1).replace("head.", ""): value for name, value in tensors.items()}
    return names | {
        "encoder.embeddings.position_ids": torch.arange(64)[None],
        "encoder.pooler.dense.bias": torch.zeros(32),
    }


@pytest.mark.parametrize(
    ("drop", "why"), [(None, None), ("classifier.bias", r"read as 'CDNForCLSModel' it lacks head\.classifier\.bias")]
)
def test_the_baselines_own_tensors_are_taken_whole_or_not_at_all(
    save: Save, tmp_path: Path, folder: Callable[[Suite], Path], drop: str | None, why: str | None
) -> None:
    source = save(SUITE)
    tensors = official(load_file(source / "model.safetensors"))
    (source / "model.safetensors").unlink()
    torch.save({k: v for k, v in tensors.items() if k != drop}, source / "pytorch_model_cls.pt")
    if why:
        with pytest.raises(ExportError, match=why):
            export(str(source), SUITE, name="tiny", out=tmp_path / "out")
        return
    done = export(str(source), SUITE, name="tiny", out=tmp_path / "out")
    want = Bundle(folder(SUITE)).manifest.golden
    assert [g.answer["label"] for g in Bundle(Path(done.place)).manifest.golden] == [g.answer["label"] for g in want]


def test_the_suites_length_is_its_heads() -> None:
    import suites

    suite = suites.load("cblue/chip-cdn-ranker")
    assert suite.head is not None
    assert suite.head["length"] == suite.max_length
