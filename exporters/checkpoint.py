"""Read a checkpoint and everything about it that a bundle must state: labels, special tokens, positions, template."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import snapshot_download
from transformers import AutoConfig, AutoModel, AutoTokenizer

from exporters import heads, weights
from exporters.errors import ExportError
from service.bundle import UNNAMED, Part, TokenizerFacts
from suites import Suite

# Families whose head is one of transformers' own: the end of its class names, and what optimum calls the task.
STOCK = {
    "text-classification": ("ForSequenceClassification", "text-classification"),
    "pair-classification": ("ForSequenceClassification", "text-classification"),
    "span-pair-classification": ("ForSequenceClassification", "text-classification"),
    "document-classification": ("ForSequenceClassification", "text-classification"),
    "token-classification": ("ForTokenClassification", "token-classification"),
    "question-answering": ("ForQuestionAnswering", "question-answering"),
    "multiple-choice": ("ForMultipleChoice", "multiple-choice"),
    "cloze": ("ForMultipleChoice", "multiple-choice"),
}
# Families without classes of their own.
UNLABELLED = ("question-answering", "multiple-choice", "cloze")
# Pieces that a tokenizer uses for the mere start of a word.
WORD_MARKS = ("▁", "Ġ")


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint. `capacity` is the number of tokens its positions allow."""

    source: str
    model: Any
    tokenizer: Any
    capacity: int
    segments: bool
    """Whether the model tells segment A from segment B."""


def load(source: str, suite: Suite) -> Checkpoint:
    """Load by local path or hub id. ExportError if a head would be made up or offsets are missing."""
    if suite.head is None and suite.family not in STOCK:
        raise ExportError(f"no exporter for family {suite.family} without a head of its own")
    try:
        config = AutoConfig.from_pretrained(source)
        tokenizer = AutoTokenizer.from_pretrained(source, use_fast=True)
    except Exception as error:  # what transformers raises for a broken folder is of every kind
        raise ExportError(f"{source} cannot be loaded: {type(error).__name__}: {error}") from error
    if not tokenizer.is_fast:
        raise ExportError(
            f"{source} has no fast tokenizer, hence no character offsets; convert it to tokenizer.json first"
        )
    model = _stock(source, config, suite) if suite.head is None else _own(source, config, suite, suite.head)
    if isinstance(model, heads.Model):
        model.head.prepare(tokenizer)
    vocabulary, embedded = len(tokenizer), model.get_input_embeddings().num_embeddings
    if vocabulary > embedded:
        raise ExportError(
            f"the tokenizer has {vocabulary} tokens, the model {embedded} embeddings: they do not belong together"
        )
    model.eval()
    return Checkpoint(source, model, tokenizer, capacity(model), getattr(config, "type_vocab_size", 0) > 1)


def _stock(source: str, config: Any, suite: Suite) -> Any:
    """A model whose head is one of transformers' own."""
    cls = getattr(transformers, f"AutoModel{STOCK[suite.family][0]}")
    try:
        model, info = cls.from_pretrained(
            source,
            config=config,
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that they are named below
            attn_implementation="eager",
        )
    except Exception as error:  # as above, and what safetensors raises
        raise ExportError(f"{source} cannot be loaded: {type(error).__name__}: {error}") from error
    if info["missing_keys"] or info["mismatched_keys"]:
        lost = sorted(map(str, [*info["missing_keys"], *info["mismatched_keys"]]))
        raise ExportError(f"{source} was not fine-tuned for {suite.family}: it lacks {', '.join(lost[:5])}")
    _is_of_family(source, config, suite)
    return model


def _own(source: str, config: Any, suite: Suite, about: dict[str, Any]) -> heads.Model:
    """A model whose head is one of ours, from its encoder's configuration and its tensors."""
    known = heads.heads()
    if about["type"] not in known:
        raise ExportError(f"no head {about['type']!r}; there are {', '.join(sorted(known))}")
    sizes = {k: v for k, v in about.items() if k != "type"}
    folder = Path(source) if Path(source).is_dir() else Path(snapshot_download(source))
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of modules that are about to be filled
        trunk = AutoModel.from_config(config, attn_implementation="eager", dtype=torch.float32)
        try:
            head = known[about["type"]](config, suite.labels, **sizes)
        except (TypeError, ValueError) as error:
            raise ExportError(f"{suite.name}: head {about}: {error}") from error
    model = heads.Model(trunk, head)
    weights.fill(model, about["type"], folder)
    return model


def simplified() -> dict[str, str]:
    """Every Traditional Chinese character that has one Simplified form, and that form."""
    from opencc import OpenCC

    convert = OpenCC("t2s").convert
    blocks = (range(0x3400, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x2FA20))
    pairs = ((c, convert(c)) for block in blocks for c in map(chr, block))
    return {c: simple for c, simple in pairs if simple != c and len(simple) == 1}


