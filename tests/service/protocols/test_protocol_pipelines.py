"""transformers' own pipelines on the same checkpoint say what the protocol says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers
from booth import Booth
from tiny import checkpoint, tiny_suite

from exporters.export import export

TEXT = "今天天气很好，我们一起去公园散步。"
ENGLISH = "The quick brown fox, not lazy, caused (acute) renal failure."
SUITES = {"nli": "clue/cmnli", "topic": "clue/tnews", "ner": "clue/cluener", "words": "biomed/bc5cdr"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Checkpoint and bundle of each suite."""
    made = {}
    for name, suite in SUITES.items():
        cut = tiny_suite(suite)
        if "orphan_inside" in cut.decoder:  # as the pipelines have it
            cut = cut.model_copy(update={"decoder": cut.decoder | {"orphan_inside": "open", "lone_begin": "keep"}})
        source = checkpoint("bert", cut, tmp_path_factory.mktemp("checkpoint"))
        done = export(str(source), cut, name=name, out=tmp_path_factory.mktemp("bundle"))
        made[name] = (source, Path(done.place))
    return made


@pytest.fixture(scope="module")
def ours(folders: dict[str, tuple[Path, Path]]) -> Iterator[Booth]:
    booth = Booth({name: bundle for name, (_, bundle) in folders.items()})
    yield booth
    booth.close()


def theirs(task: str, folder: Path) -> Any:
    return transformers.pipeline(task, model=str(folder), device="cpu")


def asked(booth: Booth, name: str, **parameters: Any) -> Any:
    return booth.post(f"/models/{name}", {"inputs": TEXT, "parameters": parameters}).json


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("labels", [["公园", "北京", "天气"], ["公园"]])
def test_zero_shot_classes(ours: Booth, folders: Any, multi_label: bool, labels: list[str]) -> None:
    rest: dict[str, Any] = {"multi_label": multi_label, "hypothesis_template": "他在{}。"}
    want = theirs("zero-shot-classification", folders["nli"][0])(TEXT, candidate_labels=labels, **rest)
    got = asked(ours, "nli", candidate_labels=labels, **rest)
    assert [one["label"] for one in got] == want["labels"]
    assert [one["score"] for one in got] == pytest.approx(want["scores"], abs=1e-5)


@pytest.mark.parametrize("function", ["softmax", "sigmoid", "none"])
def test_classes_under_each_function(ours: Booth, folders: Any, function: str) -> None:
    want = theirs("text-classification", folders["topic"][0])(TEXT, top_k=4, function_to_apply=function)
    (got,) = asked(ours, "topic", top_k=4, function_to_apply=function)
    assert [one["label"] for one in got] == [one["label"] for one in want]
    assert [one["score"] for one in got] == pytest.approx([one["score"] for one in want], abs=1e-5)


@pytest.mark.parametrize("ignored", [["O"], []])
def test_tokens_with_their_tags(ours: Booth, folders: Any, ignored: list[str]) -> None:
    pipeline = theirs("token-classification", folders["ner"][0])
    want = pipeline(TEXT, aggregation_strategy="none", ignore_labels=ignored)
    got = asked(ours, "ner", aggregation_strategy="none", ignore_labels=ignored)
    assert want
    for mine, one in zip(got, want, strict=True):
        assert mine == {**one, "score": pytest.approx(float(one["score"]), abs=1e-5)}


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
def test_entities_by_each_strategy(ours: Booth, folders: Any, strategy: str) -> None:
    pipeline = theirs("token-classification", folders["words"][0])
    want = pipeline(ENGLISH, aggregation_strategy=strategy)
    body = {"inputs": ENGLISH, "parameters": {"aggregation_strategy": strategy}}
    got = ours.post("/models/words", body).json
    assert want
    for mine, one in zip(got, want, strict=True):
        assert mine == {
            "entity_group": one["entity_group"],
            "score": pytest.approx(float(one["score"]), abs=1e-5),
            "word": ENGLISH[one["start"] : one["end"]],
            "start": one["start"],
            "end": one["end"],
        }
