"""Every packaged suite: it loads, its labels are those of the benchmark, its examples are real requests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import suites

EXPECTED: dict[str, list[Any]] = yaml.safe_load(
    (Path(__file__).parent / "expected_labels.yaml").read_text(encoding="utf-8")
)
FIELDS = {
    "text-classification": {"text"},
    "pair-classification": {"text", "text_pair"},
    "span-pair-classification": {"text", "subject", "object"},
    "token-classification": {"text"},
    "span-classification": {"text"},
    "question-answering": {"question", "context"},
    "dialogue-state": {"turns"},
    "triple-extraction": {"text"},
    "term-normalization": {"text"},
}
DECODER_KEYS = {
    "text-classification": {"output", "alignment"},
    "pair-classification": {"output", "alignment", "score_range", "binary_threshold", "binary_labels"}
    | {"entailment", "contradiction", "positive"},
    "span-pair-classification": {"output", "markers", "marker_tokens", "attach_particle"},
    "token-classification": {
        "scheme",
        "orphan_inside",
        "lone_begin",
        "piece_begin",
        "alignment",
        "stride",
        "ignore_labels",
    },
    "question-answering": {
        "max_question_tokens",
        "max_answer_tokens",
        "n_best",
        "null_threshold",
        "doc_stride",
        "stride",
        "max_context",
    },
    "multiple-choice": {"max_choices"},
    "dependency-parsing": {"tree"},
    "dialogue-state": {"empty", "generated", "replace"},
    "cloze": {
        "blank_pattern",
        "blank_token",
        "other_blank_tokens",
        "choice_tokens",
        "max_choices",
        "max_blanks",
        "replace",
        "assignment",
    },
    "span-classification": {"form", "threshold", "alignment", "stride"},
    "triple-extraction": {"relations", "roles", "max_pairs", "max_spans", "stride"},
    "term-normalization": {"candidates", "match", "threshold", "joints", "strip"},
    "document-classification": {
        "output",
        "aggregation",
        "c",
        "threshold",
        "class_values",
        "estimate",
        "stride",
    },
}


@pytest.fixture(params=suites.names())
def suite(request: pytest.FixtureRequest) -> suites.Suite:
    return suites.load(request.param)


def test_all_suites_are_expected() -> None:
    assert suites.names() == sorted(EXPECTED)


def test_labels_are_those_of_the_benchmark(suite: suites.Suite) -> None:
    count, *ends = EXPECTED[suite.name]
    assert len(suite.labels) == count
    assert [suite.labels[0], suite.labels[-1]] == ends if count else not ends


@pytest.mark.parametrize(
    "name", [name for name in suites.names() if suites.load(name).family == "token-classification"]
)
def test_tags_fit_their_scheme(name: str) -> None:
    suite = suites.load(name)
    ignored = set(suite.decoder.get("ignore_labels", []))
    assert ignored < set(suite.labels)
    prefixes = {"IOB2": {"B", "I"}, "BIOS": {"B", "I", "S"}}[suite.decoder["scheme"]]
    tags = [label for label in suite.labels if label not in ignored and "-" in label]
    assert len(set(suite.labels) - ignored - set(tags)) == 1, "exactly one tag is outside"
    kinds = {tag.split("-", 1)[1] for tag in tags}
    assert set(tags) == {f"{prefix}-{kind}" for prefix in prefixes for kind in kinds}


def test_label_names_name_labels_or_entity_types(suite: suites.Suite) -> None:
    known = set(suite.labels) | {label.split("-", 1)[-1] for label in suite.labels}
    assert set(suite.label_names) <= known


def test_template_truncation_and_windows_fit_the_family(suite: suites.Suite) -> None:
    if suite.family == "pair-classification":
        assert (suite.template, suite.truncation) == ("{text} | {text_pair}", "longest_first")
    if suite.family == "question-answering":
        assert suite.template == "{question} | {context}"
        assert ("doc_stride" in suite.decoder) != ("stride" in suite.decoder)
    if suite.family == "token-classification":
        assert 0 < suite.decoder["stride"] < suite.max_length / 2


def test_decoder_has_only_keys_of_the_family(suite: suites.Suite) -> None:
    assert set(suite.decoder) <= DECODER_KEYS[suite.family]


def test_published_scores_use_the_metrics_of_the_suite(suite: suites.Suite) -> None:
    for row in suite.published:
        assert set(row.scores) <= set(suite.metrics)
        assert all(0 < value <= 100 for value in row.scores.values())


def test_three_examples_in_the_fields_of_the_family(suite: suites.Suite) -> None:
    assert len(suite.examples) == 3
    for example in suite.examples:
        if suite.family == "cloze":
            assert set(example) == {"passages", "candidates"}
            assert len(example["candidates"]) == suite.decoder["max_choices"]
            assert all(re.search(suite.decoder["blank_pattern"], passage) for passage in example["passages"])
        elif suite.family == "multiple-choice":
            assert set(example) == {"context", "question", "choices"}
            assert 2 <= len(example["choices"]) <= suite.decoder["max_choices"]
        elif suite.family == "dependency-parsing":
            assert suite.head is not None
            assert set(example) in (({"words", "pos"},) if "pos_tags" in suite.head else ({"words"}, {"text"}))
        elif suite.family == "document-classification":
            assert set(example) in ({"text"}, {"notes"})
        else:
            assert set(example) == FIELDS[suite.family]


@pytest.mark.parametrize("name", ["klue/re", "clue/wsc2020", "cblue/cmeie-relations"])
def test_example_spans_lie_in_the_text_and_apart(name: str) -> None:
    for example in suites.load(name).examples:
        first, second = sorted((example["subject"], example["object"]), key=lambda span: int(span["start"]))
        assert 0 <= first["start"] < first["end"] <= second["start"] < second["end"] <= len(example["text"])
