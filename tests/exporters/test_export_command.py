"""`python -m exporters`: what a person types, and what they are told."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import bentoml
import pytest
from tiny import POSITIONS, headless, tiny_suite

from exporters.__main__ import main
from exporters.verify import BATCHES, lengths
from service.bundle import Bundle
from suites import Suite

YNAT, NLI, MRC = tiny_suite("klue/ynat"), tiny_suite("klue/nli"), tiny_suite("klue/mrc")


def test_a_checkpoint_becomes_a_bundle_in_the_folder(save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "out"
    assert main([str(save(YNAT)), "--suite", "klue/ynat", "--name", "topics", "--out", str(out)]) == 0
    bundle = Bundle(out / "topics")
    bundle.verify()
    assert (bundle.manifest.name, bundle.manifest.labels) == ("topics", YNAT.labels)

    said = capsys.readouterr()
    assert said.out.startswith(f"{out / 'topics'}  text-classification, fp32, ")
    shapes = len(BATCHES) * len(lengths(POSITIONS))
    assert re.search(
        rf"{shapes} shapes, logits within \d\.\de-\d\d of torch \(largest \d\.\d\), answers equal", said.out
    )
    assert len(said.out.splitlines()) == 1
    for step in ("loading", "exporting BertForSequenceClassification as fp32", "comparing with torch", "answers"):
        assert step in said.err


def test_without_a_folder_the_bundle_goes_to_the_store(save, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(save(YNAT)), "--suite", "klue/ynat", "--name", "stored"]) == 0
    tag = capsys.readouterr().out.split()[0]
    assert Bundle(Path(bentoml.models.get(tag).path)).manifest.name == "stored"


@pytest.mark.parametrize(
    ("folder", "name"),
    [("KLUE_YNAT v2", "klue_ynat-v2"), ("_checkpoint-100_", "checkpoint-100"), ("(주제)bert", "bert")],
)
def test_the_checkpoints_own_name_is_made_fit_for_a_url(save, tmp_path: Path, folder: str, name: str) -> None:
    source = shutil.move(save(YNAT), tmp_path / folder)
    assert main([f"{source}/", "--suite", "klue/ynat", "--out", str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def test_the_checkpoint_may_be_the_current_folder(save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(save(YNAT).rename(tmp_path / "topics"))
    assert main([".", "--suite", "klue/ynat", "--out", str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["topics"]


@pytest.mark.parametrize("declared", [",".join(NLI.labels[::-1]), "suite"])
def test_labels_can_be_declared(save, tmp_path: Path, declared: str) -> None:
    source = save(NLI, id2label={i: f"LABEL_{i}" for i in range(3)}, label2id=None)
    command = [str(source), "--suite", "klue/nli", "--name", "nli", "--out", str(tmp_path)]
    assert main(command) == 1
    assert main([*command, "--labels", declared]) == 0
    labels = Bundle(tmp_path / "nli").manifest.labels
    assert labels == (NLI.labels if declared == "suite" else declared.split(","))


def test_the_suite_may_be_a_file_and_the_precision_int8(save, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("include: klue/ynat\nname: own\nmax_length: 24\n", encoding="utf-8")
    command = [str(save(YNAT)), "--suite", str(own), "--name", "own", "--precision", "int8", "--out", str(tmp_path)]
    assert main([*command, "--accept-loss", "nobody trained it"]) == 0
    bundle = Bundle(tmp_path / "own").manifest
    assert (bundle.suite, bundle.max_length, bundle.graph.precision) == ("own", 24, "int8")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--suite", "klue/nerr"], "unknown suite 'klue/nerr'; did you mean klue/ner"),
        (["--suite", "nowhere.yaml"], "No such file or directory: 'nowhere.yaml'"),
        (["--suite", "klue/nli"], "the labels are not those of klue/nli"),
        (["--suite", "klue/ynat", "--precision", "fp16"], "fp16 graphs are fused for CUDA"),
        (["--suite", "klue/ynat", "--precision", "int8"], "without the benchmark's file (--data FILE) nobody knows"),
        (["--suite", "klue/ynat", "--labels", "a,b"], "2 labels were declared, the checkpoint has 7 outputs"),
        (["--suite", "klue/ynat", "--name", "Not A Name"], "cannot name a bundle"),
    ],
)
def test_a_refusal_says_why_in_one_line_and_exits_with_1(
    save, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert main([str(save(YNAT)), "--out", str(tmp_path / "out"), *arguments]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    last = said.err.splitlines()[-1]
    assert last.startswith("not exported: ")
    assert reason in last
    assert not (tmp_path / "out").exists()


def _missing(save, folder: Path) -> Path:
    return folder / "nothing"


def _bare(save, folder: Path) -> Path:
    return headless("bert", YNAT, folder / "bare")


def _without_tokenizer(save, folder: Path) -> Path:
    source: Path = save(YNAT)
    for path in source.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            path.unlink()
    return source


def _broken_weights(save, folder: Path) -> Path:
    source: Path = save(YNAT)
    (source / "model.safetensors").write_bytes(b"half a download")
    return source


@pytest.mark.parametrize(
    "spoil",
    [
        _missing,
        _bare,
        _without_tokenizer,
        _broken_weights,
    ],
)
def test_an_unreadable_checkpoint_is_a_refusal_not_a_traceback(
    save, tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil
) -> None:
    assert main([str(spoil(save, tmp_path)), "--suite", "klue/ynat", "--out", str(tmp_path / "out")]) == 1
    assert "not exported: " in capsys.readouterr().err


def test_an_architecture_without_the_head_is_a_refusal_not_a_traceback(save, tmp_path: Path) -> None:
    suite: Suite = MRC
    assert main([str(save(suite, "modernbert")), "--suite", "klue/mrc", "--out", str(tmp_path / "out")]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["folder"],
        ["folder", "--suite", "klue/ynat", "--precision", "int4"],
        ["folder", "--suite", "klue/ynat", "--accept-loss", "why"],
    ],
)
def test_a_command_that_makes_no_sense_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m exporters" in capsys.readouterr().err


def test_help_is_there_without_waiting_for_torch() -> None:
    code = "import sys, runpy; sys.argv = ['exporters', '--help']\n"
    code += "try: runpy.run_module('exporters', run_name='__main__')\n"
    code += "except SystemExit as end: print(end.code, sorted({'torch', 'transformers', 'bentoml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    for option in ("--suite", "--precision", "--data", "--accept-loss", "--device", "--name", "--labels", "--out"):
        assert option in done.stdout
    assert done.stdout.splitlines()[-1] == "0 []"
