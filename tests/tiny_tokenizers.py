"""Small fast tokenizers of every kind from a few lines: WordPiece, byte-level BPE, unigrams with a word mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import tokenizers
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast


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


def bert_style(cls: str) -> Callable[[list[str]], PreTrainedTokenizerFast]:
    return lambda lines: _wordpiece(cls, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], lines)


def klue_style(lines: list[str]) -> PreTrainedTokenizerFast:
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


def roberta(lines: list[str]) -> PreTrainedTokenizerFast:
    fast = _byte_bpe(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], lines)
    fast.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return transformers.RobertaTokenizerFast(tokenizer_object=fast)


def modernbert(lines: list[str]) -> PreTrainedTokenizerFast:
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


def xlm_roberta(lines: list[str]) -> PreTrainedTokenizerFast:
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    fast = _unigram(specials, "<unk>", lines)
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return transformers.XLMRobertaTokenizerFast(tokenizer_object=fast)


def albert_style(cls: str, unk: str) -> Callable[[list[str]], PreTrainedTokenizerFast]:
    def build(lines: list[str]) -> PreTrainedTokenizerFast:
        specials = ["[PAD]", unk, "[CLS]", "[SEP]", "[MASK]"]
        fast = _unigram(specials, unk, lines)
        fast.post_processor = _bert_template(dict.fromkeys(specials))
        return getattr(transformers, cls)(tokenizer_object=fast, unk_token=unk)

    return build
