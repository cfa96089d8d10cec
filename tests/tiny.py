"""Tiny random checkpoints of every architecture that the exporter knows, and suites cut to their size. No downloads.

Weights are seeded by architecture and wide enough that different texts get different answers. The vocabulary is made of
a few lines of text and of the suite's own examples.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from tiny_tokenizers import albert_style, bert_style, klue_style, modernbert, roberta, xlm_roberta
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

import suites
from exporters.heads import Model, heads
from suites import Suite

POSITIONS = 64
"""Tokens that fit a tiny checkpoint; 62 for `klue-roberta`, whose positions start after the padding id."""

SUITE_OF = {
    "text-classification": "klue/ynat",
    "pair-classification": "klue/nli",
    "span-pair-classification": "klue/re",
    "token-classification": "klue/ner",
    "question-answering": "klue/mrc",
    "multiple-choice": "clue/c3",
}
"""The suite that stands for each family."""

HEADS = {
    "text-classification": "SequenceClassification",
    "pair-classification": "SequenceClassification",
    "span-pair-classification": "SequenceClassification",
    "token-classification": "TokenClassification",
    "question-answering": "QuestionAnswering",
    "multiple-choice": "MultipleChoice",
    "document-classification": "SequenceClassification",
    "cloze": "MultipleChoice",
}

ASSETS = {
    "catalogue.tsv": (
        "高血压\tI10.x00\n2型糖尿病\tE11.900\n1型糖尿病\tE10.900\n糖尿病\tE14.900\n慢性胃炎\tK29.500\n急性胃炎\tK29.100\n"
        "十二指肠溃疡\tK26.900\n胃溃疡\tK25.900\n上叶支气管或肺的恶性肿瘤\tC34.100\n肺恶性肿瘤\n慢性支气管炎\tJ42.x00\n"
    )
}
"""Files of a checkpoint that some bundles take over."""

LINES = (
    "서울에서 열린 회의에는 사람들이 많이 왔다. 그는 어제 부산에 갔고 오늘은 집에 있다.",
    "今天天气很好，我们一起去公园散步。他在北京工作了三年，明天要回上海。",
    "The quick brown fox jumps over the lazy dog. In 2024 it rained for 30 days in the city.",
    "0 1 2 3 4 5 6 7 8 9 . , ! ? ( ) [ ] < > / - _ : ; ' \" % & * + = # @ 。 ， ？ ！ 、 《 》 “ ”",
)


@dataclass(frozen=True)
class Architecture:
    """How one architecture is built: its classes, its tokenizer and what its configuration needs beyond the sizes."""

    prefix: str
    tokenizer: Callable[[list[str]], PreTrainedTokenizerFast]
    config: dict[str, Any]


def tiny_suite(name: str, **changes: Any) -> Suite:
    """A packaged suite with windows that advance within 62 tokens; `changes` replace further fields."""
    return _cut(suites.load(name)).model_copy(update=changes)


def _cut(suite: Suite) -> Suite:
    decoder = dict(suite.decoder)
    if suite.family == "question-answering":
        decoder |= {"max_question_tokens": 16, "max_answer_tokens": 12}
        decoder["stride" if decoder.get("doc_stride") is None else "doc_stride"] = 8
    elif "stride" in decoder:
        decoder["stride"] = 16
    if "max_spans" in decoder:
        decoder["max_spans"] = 4  # of spans at random half are found
    stages = {name: _cut(stage) for name, stage in suite.stages.items()}
    head = suite.head and {k: 8 if k.endswith("_size") else v for k, v in suite.head.items()}
    return suite.model_copy(update={"decoder": decoder, "stages": stages, "head": head})


def checkpoint(architecture: str, suite: Suite, folder: Path, *, seed: int = 0, **config: Any) -> Path:
    """Write a fine-tuned checkpoint for `suite`: configuration, weights, tokenizer. Returns `folder`.

    That of a pipeline is a folder with a checkpoint for each stage.
    """
    for stage, part in suite.stages.items():
        checkpoint(architecture, part, folder / stage, seed=seed, **config)
    for asset in suite.assets:
        (folder / asset).write_text(ASSETS[asset], encoding="utf-8")
    if suite.stages:
        return folder
    tokenizer = tokenizer_for(architecture, suite)
    if suite.head is None:
        model_for(architecture, suite, len(tokenizer), seed=seed, **config).save_pretrained(folder)
    else:
        model = own_model_for(architecture, suite, tokenizer, seed=seed, **config)
        model.config.save_pretrained(folder)
        save_file(model.state_dict(), folder / "model.safetensors")
    tokenizer.save_pretrained(folder)
    return folder


def tokenizer_for(architecture: str, suite: Suite) -> PreTrainedTokenizerFast:
    """The architecture's tokenizer, with the suite's markers as special tokens where they are vocabulary entries."""
    tokenizer = ARCHITECTURES[architecture].tokenizer([*LINES, *_texts(suite.examples)])
    tokenizer.model_max_length = POSITIONS
    if suite.decoder.get("marker_tokens"):
        markers = [marker for pair in suite.decoder["markers"].values() for marker in pair]
        tokenizer.add_special_tokens({"additional_special_tokens": markers})
    if "blank_token" in suite.decoder:
        tokenizer.add_tokens([suite.decoder["blank_token"]])
    return tokenizer


def model_for(architecture: str, suite: Suite, vocabulary: int, *, seed: int = 0, **config: Any) -> PreTrainedModel:
    """A seeded random model with the suite's head and labels; `config` overrides anything."""
    return _model(architecture, HEADS[suite.family], {"vocab_size": vocabulary} | _head(suite) | config, seed)


