"""What does not become a bundle, and why. See test_export_labels.py for labels."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import edit_json, headless, tiny_suite

from exporters.errors import ExportError
from exporters.export import Precision, export
from service.errors import BundleError, ConfigError

OFFICIAL = Path(__file__).parents[1] / "official"
YNAT, NER, RE, STS, MRC, C3 = (
    tiny_suite(name) for name in ("klue/ynat", "klue/ner", "klue/re", "klue/sts", "klue/mrc", "clue/c3")
)


def test_a_checkpoint_without_a_head_is_refused_and_names_what_it_lacks(export_to, tmp_path: Path) -> None:
    bare = headless("bert", YNAT, tmp_path / "bare")
    with pytest.raises(ExportError, match=r"not fine-tuned for text-classification: it lacks classifier\.bias"):
        export_to(bare, YNAT)


def test_a_checkpoint_with_the_head_of_another_family_is_refused(save, export_to) -> None:
    with pytest.raises(ExportError, match="not fine-tuned for text-classification"):
        export_to(save(NER), YNAT)


@pytest.mark.parametrize(
    ("trained", "exported"),
    [(STS, C3), (YNAT.model_copy(update={"labels": NER.labels}), NER)],
    ids=["regression as multiple choice", "classes of a text as tags of tokens"],
)
def test_a_head_of_another_family_is_refused_even_if_its_weights_fit(save, export_to, trained, exported) -> None:
    with pytest.raises(ExportError, match="not fine-tuned"):
        export_to(save(trained), exported)


def test_a_head_of_another_size_than_the_configuration_says_is_refused(save, export_to) -> None:
    source = save(YNAT)
    names = dict(enumerate(RE.labels))
    edit_json(source / "config.json", id2label=names, label2id={label: i for i, label in names.items()})
    with pytest.raises(ExportError, match="classifier"):
        export_to(source, RE.model_copy(update={"family": YNAT.family, "decoder": YNAT.decoder}))


def test_a_slow_tokenizer_is_refused(save, export_to) -> None:
    source = save(YNAT)
    (source / "tokenizer.json").unlink()
    edit_json(
        source / "tokenizer_config.json",
        tokenizer_class="BertJapaneseTokenizer",
        word_tokenizer_type="basic",
        subword_tokenizer_type="wordpiece",
    )
    with pytest.raises(ExportError, match="no fast tokenizer, hence no character offsets"):
        export_to(source, YNAT)


def test_a_tokenizer_with_more_tokens_than_embeddings_is_refused(save, export_to) -> None:
    with pytest.raises(ExportError, match=r"the tokenizer has \d+ tokens, the model 300 embeddings"):
        export_to(save(YNAT, vocab_size=300), YNAT)


def test_a_checkpoint_may_have_more_embeddings_than_tokens(save, export_to) -> None:
    assert export_to(save(YNAT, vocab_size=1000), YNAT).parity.logit_delta < 1e-4


def test_markers_that_the_tokenizer_lacks_are_refused_and_named(save, export_to) -> None:
    source = save(RE.model_copy(update={"decoder": RE.decoder | {"marker_tokens": False}}))
    with pytest.raises(BundleError, match=r"markers \['<subj>', '</subj>', '<obj>', '</obj>'\] are not in the tok"):
        export_to(source, RE)


@pytest.mark.parametrize("precision", ["fp16", "fp16-packed"])
def test_a_graph_for_cuda_is_refused_on_a_cpu_before_anything_is_read(precision: Precision) -> None:
    with pytest.raises(ExportError, match=f"{precision} graphs .* add --device cuda"):
        export("no such checkpoint", YNAT, name="tiny", precision=precision)


@pytest.mark.skipif(
    "CUDAExecutionProvider" in __import__("onnxruntime").get_available_providers(), reason="this machine has CUDA"
)
def test_a_device_that_the_machine_lacks_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match="needs CUDAExecutionProvider"):
        export("no such checkpoint", YNAT, name="tiny", device="cuda")


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{text} | {text} | {text}", "a tokenizer knows one or two segments"),
        ("topic: {text}", "'topic:' is neither a field in braces nor <sep>"),
        ("{title}", "example 0 cannot be answered: .*title"),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused(save, export_to, template: str, complaint: str) -> None:
    with pytest.raises(ExportError, match=complaint):
        export_to(save(YNAT), YNAT.model_copy(update={"template": template}))


def test_windows_that_could_not_advance_are_refused(save, export_to) -> None:
    suite = NER.model_copy(update={"decoder": NER.decoder | {"stride": 62}})
    with pytest.raises(BundleError, match="stride 62 leaves no way forward in windows of 62"):
        export_to(save(suite), suite)


def test_a_question_that_leaves_no_room_for_context_is_refused(save, export_to) -> None:
    suite = MRC.model_copy(update={"decoder": MRC.decoder | {"max_question_tokens": 61}})
    with pytest.raises(BundleError, match="max_length leaves 0 tokens of context"):
        export_to(save(suite), suite)


def test_an_example_that_the_model_cannot_answer_is_refused(save, export_to) -> None:
    suite = YNAT.model_copy(update={"examples": [*YNAT.examples, {"text": "\x01"}]})
    with pytest.raises(ExportError, match="example 3 cannot be answered: the text holds no characters"):
        export_to(save(suite), suite)


def test_an_example_with_an_unknown_field_is_refused(save, export_to) -> None:
    suite = YNAT.model_copy(update={"examples": [{"txt": "no such field"}]})
    with pytest.raises(ExportError, match="example 0"):
        export_to(save(suite), suite)


def test_an_example_that_the_service_would_refuse_is_refused(save, export_to) -> None:
    suite = C3.model_copy(update={"examples": [C3.examples[0] | {"choices": ["一"]}]})
    with pytest.raises(ExportError, match=r"example 0.*2 to 4 choices"):
        export_to(save(suite), suite)


@pytest.mark.parametrize("suite", [MRC, C3], ids=lambda suite: suite.family)
def test_a_head_that_optimum_does_not_export_is_refused(save, export_to, suite) -> None:
    with pytest.raises(ExportError, match="modernbert"):
        export_to(save(suite, "modernbert"), suite)


def test_a_precision_that_changes_an_answer_is_refused(save, export_to) -> None:
    """Tags of a random model lie close together, so that some of so many tip over with any int8 kernel."""
    texts = [{"text": e["text"]} for name in ("klue/ynat", "klue/nli", "klue/re") for e in tiny_suite(name).examples]
    suite = NER.model_copy(update={"examples": [*NER.examples, *texts]})
    data = [OFFICIAL / "klue" / "ner.tsv"]
    with pytest.raises(
        ExportError, match=r"int8 loses too much: .*tiny changes the answer to example \d+: answer\.entities"
    ):
        export_to(save(suite), suite, precision="int8", data=data)


@pytest.mark.parametrize("name", ["Tiny", "tiny bundle", "-tiny", "티니"])
def test_a_name_that_is_no_path_of_a_url_is_refused(save, export_to, name: str) -> None:
    with pytest.raises(ExportError, match="cannot name a bundle"):
        export_to(save(YNAT), YNAT, name=name)
