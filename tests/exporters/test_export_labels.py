"""Labels: the checkpoint's own names in its own order, or declared by a person, never assumed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import edit_json, model_for, tiny_suite, tokenizer_for

from exporters.errors import ExportError
from service.bundle import Bundle, Manifest
from suites import Suite

YNAT, NLI, STS, NER = (tiny_suite(name) for name in ("klue/ynat", "klue/nli", "klue/sts", "klue/ner"))


def manifest(place: str) -> Manifest:
    return Bundle(Path(place)).manifest


def unnamed(source: Path, suite: Suite) -> Path:
    """The checkpoint as the libraries save it when nobody names the classes."""
    names = {i: f"LABEL_{i}" for i in range(len(suite.labels))}
    edit_json(source / "config.json", id2label=names, label2id={name: i for i, name in names.items()})
    return source


@pytest.mark.parametrize("suite", [YNAT, NLI, NER], ids=lambda suite: suite.name)
def test_classes_without_names_are_refused_with_the_way_out(save, export_to, suite: Suite) -> None:
    with pytest.raises(ExportError, match=rf"LABEL_0 .*--labels a,b,c or, .* official order of {suite.name}"):
        export_to(unnamed(save(suite), suite), suite)


def test_a_configuration_that_only_counts_its_classes_is_refused(save, export_to) -> None:
    source = unnamed(save(NLI), NLI)
    edit_json(source / "config.json", id2label=None, label2id=None, num_labels=3)
    with pytest.raises(ExportError, match="LABEL_0"):
        export_to(source, NLI)


def test_a_declared_order_names_the_classes(save, export_to) -> None:
    declared = [NLI.labels[i] for i in (2, 0, 1)]
    done = export_to(unnamed(save(NLI), NLI), NLI, declared_labels=declared)
    assert manifest(done.place).labels == declared


def test_the_suites_order_can_be_declared_by_one_word(save, export_to) -> None:
    done = export_to(unnamed(save(NLI), NLI), NLI, declared_labels=["suite"])
    assert manifest(done.place).labels == NLI.labels


def test_a_declared_order_stands_above_the_checkpoints_names(save, export_to) -> None:
    declared = NLI.labels[::-1]
    assert manifest(export_to(save(NLI), NLI, declared_labels=declared).place).labels == declared


@pytest.mark.parametrize("suite", [YNAT, NLI], ids=lambda suite: suite.name)
def test_the_checkpoints_own_order_is_kept_where_it_is_not_the_suites(save, export_to, suite: Suite) -> None:
    own = suite.labels[::-1]
    permuted = suite.model_copy(update={"labels": own})
    done = manifest(export_to(save(permuted), suite).place)
    assert done.labels == own != suite.labels

    tokenizer = tokenizer_for("bert", suite)
    model = model_for("bert", permuted, len(tokenizer))
    for golden in done.golden:
        texts = [golden.item[field] for field in ("text", "text_pair") if field in golden.item]
        with torch.no_grad():
            best = int(model(**tokenizer(*texts, return_tensors="pt")).logits.argmax())
        assert golden.answer["label"] == model.config.id2label[best] == own[best]


def test_labels_that_are_not_the_suites_are_refused_and_named(save, export_to) -> None:
    foreign = NLI.model_copy(update={"labels": [NLI.labels[0], "yes", "no"]})
    with pytest.raises(ExportError) as caught:
        export_to(save(foreign), NLI)
    assert "not those of klue/nli" in str(caught.value)
    assert f"unknown ['no', 'yes'], absent {sorted(NLI.labels[1:])}" in str(caught.value)


def test_declared_labels_that_are_not_the_suites_are_refused_too(save, export_to) -> None:
    with pytest.raises(ExportError, match=r"unknown \['yes'\]"):
        export_to(save(NLI), NLI, declared_labels=["yes", *NLI.labels[1:]])


def test_a_label_declared_twice_is_refused(save, export_to) -> None:
    with pytest.raises(ExportError, match=rf"absent \['{NLI.labels[2]}'\]"):
        export_to(save(NLI), NLI, declared_labels=[NLI.labels[0], *NLI.labels[:2]])


@pytest.mark.parametrize("count", [2, 4])
def test_another_number_of_labels_than_outputs_is_refused(save, export_to, count: int) -> None:
    with pytest.raises(ExportError, match=f"{count} labels were declared, the checkpoint has 3 outputs"):
        export_to(save(NLI), NLI, declared_labels=(NLI.labels * 2)[:count])


def test_a_regression_has_one_output_and_no_labels(save, export_to) -> None:
    assert manifest(export_to(save(STS), STS).place).labels == []
    with pytest.raises(ExportError, match="klue/sts is a regression, the checkpoint has 3 outputs"):
        export_to(save(NLI), STS)
