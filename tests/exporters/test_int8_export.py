"""`--precision int8` from the checkpoint to the bundle: judged on a benchmark's file, or accepted in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import tiny_suite

from exporters.errors import ExportError
from exporters.precision import lowering
from exporters.precision.calibration import rows, texts
from service.bundle import Bundle, sha256
from service.loading import open_bundle

OFFICIAL = Path(__file__).parents[1] / "official"
DATA = [OFFICIAL / "klue" / "ynat.json"]
YNAT = tiny_suite("klue/ynat")
OWN_HEADS = ("cblue/cmeee", "klue/dp", "klue/wos", "cblue/cmeie", "cblue/chip-cdn")


def test_the_bundle_says_what_was_measured(save, export_to) -> None:
    bundle = Bundle(Path(export_to(save(YNAT), YNAT, precision="int8", data=DATA).place))
    bundle.verify()
    found = bundle.manifest.provenance["int8"]
    assert found["data"] == f"ynat.json, sha256 {sha256(DATA[0])[:12]}"
    assert (found["accepted"], found["complaints"]) == (None, [])
    assert found["labels_equal"] == 100
    assert found["records"] == found["labels"] > 2
    assert set(found["scores"]) == set(YNAT.metrics)
    assert 0 < found["logit_change"] < 0.5


def test_without_data_it_is_refused_unless_somebody_accepts_the_loss(save, export_to) -> None:
    source = save(YNAT)
    with pytest.raises(ExportError, match=r"give it, or say why that does not matter \(--accept-loss REASON\)"):
        export_to(source, YNAT, precision="int8")
    done = export_to(source, YNAT, precision="int8", accept_loss="a toy")
    found = Bundle(Path(done.place)).manifest.provenance["int8"]
    assert found["accepted"] == "a toy"
    assert "data" not in found


def spoiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A precision that keeps nothing: all weights of products become zero."""
    real = lowering.lowered

    def nothing(bundle, folder):
        return real(bundle, folder, lambda model, maxima: lowering.int8(model, {n: 0 * m for n, m in maxima.items()}))

    monkeypatch.setattr(lowering, "lowered", nothing)


def test_what_loses_too_much_is_refused_and_can_be_accepted(save, export_to, monkeypatch) -> None:
    spoiled(monkeypatch)
    monkeypatch.setattr("exporters.gate.LABELS_EQUAL", 100.1)
    source = save(YNAT)
    with pytest.raises(ExportError, match=r"int8 loses too much: .* labels stay, 100.1 % must.*--accept-loss REASON"):
        export_to(source, YNAT, precision="int8", data=DATA)
    done = export_to(source, YNAT, precision="int8", data=DATA, accept_loss="nobody minds")
    found = Bundle(Path(done.place)).manifest.provenance["int8"]
    assert found["accepted"] == "nobody minds"
    assert any("labels stay, 100.1 % must" in complaint for complaint in found["complaints"])


def test_golden_records_of_accepted_losses_are_what_the_graph_answers(save, export_to) -> None:
    suite = tiny_suite("klue/ner")  # so many tags of a random model that some tip over
    extra = [{"text": e["text"]} for name in ("klue/ynat", "klue/nli", "klue/re") for e in tiny_suite(name).examples]
    suite = suite.model_copy(update={"examples": [*suite.examples, *extra]})
    done = export_to(save(suite), suite, precision="int8", accept_loss="a toy")
    bundle = Bundle(Path(done.place))
    assert "tiny changes the answer to example" in bundle.manifest.provenance["int8"]["complaints"][0]
    open_bundle(bundle, "cpu")  # which repeats them


def test_data_of_another_benchmark_is_refused(save, export_to) -> None:
    with pytest.raises(ExportError, match=r"ner\.tsv"):
        export_to(save(YNAT), YNAT, precision="int8", data=[OFFICIAL / "klue" / "ner.tsv"])


def test_encoders_of_one_trunk_stay_equal_whatever_their_task(save, export_to, tmp_path: Path) -> None:
    source = save(YNAT)
    other = YNAT.model_copy(update={"name": "other", "examples": YNAT.examples[:1]})
    places = [
        Path(export_to(source, suite, name=suite.name.replace("/", "-"), precision="int8", accept_loss="a toy").place)
        for suite in (YNAT, other)
    ]
    for name in ("encoder.onnx", "encoder.onnx.data"):
        assert sha256(places[0] / name) == sha256(places[1] / name)


def test_calibration_reads_the_texts_of_all_suites_as_rows(bundle_of) -> None:
    made = list(rows(Bundle(bundle_of("klue/ynat"))))
    assert len(texts()) > 100
    assert all(2 < row["input_ids"].size <= 64 for row in made)
    assert {int(row["token_type_ids"].max()) for row in made} == {0, 1}


@pytest.mark.parametrize("name", OWN_HEADS)
def test_heads_of_our_own_are_exported_with_an_int8_encoder(bundle_of, name: str) -> None:
    bundle = Bundle(bundle_of(name, precision="int8"))
    assert bundle.precision == "int8"
    open_bundle(bundle, "cpu")


@pytest.mark.parametrize("architecture", ["roberta", "electra", "distilbert", "albert", "deberta-v2", "modernbert"])
def test_other_architectures_have_products_too(bundle_of, architecture: str) -> None:
    whole, small = bundle_of("klue/ynat", architecture), bundle_of("klue/ynat", architecture, precision="int8")
    found = lowering.fidelity(Bundle(whole), Bundle(small), YNAT, lowering.read(DATA, YNAT, 10)[1])
    assert 0 < found.logit_change < 0.5
