"""Tiny random checkpoints of every architecture that the exporter knows, and suites cut to their size. No downloads.

Weights are seeded by architecture and wide enough that different texts get different answers. The vocabulary is made of
a few lines of text and of the suite's own examples.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

import suites
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
}

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
    suite = suites.load(name)
    decoder = dict(suite.decoder)
    if suite.family == "token-classification":
        decoder["stride"] = 16
    elif suite.family == "question-answering":
        decoder |= {"max_question_tokens": 16, "max_answer_tokens": 12}
        decoder["stride" if decoder.get("doc_stride") is None else "doc_stride"] = 8
    return suite.model_copy(update={"decoder": decoder} | changes)


def checkpoint(architecture: str, suite: Suite, folder: Path, *, seed: int = 0, **config: Any) -> Path:
    """Write a fine-tuned checkpoint for `suite`: configuration, weights, tokenizer. Returns `folder`."""
    tokenizer = tokenizer_for(architecture, suite)
    model_for(architecture, suite, len(tokenizer), seed=seed, **config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tokenizer_for(architecture: str, suite: Suite) -> PreTrainedTokenizerFast:
    """The architecture's tokenizer, with the suite's markers as special tokens where they are vocabulary entries."""
    tokenizer = ARCHITECTURES[architecture].tokenizer([*LINES, *_texts(suite.examples)])
    tokenizer.model_max_length = POSITIONS
    if suite.decoder.get("marker_tokens"):
        markers = [marker for pair in suite.decoder["markers"].values() for marker in pair]
        tokenizer.add_special_tokens({"additional_special_tokens": markers})
    return tokenizer


def model_for(architecture: str, suite: Suite, vocabulary: int, *, seed: int = 0, **config: Any) -> PreTrainedModel:
    """A seeded random model with the suite's head and labels; `config` overrides anything."""
    return _model(architecture, HEADS[suite.family], {"vocab_size": vocabulary} | _head(suite) | config, seed)


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


def _words(lines: list[str], least: int = 1) -> list[str]:
    """Words by pieces of letters, the most frequent first, of equals the alphabetically first."""
    counts = Counter(word for line in lines for word in line.split())
    return sorted((w for w, n in counts.items() if n >= least), key=lambda w: (-counts[w], w))


def _wordpiece(cls: str, specials: list[str], lines: list[str]) -> PreTrainedTokenizerFast:
    characters = sorted({c for line in lines for c in line if not c.isspace()})
    heads = [word[:2] for word in _words(lines) if len(word) > 1 and word[:2].isalpha()]
    pieces = dict.fromkeys([*specials, *characters, *(f"##{c}" for c in characters), *heads])
    fast = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    fast.normalizer = normalizers.BertNormalizer(lowercase=False)
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast.decoder = decoders.WordPiece()
    fast.post_processor = _bert_template(pieces)
    return getattr(transformers, cls)(tokenizer_object=fast, do_lower_case=False)


def _bert_template(pieces: dict[str, None]) -> processors.TemplateProcessing:
    order = list(pieces)
    return processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, order.index(token)) for token in ("[CLS]", "[SEP]")],
    )


def _bert_style(cls: str) -> Callable[[list[str]], PreTrainedTokenizerFast]:
    return lambda lines: _wordpiece(cls, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], lines)


def _klue_style(lines: list[str]) -> PreTrainedTokenizerFast:
    """WordPiece with BERT's names in RoBERTa's order: padding is id 1."""
    return _wordpiece("BertTokenizerFast", ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"], lines)


def _byte_bpe(specials: list[str], lines: list[str]) -> Tokenizer:
    fast = Tokenizer(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    fast.train_from_iterator(
        lines,
        trainers.BpeTrainer(
            vocab_size=480, initial_alphabet=sorted(alphabet), special_tokens=specials, show_progress=False
        ),
    )
    return fast


def _roberta(lines: list[str]) -> PreTrainedTokenizerFast:
    fast = _byte_bpe(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], lines)
    fast.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return transformers.RobertaTokenizerFast(tokenizer_object=fast)


def _modernbert(lines: list[str]) -> PreTrainedTokenizerFast:
    specials = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    fast = _byte_bpe(specials, lines)
    fast.post_processor = _bert_template(dict.fromkeys(specials))
    names = {f"{s[1:-1].lower()}_token": s for s in specials}
    return PreTrainedTokenizerFast(tokenizer_object=fast, model_input_names=["input_ids", "attention_mask"], **names)


def _unigram(specials: list[str], unk: str, lines: list[str]) -> Tokenizer:
    """Characters, frequent words and the lone word mark, with scores by rank."""
    lines = [normalizers.NFKC().normalize_str(line) for line in lines]
    characters = sorted({c for line in lines for c in line if not c.isspace()})
    pieces = dict.fromkeys(["▁", *(f"▁{w[:2]}" for w in _words(lines) if len(w) > 1), *characters])
    scored = [(s, 0.0) for s in specials] + [(p, -3.0 - i / 100 - 3.0 * (len(p) == 1)) for i, p in enumerate(pieces)]
    fast = Tokenizer(models.Unigram(scored, unk_id=specials.index(unk)))
    fast.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    fast.decoder = decoders.Metaspace()
    return fast


def _xlm_roberta(lines: list[str]) -> PreTrainedTokenizerFast:
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    fast = _unigram(specials, "<unk>", lines)
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return transformers.XLMRobertaTokenizerFast(tokenizer_object=fast)


def _albert_style(cls: str, unk: str) -> Callable[[list[str]], PreTrainedTokenizerFast]:
    def build(lines: list[str]) -> PreTrainedTokenizerFast:
        specials = ["[PAD]", unk, "[CLS]", "[SEP]", "[MASK]"]
        fast = _unigram(specials, unk, lines)
        fast.post_processor = _bert_template(dict.fromkeys(specials))
        return getattr(transformers, cls)(tokenizer_object=fast, unk_token=unk)

    return build


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
    "bert": Architecture("Bert", _bert_style("BertTokenizerFast"), {}),
    "roberta": Architecture("Roberta", _roberta, _ROBERTA | {"max_position_embeddings": POSITIONS + 2}),
    "klue-roberta": Architecture("Roberta", _klue_style, _ROBERTA),
    "electra": Architecture("Electra", _bert_style("ElectraTokenizerFast"), {"embedding_size": 16}),
    "distilbert": Architecture(
        "DistilBert", _bert_style("DistilBertTokenizerFast"), {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}
    ),
    "albert": Architecture("Albert", _albert_style("AlbertTokenizerFast", "<unk>"), {"embedding_size": 16}),
    "xlm-roberta": Architecture("XLMRoberta", _xlm_roberta, _ROBERTA | {"max_position_embeddings": POSITIONS + 2}),
    "deberta-v2": Architecture(
        "DebertaV2",
        _albert_style("DebertaV2TokenizerFast", "[UNK]"),
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
        _modernbert,
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
