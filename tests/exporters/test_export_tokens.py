"""The ids that the service builds are those that the model was trained with: the Hugging Face tokenizer's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from tiny import ARCHITECTURES, LINES, tiny_suite, tokenizer_for
from transformers import AutoTokenizer

from exporters.checkpoint import tokenizer_json
from service.bundle import Bundle
from service.tasks import family
from service.tasks.base import Task

YNAT, NLI, RE = (tiny_suite(name) for name in ("klue/ynat", "klue/nli", "klue/re"))
WORDS = " ".join([*LINES, *(e["text"] for e in (*YNAT.examples, *NLI.examples))]).split()
ODD = ("한", "  두  칸  ", "a\nb\tc", "😀👍🏽", "ＡＢＣ １２３", "é ñ", "！？", "서울 2024년 ABC 今天", "x" * 150)

UNIGRAM = ("albert", "xlm-roberta", "deberta-v2")

BundleOf = Callable[..., Path]


def opened(folder: Path) -> Task:
    bundle = Bundle(folder)
    return family(bundle)(bundle)


def text(words: int) -> str:
    return " ".join(WORDS[:words])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ids_of_one_text_equal_the_tokenizers(bundle_of: BundleOf, architecture: str) -> None:
    task, tokenizer = opened(bundle_of("klue/ynat", architecture)), tokenizer_for(architecture, YNAT)
    seen = set()
    for value in [*ODD, *(e["text"] for e in YNAT.examples), *map(text, range(1, 60))]:
        encoded = task.encode(task.Input(text=value))
        row = encoded.rows[0]
        whole = tokenizer(value)["input_ids"]
        cut = tokenizer(value, truncation=True, max_length=task.encoder.max_length)["input_ids"]
        assert row["input_ids"].tolist() == cut, value
        assert row["attention_mask"].tolist() == [1] * len(cut)
        assert encoded.truncated == (len(whole) > len(cut))
        seen.add(encoded.truncated)
    assert seen == {False, True}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ids_of_two_texts_equal_the_tokenizers_however_long_they_are(bundle_of: BundleOf, architecture: str) -> None:
    task, tokenizer = opened(bundle_of("klue/nli", architecture)), tokenizer_for(architecture, NLI)
    limit = task.encoder.max_length
    seen = set()
    counts = [1, 2, 4, 7, 9, 10, 11, 12, 13, 20, 50]
    pairs = [(text(n), " ".join(reversed(WORDS[-m:]))) for n, m in product(counts, repeat=2)]
    for a, b in [*pairs, *((text(n), text(n)) for n in counts)]:
        encoded = task.encode(task.Input(text=a, text_pair=b))
        row = encoded.rows[0]
        expected = tokenizer(a, b, truncation="longest_first", max_length=limit, return_token_type_ids=True)
        assert row["input_ids"].tolist() == expected["input_ids"], (a, b)
        if "token_type_ids" in row:
            assert row["token_type_ids"].tolist() == expected["token_type_ids"]
        seen.add((encoded.truncated, len(expected["input_ids"]) == limit))
    assert {(False, False), (True, True)} <= seen


def test_a_model_of_one_segment_type_gets_no_segments(bundle_of: BundleOf) -> None:
    for architecture in ("roberta", "klue-roberta", "xlm-roberta", "deberta-v2", "distilbert", "modernbert"):
        task = opened(bundle_of("klue/nli", architecture))
        row = task.encode(task.Input.model_validate(NLI.examples[0])).rows[0]
        assert not row.get("token_type_ids", row["input_ids"] * 0).any()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_separator_that_a_user_types_is_text(bundle_of: BundleOf, architecture: str) -> None:
    task, tokenizer = opened(bundle_of("klue/ynat", architecture)), tokenizer_for(architecture, YNAT)
    typed = f"A {tokenizer.sep_token} B {tokenizer.cls_token} C {tokenizer.mask_token}"
    ids = task.encode(task.Input(text=typed)).rows[0]["input_ids"].tolist()
    first, *plain, last = tokenizer(typed, split_special_tokens=True)["input_ids"]
    # A unigram vocabulary finds control tokens in plain text as well.
    control = set(tokenizer.all_special_ids)
    assert ids == [first, *(tokenizer.unk_token_id if i in control else i for i in plain), last]
    assert len(ids) > len(tokenizer(typed)["input_ids"]) or architecture in UNIGRAM


def test_limits_that_are_set_on_the_tokenizer_are_not_written() -> None:
    tokenizer = tokenizer_for("bert", YNAT)
    plain = json.loads(tokenizer_json(tokenizer, set()))
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=8)
    assert json.loads(tokenizer_json(tokenizer, set())) == plain
    assert (plain["truncation"], plain["padding"]) == (None, None)


@pytest.mark.parametrize("special", [True, False], ids=["as special tokens", "as ordinary tokens"])
def test_markers_that_a_user_types_are_text_however_they_were_added(save, export_to, special: bool) -> None:
    markers = [marker for pair in RE.decoder["markers"].values() for marker in pair]
    unmarked = RE.model_copy(update={"decoder": RE.decoder | {"marker_tokens": False}})
    source = save(unmarked, vocab_size=len(tokenizer_for("bert", RE)))
    tokenizer = AutoTokenizer.from_pretrained(source)
    assert tokenizer.add_tokens(markers, special_tokens=special) == 4
    tokenizer.save_pretrained(source)

    task = opened(Path(export_to(source, RE).place))
    ids = [task.encoder.find(marker) for marker in markers]
    assert None not in ids
    example = RE.examples[0]
    typed = example | {"text": f"{example['text']} {' '.join(markers)}"}
    row = task.encode(task.Input.model_validate(typed)).rows[0]["input_ids"].tolist()
    assert [row.count(i) for i in ids] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("architecture", "mark"),
    [("bert", None), ("roberta", "Ġ"), ("xlm-roberta", "▁"), ("albert", "▁"), ("deberta-v2", "▁"), ("modernbert", "Ġ")],
)
def test_the_lone_word_mark_is_known(bundle_of: BundleOf, architecture: str, mark: str | None) -> None:
    task, tokenizer = opened(bundle_of("klue/ynat", architecture)), tokenizer_for(architecture, YNAT)
    assert task.encoder.word_mark_id == (None if mark is None else tokenizer.convert_tokens_to_ids(mark))


@pytest.mark.parametrize("architecture", ["bert", "klue-roberta", "xlm-roberta"])
def test_a_particle_behind_a_marker_is_a_known_piece(bundle_of: BundleOf, architecture: str) -> None:
    task = opened(bundle_of("klue/re", architecture))
    unknown = tokenizer_for(architecture, RE).unk_token_id
    for example in RE.examples:
        assert unknown not in task.encode(task.Input.model_validate(example)).rows[0]["input_ids"]
