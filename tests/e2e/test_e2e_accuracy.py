"""`accuracy` against a running server says what it says of the same bundle in process, refused records included."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e_servers import Server

from benchmarks.__main__ import main
from service.loading import difference

OFFICIAL = Path(__file__).parents[1] / "official" / "klue"


@pytest.fixture(scope="module")
def url(bundle_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = ",".join(f"{name}={bundle_of(f'klue/{name}')}" for name in ("ynat", "ner"))
    # The smallest bodies and batches that a server can be told to take: the client has to find out.
    limits = {"NLU_MAX_BODY_BYTES": "1024", "NLU_MAX_BATCH_ITEMS": "4", "NLU_MAX_WAIT_MS": "300000"}
    server = Server({"NLU_MODELS": models, **limits}, models=tmp_path_factory.mktemp("no-models"))
    try:
        server.wait()
        yield server.url
    finally:
        server.stop()


def saved(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    lines = (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return result, [json.loads(line) for line in lines]


def both_ways(url: str, name: str, folder: Path, data: Path, out: Path) -> dict[str, Any]:
    """Measure over HTTP and in process; the result, which is the same."""
    for way, place in (("--url", f"{url}/{name}"), ("--bundle", str(folder))):
        assert main(["accuracy", "--data", str(data), way, place, "--save", str(out / way)]) == 0
    (there, answers), (here, own) = saved(out / "--url"), saved(out / "--bundle")
    same = ("suite", "data", "n", "metrics", "left_out", "refused", "recorded")
    assert {key: there[key] for key in same} == {key: here[key] for key in same}
    assert [(line["id"], line["gold"], line.get("error")) for line in answers] == [
        (line["id"], line["gold"], line.get("error")) for line in own
    ]
    # Scores may round otherwise in their last digit, because other rows shared the run.
    for one, other in zip(answers, own, strict=True):
        assert difference(one.get("answer"), other.get("answer"), 2e-6) is None
    return there


def test_a_server_and_its_bundle_have_one_score(url: str, bundle_of: Callable[[str], Path], tmp_path: Path) -> None:
    result = both_ways(url, "ner", bundle_of("klue/ner"), OFFICIAL / "ner.tsv", tmp_path)
    assert (result["n"], result["refused"]) == (5, {})
    assert result["metrics"].keys() == {"entity_macro_f1", "char_macro_f1"}


def test_what_a_server_refuses_its_bundle_refuses(url: str, bundle_of: Callable[[str], Path], tmp_path: Path) -> None:
    records = [r for _ in range(3) for r in json.loads((OFFICIAL / "ynat.json").read_text(encoding="utf-8"))]
    records[1]["title"], records[7]["title"], records[9]["title"] = " ", "\u0007", "가" + "\u0301" * 40
    for i, record in enumerate(records):
        record["guid"] = str(i)
    data = tmp_path / "ynat.json"
    data.write_text(json.dumps(records), encoding="utf-8")
    result = both_ways(url, "ynat", bundle_of("klue/ynat"), data, tmp_path)
    assert (result["n"], result["refused"]) == (18, {"empty_text": 1, "no_tokens": 1, "invalid_text": 1})


def test_every_model_of_a_server_that_has_data(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accuracy", "--all", "--url", url, "--data-dir", str(OFFICIAL), "--save", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert [line.split()[:2] for line in out[out.index("bundle  ") :].splitlines()[1:]] == [
        ["ynat", "macro_f1"],
        ["ner", "entity_macro_f1"],
        ["ner", "char_macro_f1"],
    ]
    assert (tmp_path / "ner" / "result.json").is_file()
