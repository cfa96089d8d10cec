"""Entities within entities, in the caller's own text. The graph scores spans by a table of their ends."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import SPECIALS, Loaded, copy, edit, gather, load, vocabulary, write
from onnx import TensorProto, helper, numpy_helper

from service.errors import BundleError, InvalidItem
from service.graphemes import is_boundary
from service.tasks.chunks import ROWS
from service.tasks.span_classification import pair
from service.types import Timing

Copy = Callable[..., Path]
KINDS = ["place", "school"]
FIRST = {"北": "place", "清": "school", "서울": "place", "마": "place", "馆": "place"}
LAST = {"京": "place", "学": "school", "서울": "place", "##요": "place", "馆": "place"}
PIECES = list(dict.fromkeys([*FIRST, *LAST, "他", "在", "大", "。", "그는", ".", "##에", "##대", "图", "😀"]))
REACH = 4
"""A span's last piece is at most so far behind its first."""


def tables() -> dict[str, Any]:
    """Logits `[vocabulary, kinds]`: by how much a piece may begin, or end, an entity of each kind."""
    out = {}
    for side, marks, yes in (("start", FIRST, REACH + 0.5), ("end", LAST, 0.0)):
        table = np.full((len(SPECIALS) + len(PIECES), len(KINDS)), -99.0, np.float32)
        for i, piece in enumerate(PIECES, len(SPECIALS)):
            for kind in marks.get(piece, "").split():
                table[i, KINDS.index(kind)] = yes
        out[side] = table
    return out


def matrix(folder: Path) -> None:
    """`scores[b, e, i, j]` = how well i begins + how well j ends - the way from i to j."""
    vocabulary(folder, PIECES)
    axes = ["batch_size", "sequence_length"]
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.INT64, axes)
        for n in ("input_ids", "attention_mask", "token_type_ids")
    ]
    square = ["batch_size", len(KINDS), "sequence_length", "sequence_length"]
    node = helper.make_node
    nodes = [
        node("Gather", ["start_table", "input_ids"], ["s"], axis=0),
        node("Gather", ["end_table", "input_ids"], ["t"], axis=0),
        node("Transpose", ["s"], ["st"], perm=[0, 2, 1]),
        node("Transpose", ["t"], ["tt"], perm=[0, 2, 1]),
        node("Unsqueeze", ["st", "three"], ["rows"]),
        node("Unsqueeze", ["tt", "two"], ["columns"]),
        node("Cast", ["attention_mask"], ["ones"], to=TensorProto.FLOAT),
        node("CumSum", ["ones", "one"], ["place"]),
        node("Unsqueeze", ["place", "one_three"], ["from"]),
        node("Unsqueeze", ["place", "one_two"], ["to"]),
        node("Sub", ["to", "from"], ["way"]),
        node("Add", ["rows", "columns"], ["both"]),
        node("Sub", ["both", "way"], ["scores"]),
    ]
    made = {f"{side}_table": table for side, table in tables().items()}
    made |= {"one": np.array(1), "two": np.array([2]), "three": np.array([3])}
    made |= {"one_two": np.array([1, 2]), "one_three": np.array([1, 3])}
    constants = [numpy_helper.from_array(value, name) for name, value in made.items()]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, square)]
    write(folder / "model.onnx", nodes, inputs, outputs, constants)
    edit(folder, labels=KINDS, label_names={}, graph={"outputs": {"scores": [2, "sequence_length", "sequence_length"]}})


def ends(folder: Path) -> None:
    vocabulary(folder, PIECES)
    gather(folder / "model.onnx", tables())
    edit(folder, labels=KINDS, label_names={}, decoder={"form": "ends"})
    edit(folder, graph={"outputs": {"start": ["sequence_length", 2], "end": ["sequence_length", 2]}})


