"""KLUE's metrics by values worked out by hand, oddities of the official scripts included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import suites
from benchmarks.metrics import METRICS
from benchmarks.metrics.reading import normalized, overlap
from benchmarks.metrics.tagging import spans
from benchmarks.records import Record

NER, RE, STS, NLI = (suites.load(f"klue/{name}") for name in ("ner", "re", "sts", "nli"))
DP = suites.load("klue/dp")
A, B = "org:founded", "per:spouse"


def score(metric: str, suite: suites.Suite, golds: Sequence[Any], answers: Sequence[Any], items: Any = None) -> float:
    items = items or [{}] * len(golds)
    records = [Record(str(i), item, gold) for i, (item, gold) in enumerate(zip(items, golds, strict=True))]
    return METRICS[metric](records, answers, suite)


def tagged(metric: str, *triples: tuple[str, str, str | None]) -> float:
    """Score of `(text, gold tags, predicted tags)`, tags as words; None is a record that was refused."""
    golds = [{"tags": gold.split()} for _, gold, _ in triples]
    answers = [{} if tags is None else {"tags": tags.split()} for *_, tags in triples]
    return score(metric, NER, golds, answers, [{"text": text} for text, *_ in triples])


def labels(*found: str | None) -> list[dict[str, str]]:
    return [{"label": label} if label else {} for label in found]


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("B-PS I-PS O", [(0, 2, "PS")]),
        ("B-PS B-PS", [(0, 1, "PS"), (1, 2, "PS")]),
        ("I-PS I-PS", []),
        ("B-PS I-LC I-LC", [(0, 1, "PS")]),
        ("O B-PS I-PS", [(1, 3, "PS")]),
        ("", []),
    ],
)
def test_entities_of_tags_are_strict(tags: str, entities: list[Any]) -> None:
    assert spans(tags.split()) == entities


def test_entity_f1_is_the_mean_over_the_types_that_occur() -> None:
    right = ("3일", "B-DT I-DT", "B-DT I-DT")
    half = ("김철수 서울", "B-PS I-PS I-PS O B-LC I-LC", "B-PS I-PS I-PS O B-LC O")
    assert tagged("entity_macro_f1", right, half) == pytest.approx(100 * 2 / 3)  # DT 1, PS 1, LC 0
    assert tagged("entity_macro_f1", right, ("회의", "O O", "B-OG I-OG")) == 50  # OG was only predicted
    assert tagged("entity_micro_f1", right, half) == pytest.approx(100 * 2 / 3)


def test_spaces_do_not_count_so_that_an_entity_may_hold_one() -> None:
    assert tagged("entity_macro_f1", ("네 번", "B-QT I-QT I-QT", "B-QT O I-QT")) == 100
    assert tagged("char_macro_f1", ("네 번", "B-QT I-QT I-QT", "B-QT O I-QT")) == 100


def test_an_entity_does_not_reach_into_the_next_sentence() -> None:
    assert tagged("entity_macro_f1", ("김", "B-PS", "B-PS"), ("철", "O", "I-PS")) == 100


def test_character_f1_is_over_all_tags_with_the_outside_and_the_special_tokens() -> None:
    # B-PS 2/3; O 4/5 with the two special tokens; eleven tags that never occur count 1.
    assert tagged("char_macro_f1", ("김씨", "B-PS O", "B-PS B-PS")) == pytest.approx(100 * (2 / 3 + 4 / 5 + 11) / 13)


def test_a_refused_sentence_has_no_entities() -> None:
    triples = ("3일", "B-DT I-DT", "B-DT I-DT"), ("어제", "B-DT I-DT", None)
    assert tagged("entity_macro_f1", *triples) == pytest.approx(100 * 2 / 3)
    assert tagged("char_macro_f1", ("어제", "B-DT I-DT", None)) == pytest.approx(100 * (2 / 3 + 10) / 13)


def test_relations_do_not_count_the_first_label() -> None:
    none = RE.labels[0]
    golds, found = [A, none, B, A, none], labels(A, A, none, B, none)
    assert score("relation_micro_f1", RE, golds, found) == pytest.approx(100 / 3)
    assert score("relation_micro_f1", RE, [A, A], labels(A, None)) == pytest.approx(100 * 2 / 3)
    assert score("relation_micro_f1", RE, [none], labels(none)) == 0


def probabilities(*rows: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {"scores": [{"label": label, "score": p} for label, p in zip(RE.labels[:3], row, strict=True)]} for row in rows
    ]


def test_area_under_precision_and_recall_is_the_mean_of_the_labels_that_occur() -> None:
    first, second, _ = RE.labels[:3]
    # Either label's ranking is right, wrong, right, wrong: (1 + 1) / 2 * 1/2 + (1/2 + 2/3) / 2 * 1/2. The third is not
    # in the gold.
    answers = probabilities([0.1, 0.9, 0], [0.2, 0.8, 0], [0.3, 0.7, 0], [0.9, 0.1, 0])
    golds = [second, first, second, first]
    assert score("relation_auprc", RE, golds, answers) == pytest.approx(100 * (0.5 + 7 / 24))


def test_equal_probabilities_are_one_point_of_the_curve() -> None:
    first, second, _ = RE.labels[:3]
    answers = probabilities(*[[0.5, 0.5, 0]] * 4)
    # Precision 3/4 and 1/4 at recall 1, joined to precision 1 at recall 0.
    golds = [first, first, second, first]
    assert score("relation_auprc", RE, golds, answers) == pytest.approx(100 * (7 / 8 + 5 / 8) / 2)
    assert score("relation_auprc", RE, [first, second], [{}, {}]) == pytest.approx(75)


HEADS = [[4, "NP_SBJ"], [4, "NP_AJT"], [4, "NP_OBJ"], [0, "VP"]]


def words(*pairs: tuple[int, str]) -> dict[str, Any]:
    return {"words": [{"head": head, "relation": relation} for head, relation in pairs]}


def test_heads_and_relations_of_words() -> None:
    found = [words((4, "NP_SBJ"), (3, "NP_AJT"), (4, "VP"), (0, "VP"))]
    assert score("uas", DP, [HEADS], found) == 75
    assert score("las", DP, [HEADS], found) == 50
    # Heads 0: 1, 3: 0, 4: 4/5.
    assert score("uas_macro_f1", DP, [HEADS], found) == pytest.approx(60)
    # NP_SBJ 1, NP_AJT 0, NP_OBJ 0, VP 2/3, and a class of wrong heads 0.
    assert score("las_macro_f1", DP, [HEADS], found) == pytest.approx(100 / 3)


def test_rare_relations_are_one_class_of_the_macro_score() -> None:
    rare, other = DP.labels[15], DP.labels[37]
    gold, found = [[2, rare], [0, "VP"]], words((2, other), (0, "VP"))
    assert score("las_macro_f1", DP, [gold], [found]) == 100
    assert score("las", DP, [gold], [found]) == 50
    common = DP.labels[14]
    assert score("las_macro_f1", DP, [[[2, common], [0, "VP"]]], [found]) == pytest.approx(100 / 3)


def test_every_word_of_a_refused_sentence_is_wrong() -> None:
    right = words(*((head, relation) for head, relation in HEADS))
    assert score("uas", DP, [HEADS, HEADS], [right, {}]) == 50
    assert score("las", DP, [HEADS, HEADS], [right, {}]) == 50
    assert score("uas_macro_f1", DP, [HEADS, HEADS], [right, {}]) == pytest.approx(100 * 2 / 3)
    assert score("las_macro_f1", DP, [HEADS, HEADS], [right, {}]) == pytest.approx(100 * (4 * 2 / 3) / 5)


@pytest.mark.parametrize(
    ("predicted", "gold", "f1"),
    [
        ("한 달가량", "한 달", 0.75),
        ("한 달", "한 달가량", 0.75),
        ("서울", "서울", 1),
        ("서울", "부산", 0),
        ("", "", 1),
        ("", "가", 0),
    ],
)
def test_overlap_is_of_the_longest_contiguous_run(predicted: str, gold: str, f1: float) -> None:
    assert overlap(predicted, gold) == f1


def test_overlap_ignores_frequent_characters_of_long_golds_as_difflib_does() -> None:
    assert overlap("가나", "나가" * 99) == 0.02
    assert overlap("가나", "나가" * 100) == 0


def test_answers_are_compared_without_case_and_ascii_punctuation() -> None:
    assert normalized(" (KLUE)  Dev-Set! ") == "klue devset"
    assert normalized("《토지》 ‘1부’") == "《토지》 ‘1부’"  # the pattern that should drop them never matches


def test_reading_takes_the_best_gold_and_no_answer_where_there_is_none() -> None:
    golds = [["한 달가량", "한 달"], [], ["부산"], [], []]
    texts = ["한 달", None, None, "서울", "!"]
    answers = [{"answer": None if text is None else {"text": text}} for text in texts]
    assert score("klue_em", NLI, golds, answers) == 60  # "!" has nothing left that could be wrong
    assert score("klue_rouge_w", NLI, [["한 달"]], [{"answer": {"text": "한 달가량"}}]) == 75
    assert score("klue_em", NLI, [[]], [{}]) == 0  # refusing a question is not answering that there is none
    assert score("klue_rouge_w", NLI, [[]], [{}]) == 0


def test_a_state_is_right_as_a_whole_and_its_slots_by_turn() -> None:
    golds: list[dict[str, str]] = [{"식당-종류": "일식당", "식당-지역": "서울 중앙"}, {}, {}, {"택시-종류": "dontcare"}]
    found = [{"식당-종류": "일식당", "식당-이름": "일식당"}, {}, {"숙소-지역": "서울"}, {"택시-종류": "dontcare"}]
    answers = [{"state": state} for state in found]
    assert score("joint_goal_accuracy", NLI, golds, answers) == 50
    # 1/2, 1, 0, 1; over all slots at once it would be 4/7.
    assert score("slot_f1", NLI, golds, answers) == pytest.approx(62.5)
    assert score("joint_goal_accuracy", NLI, [{}], [{}]) == score("slot_f1", NLI, [{}], [{}]) == 0


def values(*found: float | None) -> list[dict[str, float]]:
    return [{} if value is None else {"value": value} for value in found]


def test_correlation_of_values() -> None:
    assert score("pearson", STS, [1, 2, 4], values(1, 2, 3)) == pytest.approx(98.198, abs=1e-3)
    assert score("pearson", STS, [1, 2, 4], values(-1, -2, -4)) == pytest.approx(-100)
    assert score("pearson", STS, [1, 2, 4], values(7, 7, 7)) == 0
    # A refused pair has the end of the scale that is farther away: 0 for 4, 5 for 1.
    assert score("pearson", STS, [4, 1, 2], values(None, None, 2)) == score("pearson", STS, [4, 1, 2], values(0, 5, 2))


def test_values_from_the_threshold_on_are_positive() -> None:
    assert score("binary_f1", STS, [3.0, 2.9, 5.0], values(2.99, 3.0, 4.0)) == 50
    assert score("binary_f1", STS, [3.0, 1.0], values(None, None)) == 0


def test_classes() -> None:
    assert score("accuracy", NLI, ["neutral", "entailment"], labels("neutral", "contradiction")) == 50
    assert score("accuracy", NLI, ["neutral", "entailment"], labels("neutral", None)) == 50
    golds = ["neutral", "neutral", "entailment"]
    # neutral 2/3, entailment 1, and a class that was only predicted 0.
    assert score("macro_f1", NLI, golds, labels("neutral", "contradiction", "entailment")) == pytest.approx(500 / 9)
    assert score("macro_f1", NLI, golds, labels("neutral", None, "entailment")) == pytest.approx(250 / 3)


def test_of_two_labels_the_second_is_positive() -> None:
    suite = suites.load("chineseblue/cmedqq")
    assert score("binary_f1", suite, ["1", "1", "0", "0"], labels("1", "0", "1", "0")) == 50
    assert score("binary_f1", suite, ["1", "0"], labels(None, None)) == 0


def test_entities_of_spans_and_of_words() -> None:
    suite = suites.load("biomed/ncbi-disease")
    found = [{"entities": [{"start": 0, "end": 2, "type": "a"}, {"start": 3, "end": 5, "type": "a"}]}, {}]
    assert score("entity_micro_f1", suite, [[[0, 2, "a"], [3, 5, "b"]], [[0, 1, "a"]]], found) == pytest.approx(40)
    # A word has the tag of its first character: "lung cancer" is found whole, the tail of "(NSD" is not.
    text, gold = "lung cancer (NSD", {"tags": ["B-Disease", "I-Disease", "O", "B-Disease"], "starts": [0, 5, 12, 13]}
    tags = ["B-Disease", *["I-Disease"] * 3, "O", *["I-Disease"] * 6, "O", "O", "O", "B-Disease", "I-Disease"]
    assert score("entity_micro_f1", suite, [gold], [{"tags": tags}], [{"text": text}]) == pytest.approx(100 * 2 / 3)
