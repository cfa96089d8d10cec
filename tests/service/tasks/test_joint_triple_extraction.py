"""Triples of one graph: what holds in its matrices, where windows meet, and that batches change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import Loaded, load

from service.errors import BundleError, InvalidItem
from service.types import Array, Outputs, Timing

Copy = Callable[..., Path]
TEXT = "甲病有子症，甲病用丑药。"
SUITE = "cblue/cmeie-joint"


@pytest.fixture
def model(loaded: Callable[[str], Loaded]) -> Loaded:
    return loaded(SUITE)


def matrices(model: Loaded, length: int) -> dict[str, Array]:
    """Outputs of a row in which nothing holds."""
    count = len(model.task.manifest.labels)
    shapes = {"entity": 2, "head": count, "tail": count}
    return {name: np.full((n, length, length), -9.0, np.float32) for name, n in shapes.items()}


def join(
    model: Loaded, out: dict[str, Array], subject: tuple[int, int], label: str, obj: tuple[int, int], *scores: float
) -> None:
    """Make a triple hold: characters, ends exclusive; scores of subject, object, head and tail."""
    s, o, h, t = scores or (4.0, 4.0, 4.0, 4.0)
    # Behind the first special token, and with inclusive ends.
    (a, b), (c, d) = ((start + 1, end) for start, end in (subject, obj))
    r = model.task.manifest.labels.index(label)
    out["entity"][0, a, b], out["entity"][1, c, d] = s, o
    out["head"][r, a, c], out["tail"][r, b, d] = h, t


def decode(model: Loaded, outputs: list[dict[str, Array]], **fields: Any) -> dict[str, Any]:
    item = model.item(**fields)
    encoded = model.task.encode(item)
    for row, out in zip(encoded.rows, outputs, strict=True):
        assert len(row["input_ids"]) == out["entity"].shape[-1]
    answer: dict[str, Any] = model.task.decode(item, encoded, [model.task.sparse(out) for out in outputs])
    return answer


def brief(answer: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(t["subject"]["text"], t["predicate"], t["object"]["text"], t["object"]["type"]) for t in answer["triples"]]


def test_a_triple_holds_where_both_spans_both_heads_and_both_tails_do(model: Loaded) -> None:
    out = matrices(model, len(TEXT) + 2)
    join(model, out, (0, 2), "临床表现|症状", (3, 5), 4.0, 3.0, 2.0, 1.0)
    join(model, out, (6, 8), "药物治疗|药物", (9, 11), 0.5, 3.0, 2.0, 1.0)
    assert decode(model, [out], text=TEXT) == {
        "triples": [
            {
                "subject": {"text": "甲病", "start": 0, "end": 2, "type": "疾病"},
                "predicate": "临床表现",
                "object": {"text": "子症", "start": 3, "end": 5, "type": "症状"},
                "score": 0.731059,
            },
            {
                "subject": {"text": "甲病", "start": 6, "end": 8, "type": "疾病"},
                "predicate": "药物治疗",
                "object": {"text": "丑药", "start": 9, "end": 11, "type": "药物"},
                "score": 0.622459,
            },
        ],
        "truncated": False,
        "tokens": len(TEXT) + 2,
    }


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("score", [0.0, -1.0])
def test_whatever_is_not_above_zero_makes_no_triple(model: Loaded, part: int, score: float) -> None:
    out = matrices(model, len(TEXT) + 2)
    scores = [4.0] * 4
    scores[part] = score
    join(model, out, (0, 2), "临床表现|症状", (3, 5), *scores)
    assert decode(model, [out], text=TEXT)["triples"] == []


def test_head_and_tail_must_be_of_one_relation_and_a_subject_is_no_object(model: Loaded) -> None:
    out = matrices(model, len(TEXT) + 2)
    join(model, out, (0, 2), "临床表现|症状", (3, 5))
    join(model, out, (6, 8), "药物治疗|药物", (9, 11))
    first, second = (model.task.manifest.labels.index(label) for label in ("临床表现|症状", "药物治疗|药物"))
    out["tail"][first, 2, 5] = -1
    out["tail"][second, 2, 5] = 4
    out["head"][second, 10, 7] = out["tail"][second, 11, 8] = 4
    assert brief(decode(model, [out], text=TEXT)) == [("甲病", "药物治疗", "丑药", "药物")]


def test_spans_may_share_tokens(model: Loaded) -> None:
    """An object within another, and a subject that is an object elsewhere: each by its own scores."""
    out = matrices(model, len(TEXT) + 2)
    join(model, out, (0, 2), "临床表现|症状", (3, 5))
    join(model, out, (0, 2), "发病部位|部位", (3, 4))
    join(model, out, (3, 5), "同义词|症状", (0, 2))
    assert brief(decode(model, [out], text=TEXT)) == [
        ("甲病", "发病部位", "子", "部位"),
        ("甲病", "临床表现", "子症", "症状"),
        ("子症", "同义词", "甲病", "症状"),
    ]


@given(st.integers(0, 2**32 - 1), st.integers(3, 9))
def test_sparse_finds_what_a_plain_search_finds(loaded: Callable[[str], Loaded], seed: int, length: int) -> None:
    model = loaded(SUITE)
    rng = np.random.default_rng(seed)
    shapes = {"entity": 2, "head": 5, "tail": 5}
    out = {name: rng.normal(-1, 1, (n, length, length)).astype(np.float32) for name, n in shapes.items()}
    model.task.params, old = model.task.params.model_copy(update={"max_spans": 99}), model.task.params
    got = model.task.sparse(out)
    model.task.params = old
    entity, head, tail = out.values()
    want = {
        (r, a, b, c, d): min(entity[0, a, b], entity[1, c, d], head[r, a, c], tail[r, b, d])
        for a, b in zip(*np.nonzero(entity[0] > 0), strict=True)
        for c, d in zip(*np.nonzero(entity[1] > 0), strict=True)
        for r in range(5)
        if head[r, a, c] > 0 and tail[r, b, d] > 0
    }
    assert dict(zip(map(tuple, got["triples"].tolist()), got["logits"].tolist(), strict=True)) == want
    assert not got["cut"][0]


def test_of_too_many_spans_the_most_probable_are_read(model: Loaded) -> None:
    out = matrices(model, len(TEXT) + 2)
    for i, score in enumerate((3.0, 1.0, 5.0, 2.0, 4.0)):
        join(model, out, (6, 8), "临床表现|症状", (i, i + 1), 4.0, score, 4.0, 4.0)
    assert model.task.params.max_spans == 4
    answer = decode(model, [out], text=TEXT)
    assert [triple["object"]["start"] for triple in answer["triples"]] == [0, 2, 3, 4]
    assert answer["truncated"] is True


def windowed(model: Loaded, text: str) -> tuple[list[dict[str, Array]], list[tuple[int, int]]]:
    encoded = model.task.encode(model.item(text=text))
    return [matrices(model, len(row["input_ids"])) for row in encoded.rows], encoded.context.windows


def test_a_triple_that_two_windows_see_is_one(model: Loaded) -> None:
    text = "，" * 50 + "甲病有子症" + "，" * 30
    outs, spans = windowed(model, text)
    assert spans == [(0, 62), (46, 85)]
    for out, (begin, _), score in zip(outs, spans, (1.0, 2.0), strict=True):
        join(model, out, (50 - begin, 52 - begin), "临床表现|症状", (53 - begin, 55 - begin), score, 4.0, 4.0, 4.0)
    (triple,) = decode(model, outs, text=text)["triples"]
    assert (triple["subject"]["start"], triple["object"]["start"]) == (50, 53)
    assert triple["score"] == 0.880797


def test_a_triple_across_a_window_is_found_wherever_it_lies(model: Loaded) -> None:
    """One that reaches from the first part of a window to its last belongs to no part alone."""
    text = "甲病" + "，" * 56 + "子症" + "，" * 30
    outs, _ = windowed(model, text)
    join(model, outs[0], (0, 2), "临床表现|症状", (58, 60))
    assert brief(decode(model, outs, text=text)) == [("甲病", "临床表现", "子症", "症状")]


@pytest.mark.parametrize(
    ("span", "window", "kept"),
    [
        ((60, 62), 0, False),
        ((59, 61), 0, True),
        ((0, 2), 0, True),
        ((46, 48), 1, False),
        ((47, 49), 1, True),
        ((83, 85), 1, True),
    ],
)
def test_a_span_at_an_edge_where_the_text_goes_on_does_not_count(
    model: Loaded, span: tuple[int, int], window: int, kept: bool
) -> None:
    text = "字" * 85
    outs, spans = windowed(model, text)
    begin = spans[window][0]
    join(model, outs[window], (52 - begin, 54 - begin), "临床表现|症状", (span[0] - begin, span[1] - begin))
    assert len(decode(model, outs, text=text)["triples"]) == kept


def test_special_tokens_are_never_part_of_a_span(model: Loaded) -> None:
    out = matrices(model, len(TEXT) + 2)
    for a, b in ((0, 2), (1, len(TEXT) + 1), (3, 2)):
        out["entity"][0, a, b] = 4
    out["entity"][1, 4, 5] = 4
    out["head"][:], out["tail"][:] = 4, 4
    assert decode(model, [out], text=TEXT)["triples"] == []


def test_rows_are_run_one_at_a_time_and_only_what_holds_is_kept(model: Loaded) -> None:
    sizes = []

    def run(rows: list[Any]) -> list[Outputs]:
        sizes.append(len(rows))
        return model.session.run(rows)

    items = [model.item(text=TEXT), model.item(text="今天天气很好。" * 20)]
    timings = [Timing() for _ in items]
    model.task.predict(items, run, timings)
    assert sizes == [1] * timings[0].rows
    assert timings[0].rows > 3


def test_answers_do_not_depend_on_who_else_is_asked(model: Loaded) -> None:
    texts = [TEXT, "肺结核由结核分枝杆菌引起。", "胸部CT检查有助于诊断，" * 9, "病"]
    together = model.ask_all([{"text": text} for text in texts])
    assert together == [model.ask(text=text) for text in texts]
    assert sum(len(answer["triples"]) for answer in together) > 20, "an empty answer proves nothing"
    for text, answer in zip(texts, together, strict=True):
        for triple in answer["triples"]:
            for part in (triple["subject"], triple["object"]):
                assert part["text"] == text[part["start"] : part["end"]] != ""


def test_an_error_is_asked_for_and_names_the_text(model: Loaded) -> None:
    with pytest.raises(InvalidItem, match="the text has 70 tokens, the model reads 62") as refused:
        model.ask(text="字" * 70, on_overflow="error")
    assert (refused.value.field, refused.value.reason) == ("text", "text_too_long")
    assert model.ask(text="字" * 70, on_overflow="truncate")["truncated"] is True


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"decoder": {"stride": 62}}, "stride 62 leaves no way forward in windows of 62"),
        ({"decoder": {"relations": [["疾病", "预防", "其他"]]}}, "labels and decoder.relations differ in"),
        ({"graph": {"outputs": {"tail": [9, "sequence_length", "sequence_length"]}}}, "tail has 9 relations"),
    ],
)
def test_a_bundle_that_does_not_fit_is_refused(copy_of: Copy, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(BundleError, match=why):
        load(copy_of(SUITE, **changes))
