"""Idioms for blanks: what the model reads of a passage, and how candidates are given out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import Loaded, load
from pydantic import ValidationError

from service.errors import BundleError, InvalidItem
from service.tasks.base import Encoded
from service.tasks.chunks import ROWS
from service.tasks.cloze import assign
from service.types import Timing

Copy = Callable[..., Path]
IDIOMS = ["画蛇添足", "一鸣惊人", "守株待兔"]
A, B, C = "#idiom000001#", "#idiom000002#", "#idiom000003#"


@pytest.fixture
def chid(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded("clue/chid")


def fields(*passages: str, candidates: list[str] = IDIOMS, **options: Any) -> dict[str, Any]:
    return {"passages": list(passages), "candidates": candidates} | options


def read(model: Loaded, row: int, *passages: str, candidates: list[str] = IDIOMS) -> str:
    """What a row holds between its separators, special tokens written short."""
    ids = model.ids(**fields(*passages, candidates=candidates))[row]
    tokens = [model.task.encoder.token(i).removeprefix("##") for i in ids]
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
    short = {"[unused1]": "?", "[MASK]": "_", "[UNK]": "*"}
    return "".join(short.get(token, token) for token in tokens[tokens.index("[SEP]") + 1 : -1])


def decode(model: Loaded, logits: list[list[float]], *passages: str, **options: Any) -> Any:
    item = model.item(**fields(*passages, **options))
    encoded = Encoded([], False, list(model.task._blanks(item)))
    return model.task.decode(item, encoded, [{"logits": np.array([v], np.float32)} for row in logits for v in row])


def test_a_row_is_a_candidate_and_the_passage_around_its_blank(chid: Loaded) -> None:
    rows = chid.task.encode(chid.item(**fields(f"今天{A}很好", candidates=["公园", "北京"]))).rows
    assert [row["input_ids"].shape for row in rows] == [(1, 10)] * 2
    names = [[chid.task.encoder.token(i).removeprefix("##") for i in row["input_ids"][0]] for row in rows]
    assert names[0] == ["[CLS]", "公", "园", "[SEP]", "今", "天", "[unused1]", "很", "好", "[SEP]"]
    assert names[1][1:3] == ["北", "京"]
    assert all(not row["token_type_ids"].any() and row["attention_mask"].all() for row in rows)


def test_other_blanks_are_four_masks_and_another_passage_is_not_read(chid: Loaded) -> None:
    passages = (f"今{A}天{B}好", f"我们{C}。")
    assert [read(chid, 3 * blank, *passages) for blank in range(3)] == ["今?天____好", "今____天?好", "我们?。"]


def test_quotes_and_dashes_are_written_as_the_model_knows_them(chid: Loaded) -> None:
    assert read(chid, 0, f"“今‘天’”{A}……好——") == "\"今'天'\"?......好--"


def test_what_a_caller_types_is_never_a_special_token(chid: Loaded) -> None:
    """A separator in plain text became the real one (bojone/bert4keras#223)."""
    got = chid.ids(**fields(f"[unused1]今[MASK]{A}[SEP]好"))[0]
    assert [got.count(chid.id(token)) for token in ("[unused1]", "[MASK]", "[SEP]")] == [1, 0, 2]


LONG = "".join(str(i % 10) for i in range(300))


@pytest.mark.parametrize(
    ("before", "behind", "left", "right"),
    [
        (100, 100, 28, 28),
        (10, 100, 10, 46),
        (28, 100, 28, 28),
        (100, 5, 51, 5),
        (30, 5, 30, 5),
        (0, 0, 0, 0),
        (40, 20, 36, 20),
    ],
)
def test_the_window_is_centred_and_wanders_at_the_ends(
    chid: Loaded, before: int, behind: int, left: int, right: int
) -> None:
    first, last = LONG[:before], LONG[:behind]
    spaced = f"{' '.join(first)}{A}{' '.join(last)}"
    assert read(chid, 0, spaced) == f"{first[len(first) - left :]}?{last[:right]}"
    answer = chid.ask(**fields(spaced))
    assert answer["truncated"] is (left < before or right < behind)


def test_a_blank_counts_as_one_until_it_is_written_out(chid: Loaded) -> None:
    """Then what has become too long is cut at the far end, as in the official script."""
    far = "今" * 40
    assert read(chid, 3, f"{far}{A}好{B}{far}") == "今" * 23 + "____好" + "?" + "今" * 28
    assert read(chid, 3, f"{far}天{A}{B}{far}") == "今" * 23 + "天" + "____" + "?" + "今" * 28


def test_a_long_candidate_takes_room_from_the_passage(chid: Loaded) -> None:
    text = f"{'今' * 40}{A}{'好' * 40}"
    long = "天" * 10
    assert read(chid, 0, text, candidates=[long, "公园"]) == "今" * 25 + "?" + "好" * 25
    assert len(read(chid, 1, text, candidates=[long, "公园"])) == 57
    with pytest.raises(InvalidItem, match="the text has 60 tokens, the model reads 59") as refused:
        chid.ask(**fields(text, candidates=["公园", "天" * 60]))
    assert (refused.value.field, refused.value.reason) == ("candidates.1", "text_too_long")


@pytest.mark.parametrize(
    ("scores", "choices"),
    [
        ([[0.9, 0.8], [0.7, 0.1]], [0, 1]),
        ([[0.9, 0.8], [0.95, 0.1]], [1, 0]),
        ([[0.5, 0.4, 0.3], [0.6, 0.5, 0.0], [0.7, 0.1, 0.2]], [2, 1, 0]),
        ([[0.5, 0.5], [0.5, 0.5]], [0, 1]),
        ([[0.1, 0.9]], [1]),
        ([[3.0, 0.0], [2.0, 1.0], [9.0, 8.0]], [0, 1, 0]),
        ([[1.0, 0.0]] * 5, [0, 1, 0, 1, 0]),
    ],
)
def test_the_highest_score_is_given_out_first(scores: list[list[float]], choices: list[int]) -> None:
    assert assign(np.array(scores)) == choices


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_no_pair_would_rather_have_each_other(blanks: int, candidates: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(blanks, candidates))
    chosen = assign(scores)
    counts = np.bincount(chosen, minlength=candidates)
    assert counts.max() - counts.min() <= 1, "every candidate as often as the others, or once more"
    if blanks <= candidates:
        taken = {choice: blank for blank, choice in enumerate(chosen)}
        for blank, choice in itertools.product(range(blanks), range(candidates)):
            better = scores[blank, choice] > scores[blank, chosen[blank]]
            assert not (better and (choice not in taken or scores[blank, choice] > scores[taken[choice], choice]))


def test_an_idiom_is_used_once_in_a_request_and_scores_are_each_blanks_own(chid: Loaded) -> None:
    logits = [[4.0, 3.0, 0.0], [5.0, 1.0, 0.0]]
    answer = decode(chid, logits, f"今天{A}很好", f"他{B}。")
    assert [(b["blank"], b["passage"], b["start"], b["end"]) for b in answer["blanks"]] == [
        (A, 0, 2, 15),
        (B, 1, 1, 14),
    ]
    assert [(b["choice"], b["text"]) for b in answer["blanks"]] == [(1, IDIOMS[1]), (0, IDIOMS[0])]
    for blank, row in zip(answer["blanks"], logits, strict=True):
        assert blank["scores"] == pytest.approx(np.exp(row) / np.exp(row).sum(), abs=1e-6)


def test_candidates_may_be_used_again_where_the_bundle_says_so(copy_of: Copy) -> None:
    model = load(copy_of("clue/chid", decoder={"assignment": "independent"}))
    answer = decode(model, [[4.0, 3.0, 0.0], [5.0, 1.0, 0.0]], f"今天{A}很好{B}")
    assert [b["choice"] for b in answer["blanks"]] == [0, 0]


@pytest.mark.parametrize(("unit", "place"), [("codepoint", (2, 15)), ("utf16", (3, 16)), ("byte", (7, 20))])
def test_offsets_count_what_the_caller_counts(chid: Loaded, unit: str, place: tuple[int, int]) -> None:
    (blank,) = decode(chid, [[1.0, 2.0, 3.0]], f"😀今{A}好", offset_unit=unit)["blanks"]
    assert (blank["start"], blank["end"]) == place


def test_fewclue_is_the_same_by_parameters(copy_of: Copy) -> None:
    """Seven candidates, and every blank has the same name."""
    model = load(copy_of("clue/chid", decoder={"blank_pattern": "#idiom#", "max_choices": 7}))
    candidates = [*IDIOMS, "半途而废", "井井有条", "雪中送炭", "津津有味"]
    answer = model.ask(**fields("今天#idiom#很好", "他#idiom#", candidates=candidates))
    assert [(b["blank"], b["passage"], len(b["scores"])) for b in answer["blanks"]] == [
        ("#idiom#", 0, 7),
        ("#idiom#", 1, 7),
    ]
    assert answer["blanks"][0]["choice"] != answer["blanks"][1]["choice"]
    with pytest.raises(InvalidItem, match="give 2 to 7 candidates, not 8"):
        model.item(**fields("今天#idiom#很好", candidates=[*candidates, "五颜六色"]))


def test_answers_do_not_depend_on_company(chid: Loaded) -> None:
    request = fields(f"今天{A}很好", f"他{B}。")
    alone = chid.ask(**request)
    together = chid.ask_all([fields(f"{'今' * 90}{A}{'好' * 90}{B}"), request, fields(f"{A}")])[1]
    assert [b["choice"] for b in together["blanks"]] == [b["choice"] for b in alone["blanks"]]
    for one, two in zip(together["blanks"], alone["blanks"], strict=True):
        assert one["scores"] == pytest.approx(two["scores"], abs=1e-5)
        assert sum(one["scores"]) == pytest.approx(1, abs=5e-6)


def test_rows_are_run_a_few_at_a_time(chid: Loaded) -> None:
    sizes: list[int] = []

    def run(rows: Any) -> Any:
        sizes.append(len(rows))
        return chid.session.run(rows)

    item = chid.item(**fields(f"今{A}好" * 20))
    (answer,) = chid.task.predict([item], run, [Timing()])
    assert (len(answer["blanks"]), sum(sizes), max(sizes)) == (20, 60, ROWS)


@pytest.mark.parametrize(
    ("request_", "field", "problem"),
    [
        (fields(f"今{A}", candidates=["公园"]), "candidates", "give 2 to 10 candidates, not 1"),
        (fields(f"今{A}", candidates=["公园"] * 11), "candidates", "give 2 to 10 candidates, not 11"),
        (fields("今天很好"), "passages", "give 1 to 64 blanks, not 0"),
        (fields(A * 65), "passages", "give 1 to 64 blanks, not 65"),
        (fields(A, " "), "passages.1", "the text is empty"),
        (fields(A, candidates=["公园", ""]), "candidates.1", "the text is empty"),
    ],
)
def test_what_cannot_be_filled_is_named(chid: Loaded, request_: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(InvalidItem, match=problem) as refused:
        chid.item(**request_)
    assert (refused.value.status, refused.value.field) == (422, field)


def test_a_candidate_without_any_token_is_named(chid: Loaded) -> None:
    with pytest.raises(InvalidItem, match="no characters that the model knows") as refused:
        chid.ask(**fields(f"今{A}", candidates=["公园", "\x07"]))
    assert refused.value.field == "candidates.1"


@pytest.mark.parametrize("body", [{"passages": [A]}, {"candidates": IDIOMS}, {"passages": A, "candidates": IDIOMS},
                                  {"passages": [], "candidates": IDIOMS}, {"passages": [A], "candidates": [1, 2]},
                                  {"passages": [A], "candidates": IDIOMS, "blank": A}])  # fmt: skip
def test_a_request_of_another_shape_is_invalid(chid: Loaded, body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        chid.task.Input.model_validate(body)


@pytest.mark.parametrize(
    ("decoder", "problem"),
    [
        ({"blank_token": "[unused9]"}, r"the tokenizer has no \[unused9\]"),
        ({"blank_pattern": "("}, "not a regular expression"),
        ({"blank_pattern": "(idiom)?"}, "finds blanks where there is nothing"),
        ({"choice_tokens": 60}, "max_length leaves no passage beside 60 choice_tokens"),
    ],
)
def test_a_bundle_that_does_not_fit_is_refused(copy_of: Copy, decoder: dict[str, Any], problem: str) -> None:
    with pytest.raises(BundleError, match=problem):
        load(copy_of("clue/chid", decoder=decoder))
