"""What a bundle states: its files, its limits, its template, its golden records and where it comes from."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from tiny import ARCHITECTURES, SUITE_OF, model_for, tiny_suite, tokenizer_for

from service.bundle import Bundle, Manifest, sha256
from service.loading import open_bundle
from suites import Suite

YNAT, NLI, STS, C3 = (tiny_suite(name) for name in ("klue/ynat", "klue/nli", "klue/sts", "clue/c3"))

BundleOf = Callable[..., Path]


def manifest(folder: Path) -> Manifest:
    return Bundle(folder).manifest


def shape(bundle: Manifest, tokenizer: Any) -> list[str]:
    """The template as text: tokens by name, fields in braces."""
    return [f"{{{p.field}}}" if p.id is None else tokenizer.convert_ids_to_tokens(p.id) for p in bundle.template]


@pytest.mark.parametrize("family", SUITE_OF)
def test_every_other_file_is_listed_with_its_hash(bundle_of: BundleOf, family: str) -> None:
    folder = bundle_of(family)
    files = {path.name: sha256(path) for path in folder.iterdir() if path.name != "bundle.json"}
    assert manifest(folder).files == files
    small = {"model.onnx.data"} - set(files)  # a head of a few numbers keeps them in its graph
    graphs = {f"{name}{suffix}" for name in ("model.onnx", "encoder.onnx") for suffix in ("", ".data")}
    assert set(files) == {*graphs - small, "tokenizer.json"}


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_weights_lie_in_the_external_file(bundle_of: BundleOf, precision: str) -> None:
    folder = bundle_of("klue/ynat", precision=precision)
    for name in ("encoder.onnx", "model.onnx"):
        weights = onnx.load(folder / name, load_external_data=False).graph.initializer
        assert [w for w in weights if w.data_location != onnx.TensorProto.EXTERNAL and len(w.raw_data) >= 1024] == []
        assert {e.value for w in weights for e in w.external_data if e.key == "location"} == {f"{name}.data"}


def test_the_graph_is_described_as_it_is(bundle_of: BundleOf) -> None:
    folder = bundle_of("klue/ynat")
    stated = manifest(folder).graph
    encoder, head = (onnx.load(folder / f, load_external_data=False) for f in (stated.encoder, stated.file))
    for graph in (encoder, head):
        assert stated.opset == next(o.version for o in graph.opset_import if o.domain == "") == 18
    assert set(stated.inputs) == {i.name for i in encoder.graph.input}
    assert [i.name for i in head.graph.input] == [o.name for o in encoder.graph.output]
    assert stated.outputs == {"logits": [len(YNAT.labels)]}
    assert (stated.precision, stated.pads) == ("fp32", {"input_ids": 0})


@pytest.mark.parametrize(
    ("architecture", "tokens", "pad"),
    [("bert", 64, 0), ("roberta", 64, 1), ("klue-roberta", 62, 1), ("xlm-roberta", 64, 1), ("modernbert", 64, 3)],
)
def test_max_length_and_padding_are_those_of_the_positions(
    bundle_of: BundleOf, architecture: str, tokens: int, pad: int
) -> None:
    bundle = manifest(bundle_of("klue/ynat", architecture))
    assert bundle.max_length == tokens < YNAT.max_length
    assert bundle.graph.pads == {"input_ids": pad}


def test_a_suite_that_reads_less_than_the_model_could_is_obeyed(save, export_to) -> None:
    suite = YNAT.model_copy(update={"max_length": 20})
    assert manifest(Path(export_to(save(suite), suite).place)).max_length == 20


@pytest.mark.parametrize(
    ("architecture", "one", "two"),
    [
        ("bert", "[CLS] {text} [SEP]", "[CLS] {text} [SEP] {text_pair} [SEP]"),
        ("klue-roberta", "[CLS] {text} [SEP]", "[CLS] {text} [SEP] {text_pair} [SEP]"),
        ("roberta", "<s> {text} </s>", "<s> {text} </s> </s> {text_pair} </s>"),
        ("xlm-roberta", "<s> {text} </s>", "<s> {text} </s> </s> {text_pair} </s>"),
        ("modernbert", "[CLS] {text} [SEP]", "[CLS] {text} [SEP] {text_pair} [SEP]"),
    ],
)
def test_the_template_is_what_the_tokenizer_does(bundle_of: BundleOf, architecture: str, one: str, two: str) -> None:
    for suite, expected in ((YNAT, one), (NLI, two)):
        bundle = manifest(bundle_of(suite.name, architecture))
        assert shape(bundle, tokenizer_for(architecture, suite)) == expected.split()


def test_sep_in_a_suites_template_is_the_tokenizers_own(bundle_of: BundleOf) -> None:
    for architecture, expected in (
        ("bert", "[CLS] {context} [SEP] {question} [SEP] {choice} [SEP]"),
        ("roberta", "<s> {context} </s> </s> {question} </s> {choice} </s>"),
    ):
        bundle = manifest(bundle_of("clue/c3", architecture))
        assert shape(bundle, tokenizer_for(architecture, C3)) == expected.split()
    assert [part.type for part in manifest(bundle_of("clue/c3")).template] == [0, 0, 0, 1, 1, 1, 1]


def test_segments_are_told_apart_only_if_the_model_does(bundle_of: BundleOf) -> None:
    tokenizer = tokenizer_for("klue-roberta", NLI)
    assert set(tokenizer("a", "b")["token_type_ids"]) == {0, 1}  # it would tell, its model has one type
    assert {part.type for part in manifest(bundle_of("klue/nli", "klue-roberta")).template} == {0}
    assert [part.type for part in manifest(bundle_of("klue/nli", "bert")).template] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("name", [*SUITE_OF.values(), "clue/cmrc2018", "klue/sts"])
def test_everything_else_is_the_suites(bundle_of: BundleOf, name: str) -> None:
    bundle, suite = manifest(bundle_of(name)), tiny_suite(name)
    for field in ("family", "language", "labels", "label_names", "truncation", "decoder"):
        assert getattr(bundle, field) == getattr(suite, field)
    assert bundle.suite == suite.name
    assert bundle.normalization.model_dump() == suite.normalization.model_dump(exclude={"simplify"})
    plain = [{k: v for k, v in golden.item.items() if k != "top_k"} for golden in bundle.golden]
    assert plain == suite.examples


def test_scores_of_the_checkpoint_travel_with_it(save, export_to) -> None:
    own = {"metric": YNAT.metrics[0], "value": 12.5, "n": 300, "data": "held out"}
    suite = Suite.model_validate(YNAT.model_dump() | {"scores": [own]})
    assert [s.model_dump() for s in manifest(Path(export_to(save(suite), suite).place)).scores] == [own]


def test_provenance_names_checkpoint_architecture_and_versions(save, export_to) -> None:
    source = save(YNAT, "electra")
    found = manifest(Path(export_to(source, YNAT).place)).provenance
    assert (found["checkpoint"], found["architecture"]) == (source.name, "ElectraForSequenceClassification")
    tools = ("torch", "transformers", "optimum", "optimum-onnx", "onnx", "onnxruntime", "tokenizers")
    assert found["tools"] == {tool: importlib.metadata.version(tool) for tool in tools}
    assert str(source.parent) not in json.dumps(found)  # nobody else's paths in a published file


@pytest.mark.parametrize("suite", [YNAT, NLI, STS], ids=lambda suite: suite.name)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_golden_answers_are_the_torch_models(bundle_of: BundleOf, architecture: str, suite: Suite) -> None:
    tokenizer = tokenizer_for(architecture, suite)
    model = model_for(architecture, suite, len(tokenizer))
    for golden in manifest(bundle_of(suite.name, architecture)).golden:
        texts = [golden.item[field] for field in ("text", "text_pair") if field in golden.item]
        fed = tokenizer(*texts, return_tensors="pt")
        if getattr(model.config, "type_vocab_size", 0) < 2:
            fed.pop("token_type_ids", None)
        with torch.no_grad():
            logits = model(**fed).logits[0].double()
        assert golden.answer["tokens"] == fed["input_ids"].numel()
        if suite is STS:
            assert golden.answer["value"] == pytest.approx(float(logits[0]), abs=1e-4)
        else:
            assert golden.answer["label"] == suite.labels[int(logits.argmax())]
            assert golden.answer["score"] == pytest.approx(float(logits.softmax(-1).max()), abs=1e-4)


def test_an_int8_bundle_is_smaller_and_tolerates_more(bundle_of: BundleOf) -> None:
    whole, small = bundle_of("klue/ynat"), bundle_of("klue/ynat", precision="int8")
    assert (small / "encoder.onnx.data").stat().st_size < 0.6 * (whole / "encoder.onnx.data").stat().st_size
    bundle = manifest(small)
    assert bundle.graph.precision == "int8"
    assert bundle.tolerance > manifest(whole).tolerance


def test_int8_answers_do_not_depend_on_their_company(bundle_of: BundleOf) -> None:
    task, session = open_bundle(Bundle(bundle_of("klue/ynat", precision="int8")), "cpu")
    texts = [e[field] for suite in (YNAT, NLI) for e in suite.examples for field in ("text", "text_pair") if field in e]
    rows = [task.encode(task.Input.model_validate({"text": text})).rows[0] for text in texts]
    alone = [session.run([row])[0]["logits"] for row in rows]
    for got, expected in zip(session.run_together(rows), alone, strict=True):
        assert got["logits"] == pytest.approx(expected, abs=1e-5)