@pytest.fixture(scope="module", params=[matrix, ends], ids=["matrix", "ends"])
def ner(
    request: pytest.FixtureRequest, bundle_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Loaded:
    folder = copy(bundle_of("cblue/cmeee-nested"), tmp_path_factory.mktemp("ner") / "bundle")
    request.param(folder)
    return load(folder)


def found(answer: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(e["type"], e["start"], e["end"]) for e in answer["entities"]]


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("他在清北京大学。", [("school", 2, 7), ("place", 3, 5)]),
        ("清北京 大学", [("school", 0, 6), ("place", 1, 3)]),
        ("图馆", [("place", 1, 2)]),
        ("서울대에", [("place", 0, 2)]),
        ("그는 서울.", [("place", 3, 5)]),
        ("\ufeff北京", [("place", 1, 3)]),
        ("北\u200b京 在", [("place", 0, 3)]),
        ("😀👩\u200d👧 北京", [("place", 5, 7)]),
        ("마\u110b\u116d 그는", [("place", 0, 3)]),
        (unicodedata.normalize("NFD", "그는 서울대"), [("place", 6, 11)]),
        ("他在。", []),
    ],
)
def test_entities_may_lie_within_each_other(ner: Loaded, text: str, entities: list[tuple[str, int, int]]) -> None:
    answer = ner.ask(text=text)
    assert found(answer) == entities
    assert all(e["text"] == text[e["start"] : e["end"]] for e in answer["entities"])
    assert all(is_boundary(text, e[side]) for e in answer["entities"] for side in ("start", "end"))


@pytest.mark.parametrize(("unit", "codec", "size"), [("codepoint", "utf-32-le", 4), ("utf16", "utf-16-le", 2),
                                                     ("byte", "utf-8", 1)])  # fmt: skip
def test_offsets_count_what_the_caller_counts(ner: Loaded, unit: str, codec: str, size: int) -> None:
    text = "👩\u200d👧é 清北京学 😀 마요"
    encoded = text.encode(codec)
    answer = ner.ask(text=text, offset_unit=unit)
    assert [e["text"] for e in answer["entities"]] == ["清北京学", "北京", "마요"]
    for e in answer["entities"]:
        assert encoded[e["start"] * size : e["end"] * size].decode(codec) == e["text"]


@pytest.mark.parametrize("form", [matrix, ends], ids=["matrix", "ends"])
@pytest.mark.parametrize("stride", [REACH, 8, 16, 61])
def test_a_long_text_has_each_of_its_entities_once(copy_of: Copy, form: Callable[[Path], None], stride: int) -> None:
    folder = copy_of("cblue/cmeee-nested", decoder={"stride": stride})
    form(folder)
    unit, times = "他在清北京学。", 12 if stride == 61 else 60
    answer = load(folder).ask(text=unit * times + "图馆")
    n = len(unit)
    every = [e for i in range(times) for e in [("school", i * n + 2, i * n + 6), ("place", i * n + 3, i * n + 5)]]
    assert found(answer) == [*every, ("place", times * n + 1, times * n + 2)]
    assert answer["truncated"] is False


def test_a_long_text_may_be_cut_or_refused(ner: Loaded) -> None:
    text = "他在清北京学。" * 30
    cut = ner.ask(text=text, on_overflow="truncate")
    assert (cut["truncated"], cut["tokens"]) == (True, 64)
    assert found(cut) == found(ner.ask(text=text[:62]))
    assert ner.ask(text="。" * 62, on_overflow="error")["tokens"] == 64
    with pytest.raises(InvalidItem, match="the text has 63 tokens, the model reads 62"):
        ner.ask(text="。" * 63, on_overflow="error")


def test_scores_are_probabilities_and_the_threshold_cuts_by_them(ner: Loaded) -> None:
    scores = [e["score"] for e in ner.ask(text="清北京学")["entities"]]
    if ner.task.params.form == "matrix":
        want = [1 / (1 + np.exp(-1.5)), 1 / (1 + np.exp(-3.5))]  # three and one away from their starts
    else:
        want = [(1 / (1 + np.exp(-4.5)) + 0.5) / 2] * 2
    assert scores == pytest.approx(want, abs=1e-6)
    for limit in (0.0, want[0] - 1e-3, want[0] + 1e-3, 1.0):
        kept = ner.ask(text="清北京学", threshold=limit)["entities"]
        assert [e["score"] for e in kept] == [score for score in scores if score >= limit]


