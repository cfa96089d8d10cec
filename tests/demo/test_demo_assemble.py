"""Assembled checkpoints load in transformers and answer as their card says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import demo
import suites
from demo.__main__ import main

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

NER = "klue-ner"
EXPECTED = yaml.safe_load((Path(__file__).parent / "expected.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def ner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo.assemble(NER, tmp_path_factory.mktemp("checkpoints"))


def _load(auto: str, folder: Path) -> Any:
    model, info = getattr(transformers, auto).from_pretrained(folder, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))
    return model.eval()


def test_folder_is_a_plain_checkpoint(ner: Path) -> None:
    assert ner.name == NER
    assert sorted(path.name for path in ner.iterdir()) == [
        "config.json",
        "model.safetensors",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_ner_finds_the_entities_of_the_example(ner: Path) -> None:
    suite = suites.load(demo.suite_path(NER))
    model = _load("AutoModelForTokenClassification", ner)
    assert [model.config.id2label[index] for index in range(len(suite.labels))] == suite.labels
    assert model.dtype == torch.float32
    tokenizer = transformers.AutoTokenizer.from_pretrained(ner)
    text = suite.examples[0]["text"]
    batch = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = batch.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        tags = [suite.labels[index] for index in model(**batch).logits[0].argmax(-1).tolist()]
    entities: list[list[Any]] = []
    for (start, end), tag in zip(offsets, tags, strict=True):
        if start == end:
            continue  # a special token: whatever the head says there, it covers no text
        if tag.startswith("B-"):
            entities.append([start, end, tag[2:]])
        elif tag.startswith("I-"):
            entities[-1][1] = end
    assert [[text[start:end], kind] for start, end, kind in entities] == EXPECTED[NER]


def test_padding_id_is_one(ner: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(ner)
    batch = tokenizer(["a", "a b c"], padding=True)
    assert tokenizer.pad_token_id == 1
    assert batch["input_ids"][0][-1] == 1
    assert batch["attention_mask"][0][-1] == 0


def test_regression_head_has_one_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["klue-sts", "--out", str(tmp_path)]) == 0
    folder = tmp_path / "klue-sts"
    assert capsys.readouterr().out == f"[1/1] {folder}\n"
    model = _load("AutoModelForSequenceClassification", folder)
    assert (model.config.num_labels, model.config.problem_type) == (1, "regression")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    examples = suites.load(demo.suite_path("klue-sts")).examples
    batch = tokenizer([(e["text"], e["text_pair"]) for e in examples], padding=True, return_tensors="pt")
    with torch.no_grad():
        close, _, unrelated = model(**batch).logits[:, 0].tolist()
    assert close > 3
    assert unrelated < 1