def _is_of_family(source: str, config: Any, suite: Suite) -> None:
    """Heads of different families may have the same tensors; the checkpoint says what it was trained as."""
    trained = config.architectures or []
    head = STOCK[suite.family][0]
    if trained and not any(name.endswith(head) for name in trained):
        raise ExportError(f"{source} was not fine-tuned for {suite.family}: it is {', '.join(trained)}, not ...{head}")


def capacity(model: Any) -> int:
    """Tokens that fit: the position table less RoBERTa's offset (its positions start after the padding id)."""
    limit = int(getattr(model.config, "max_position_embeddings", 512))
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.num_embeddings) - int(module.padding_idx) - 1
    return limit


def labels(checkpoint: Checkpoint, suite: Suite, declared: list[str] | None) -> list[str]:
    """Class names in the order of this checkpoint's logits.

    The checkpoint's own names decide the order; they must be the suite's. A checkpoint without names (`LABEL_0`) needs
    the caller to declare them: published class orders of one task differ, so that none can be assumed.
    """
    config = checkpoint.model.config
    if suite.family in UNLABELLED:
        return []
    if isinstance(checkpoint.model, heads.Model) and checkpoint.model.head.reads_labels:
        if declared not in (None, suite.labels):
            raise ExportError(f"the names of the labels are part of this model: their order is that of {suite.name}")
        return suite.labels
    count = int(config.num_labels) if suite.head is None else len(suite.labels)
    if suite.decoder.get("output") == "regression":
        if count != 1:
            raise ExportError(f"{suite.name} is a regression, the checkpoint has {count} outputs")
        return []
    # An encoder's configuration that knows nothing of its head has two classes by default.
    named = config.id2label if config.num_labels == count else {}
    own = [str(named.get(i, f"LABEL_{i}")) for i in range(count)]
    chosen = declared or own
    if len(chosen) != count:
        raise ExportError(f"{len(chosen)} labels were declared, the checkpoint has {count} outputs")
    if any(UNNAMED.fullmatch(label) for label in chosen):
        raise ExportError(
            "the checkpoint does not name its classes (LABEL_0 ...); declare their order with --labels a,b,c or, if it "
            f"was trained in the official order of {suite.name}, with --labels suite"
        )
    if sorted(chosen) != sorted(suite.labels):
        unknown, absent = sorted(set(chosen) - set(suite.labels)), sorted(set(suite.labels) - set(chosen))
        raise ExportError(f"the labels are not those of {suite.name}: unknown {unknown}, absent {absent}; see --labels")
    return chosen


def template(checkpoint: Checkpoint, suite: Suite) -> list[Part]:
    """The suite's template with this tokenizer's special tokens: what it puts around one text or between two."""
    segments = [s.strip() for s in suite.template.split("|")]
    if len(segments) > 2:
        raise ExportError(f"template {suite.template!r}: a tokenizer knows one or two segments")
    native = checkpoint.tokenizer(*["a", "b"][: len(segments)], return_token_type_ids=True)
    parts: list[Part] = []
    seen: set[int] = set()
    kinds = native["token_type_ids"] if checkpoint.segments else [0] * len(native["input_ids"])
    for token, kind, sequence in zip(native["input_ids"], kinds, native.sequence_ids(0), strict=True):
        if sequence is None:
            parts.append(Part(id=token, type=kind))
        elif sequence not in seen:
            seen.add(sequence)
            parts.extend(_segment(segments[sequence], kind, checkpoint.tokenizer))
    return parts


def _segment(text: str, kind: int, tokenizer: Any) -> list[Part]:
    parts = []
    for word in text.split():
        field = re.fullmatch(r"\{(\w+)\}", word)
        if field:
            parts.append(Part(field=field[1], type=kind))
        elif word == "<sep>":
            parts.append(Part(id=tokenizer.sep_token_id, type=kind))
        else:
            raise ExportError(f"template: {word!r} is neither a field in braces nor <sep>")
    return parts


def tokenizer_facts(tokenizer: Any) -> TokenizerFacts:
    """Special ids (never to come from a caller's text), the unknown id, the lone word mark."""
    unk = tokenizer.unk_token_id if tokenizer.unk_token_id is not None else tokenizer.pad_token_id
    vocabulary = tokenizer.get_vocab()
    marks = [vocabulary[mark] for mark in WORD_MARKS if mark in vocabulary]
    special = sorted(set(tokenizer.all_special_ids) - {unk})
    return TokenizerFacts(unk_id=unk, special_ids=special, word_mark_id=marks[0] if marks else None)


def tokenizer_json(tokenizer: Any, markers: set[str]) -> str:
    """`tokenizer.json` without truncation or padding, and with the markers as special tokens.

    A marker that is an ordinary added token would be matched inside a caller's text.
    """
    data = json.loads(tokenizer.backend_tokenizer.to_str())
    data["truncation"] = data["padding"] = None
    for token in data["added_tokens"]:
        token["special"] = token["special"] or token["content"] in markers
    return json.dumps(data, ensure_ascii=False)