def test_an_end_before_its_start_makes_no_entity(ner: Loaded) -> None:
    alone = [("place", 1, 2)] if ner.task.params.form == "ends" else []
    assert found(ner.ask(text="京北")) == alone, "a start without an end stands alone, a span needs both"


def test_entities_in_random_models_do_not_depend_on_company(loaded: Callable[[str], Loaded]) -> None:
    model = loaded("chineseblue/cmedqaner-nested")
    text = "高血压患者头晕"
    alone = model.ask(text=text)
    together = model.ask_all([{"text": "宝宝感冒咳嗽,可以吃阿莫西林吗?" * 15}, {"text": text}, {"text": "吗"}])[1]
    assert found(alone)
    assert found(together) == found(alone)
    assert [e["score"] for e in together["entities"]] == pytest.approx(
        [e["score"] for e in alone["entities"]], abs=1e-5
    )


def test_rows_are_run_a_few_at_a_time_and_their_matrices_are_not_kept(ner: Loaded) -> None:
    sizes: list[int] = []

    def run(rows: Any) -> Any:
        sizes.append(len(rows))
        return ner.session.run(rows)

    item = ner.item(text="他在清北京学。" * 1000)
    (answer,) = ner.task.predict([item], run, [Timing()])
    assert len(answer["entities"]) == 2000
    assert max(sizes) <= ROWS < sum(sizes)
    kept = ner.task.sparse(ner.session.run(ner.task.encode(ner.item(text="他在清北京学。")).rows)[0])
    assert sum(array.size for array in kept.values()) < 9 * 9


def test_lone_word_marks_and_special_tokens_begin_and_end_nothing(bundle_of: Callable[..., Path]) -> None:
    model = load(bundle_of("cblue/cmeee-nested", "xlm-roberta"))
    item = model.item(text="。 患儿")
    encoded = model.task.encode(item)
    tokens = encoded.context.tokens
    marks = [i for i, token in enumerate(tokens.ids) if token == model.task.encoder.word_mark_id]
    assert marks, "the text was to have a lone word mark"
    places = range(len(tokens) + 2)  # special tokens, too, and backwards
    spans = [(kind, i, j) for kind in (0, 1) for i in places for j in places]
    out = {"spans": np.array(spans), "logits": np.ones(len(spans))}
    answer = model.task.decode(item, encoded, [out])
    real = [tokens.spans[i] for i in range(len(tokens)) if i not in marks]
    want = {(a, b) for n, (a, _) in enumerate(real) for _, b in real[n:]}
    assert {(e["start"], e["end"]) for e in answer["entities"]} == want
    assert len(answer["entities"]) == 2 * len(want), "each once, however many tokens it had"
    assert [(e["start"], -e["end"]) for e in answer["entities"]] == sorted((a, -b) for a, b in want for _ in (0, 1))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
def test_a_start_goes_with_the_nearest_end_before_the_next_start(marks: list[tuple[bool, bool]]) -> None:
    want = []
    for i, (starts, _) in enumerate(marks):
        if starts:
            until = next((j for j in range(i + 1, len(marks)) if marks[j][0]), len(marks))
            want.append((i, next((j for j in range(i, until) if marks[j][1]), i)))
    starts, ends = (np.array([m[side] for m in marks], bool) for side in (0, 1))
    assert pair(starts, ends) == want


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"decoder": {"form": "ends"}}, "form ends reads a graph output 'start'"),
        ({"decoder": {"form": "circles"}}, "decoder.form"),
        ({"decoder": {"stride": 62}}, "stride 62 leaves no way forward in windows of 62"),
        ({"labels": ["bod"]}, "the graph has 9 types, the bundle names 1"),
    ],
)
def test_a_bundle_that_does_not_fit_is_refused(copy_of: Copy, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(BundleError, match=problem):
        load(copy_of("cblue/cmeee-nested", **changes))