def own_model_for(
    architecture: str, suite: Suite, tokenizer: PreTrainedTokenizerFast, *, seed: int = 0, **config: Any
) -> Model:
    """A seeded random encoder with a head that transformers lacks, wide enough that its answers are not all alike."""
    assert suite.head is not None
    trunk = _model(architecture, "Model", {"vocab_size": len(tokenizer)} | _head(suite) | config, seed)
    sizes = {name: value for name, value in suite.head.items() if name != "type"}
    head = heads()[suite.head["type"]](trunk.config, suite.labels, **sizes)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        for parameter in head.parameters():
            parameter.normal_(std=0.3)
    return Model(trunk, head).eval()


def headless(architecture: str, suite: Suite, folder: Path) -> Path:
    """A checkpoint of the bare encoder, as a pre-trained model is published."""
    tokenizer = tokenizer_for(architecture, suite)
    _model(architecture, "Model", {"vocab_size": len(tokenizer)}, 0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def edit_json(path: Path, **changes: Any) -> None:
    """Replace top-level keys of a JSON file; None removes one."""
    data = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({k: v for k, v in data.items() if v is not None}), encoding="utf-8")


def _model(architecture: str, head: str, config: dict[str, Any], seed: int) -> PreTrainedModel:
    known = ARCHITECTURES[architecture]
    cls = getattr(transformers, f"{known.prefix}{head if head == 'Model' else f'For{head}'}")
    built: PretrainedConfig = getattr(transformers, f"{known.prefix}Config")(**SIZES | known.config | config)
    with torch.random.fork_rng():
        torch.manual_seed(seed + zlib.crc32(architecture.encode()))
        model: PreTrainedModel = cls(built)
    return model.eval()


def _head(suite: Suite) -> dict[str, Any]:
    if suite.decoder.get("output") == "regression":
        return {"num_labels": 1, "problem_type": "regression"}
    if not suite.labels:
        return {}
    return {"id2label": dict(enumerate(suite.labels)), "label2id": {label: i for i, label in enumerate(suite.labels)}}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": POSITIONS,
    "initializer_range": 0.3,
    "pad_token_id": 0,
}
_ROBERTA = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}
ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture("Bert", bert_style("BertTokenizerFast"), {}),
    "roberta": Architecture("Roberta", roberta, _ROBERTA | {"max_position_embeddings": POSITIONS + 2}),
    "klue-roberta": Architecture("Roberta", klue_style, _ROBERTA),
    "electra": Architecture("Electra", bert_style("ElectraTokenizerFast"), {"embedding_size": 16}),
    "distilbert": Architecture(
        "DistilBert", bert_style("DistilBertTokenizerFast"), {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}
    ),
    "albert": Architecture("Albert", albert_style("AlbertTokenizerFast", "<unk>"), {"embedding_size": 16}),
    "xlm-roberta": Architecture("XLMRoberta", xlm_roberta, _ROBERTA | {"max_position_embeddings": POSITIONS + 2}),
    "deberta-v2": Architecture(
        "DebertaV2",
        albert_style("DebertaV2TokenizerFast", "[UNK]"),
        {
            "type_vocab_size": 0,
            "relative_attention": True,
            "position_buckets": 16,
            "max_relative_positions": -1,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
        },
    ),
    "modernbert": Architecture(
        "ModernBert",
        modernbert,
        {
            "pad_token_id": 3,
            "cls_token_id": 1,
            "bos_token_id": 1,
            "sep_token_id": 2,
            "eos_token_id": 2,
            "global_attn_every_n_layers": 2,
            "local_attention": 16,
            "reference_compile": False,
        },
    ),
}
