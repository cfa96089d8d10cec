"""A contest goes on: what is wrong with one server stands in its row, and the others are measured."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import command, models
from benchmarks.peers.contest import Contest, clean_environment
from benchmarks.peers.recipe import Environment, Recipe
from benchmarks.peers.table import table
from benchmarks.playback import Outcome
from benchmarks.run import Offer, describe

ANSWERING = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"label": "a"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def contest(work: Path) -> Contest:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    return Contest(work, work / "checkpoint", ["one", "two"], ["a", "b"], cpus, seconds=0.2, slo_ms=100.0, seed=1)


def recipe(code: str, **changes: Any) -> Recipe:
    fields: dict[str, Any] = {"title": "T", "path": "/", "body": {"text": "{text}"}, "label": ["label"], "start_s": 20}
    return Recipe.model_validate(fields | {"command": ["{python}", "-c", code, "{port}"]} | changes)


def test_a_server_that_does_not_start_has_the_reason_in_its_row(tmp_path: Path) -> None:
    row = contest(tmp_path).turn("p", recipe("raise SystemExit('no model')"), tmp_path)
    assert row == {
        "name": "p",
        "title": "T",
        "error": f"ended while starting, see {tmp_path}/logs/p.log",
    }
    assert (tmp_path / "logs/p.log").read_text(encoding="utf-8") == "no model\n"


def test_an_environment_that_cannot_be_made_has_the_reason_in_its_row(tmp_path: Path) -> None:
    broken = Environment(name="p", install=["--no-index clueserve-no-such-package"])
    row = contest(tmp_path).turn("p", recipe("", environment=broken), tmp_path)
    assert row["error"] == f"not installed, see {tmp_path}/venvs/p.log"


def test_an_answer_of_another_form_ends_one_turn_with_what_is_known(tmp_path: Path) -> None:
    row = contest(tmp_path).turn("p", recipe(ANSWERING, label=["data", 0]), tmp_path)
    assert row["error"].startswith("KeyError: 'data'")
    assert row["start_s"] > 0


def test_answers_are_compared_and_files_of_the_recipe_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load(self: Contest, found: dict[str, Any], server: Any, requests: Any) -> None:
        found["requests"] = requests

    monkeypatch.setattr(Contest, "_load", load)
    server = recipe(
        f"assert open('a/b').read() == 'at 2'\n{ANSWERING}" if len(os.sched_getaffinity(0)) > 1 else ANSWERING,
        files={"a/b": "at {cpus}"},
    )
    row = contest(tmp_path).turn("p", server, tmp_path)
    assert row["error"] is None
    assert row["labels_equal"] == 0.5  # both were answered with "a"; the second should be "b"
    assert row["requests"] == [("/", b'{"text": "one"}'), ("/", b'{"text": "two"}')]


def test_nothing_of_our_own_settings_reaches_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NLU_THREADS", "PEER_WORKERS", "BENTOML_HOME", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    assert not [name for name in clean_environment() if name.startswith(("NLU_", "PEER_", "BENTOML_", "PYTHON"))]
    assert clean_environment()["PATH"] == os.environ["PATH"]


def test_the_table_has_the_cheapest_first_and_says_what_is_missing() -> None:
    run = describe("p", Offer(1.0, callers=1), [Outcome("200", 0.02, 0.0), Outcome("500", 0.01, 0.0)], 0.1, None)
    full = {"title": "A", "error": None, "start_s": 3.0, "labels_equal": 1.0, "peak": run, "rss_mb": 300.0}
    full |= {"capacity_per_s": 120.0, "capacity": {"limited_by": "generator"}, "at_70": run}
    peers = [
        {"name": "broken", "title": "C", "error": "not installed, see log"},
        full | {"name": "dear", "cpu_ms": 8.0},
        full | {"name": "ours", "cpu_ms": 2.0, "at_70": None, "capacity_per_s": 0.0},
    ]
    ways = [{"way": "alone", "threads": 1, "cpu_ms": 2.0}, {"way": "split", "threads": 1, "cpu_ms": 1.6}]
    lines = table({"model": "small", "cpus": [0, 1], "floors": {"ours": {"ways": ways}}, "peers": peers}).splitlines()
    assert lines[0] == "small, 2 cores; CPU of the floor: ours 1.60 ms"
    assert [line.split()[0] for line in lines[3:6]] == ["ours", "dear", "broken"]
    assert lines[3].split()[2:] == ["2.00", "1.25", "0", "-", "3.0", "300", "100", "%"]
    assert lines[4].split()[2:] == ["8.00", "5.00", "120", "20", "3.0", "300", "100", "%"]
    assert lines[5].split()[2:] == ["-"] * 7
    assert "dear with 32 callers: 500 x 1" in lines
    assert "broken: not installed, see log" in lines


def test_the_small_checkpoint_comes_from_its_seed(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    first, again, other = (
        load_file(models.checkpoint("small", tmp_path / str(i), seed) / "model.safetensors")
        for i, seed in enumerate((0, 0, 1))
    )
    assert all((first[name] == again[name]).all() for name in first)
    assert not all((first[name] == other[name]).all() for name in first)
    layers = {int(name.split(".")[3]) for name in first if ".layer." in name}
    assert layers == {0, 1, 2, 3}
    assert first["bert.embeddings.word_embeddings.weight"].shape[1] == 256
    assert first["bert.encoder.layer.0.intermediate.dense.weight"].shape == (1024, 256)
    assert first["classifier.weight"].shape == (7, 256)


def test_texts_of_the_small_model_have_twenty_words() -> None:
    drawn = models.texts("small", 2000, seed=1)
    assert sum(len(text.split()) for text in drawn) / len(drawn) == pytest.approx(20, rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--only", "ours,nobody"], "no such peer: nobody"),
        (["--seconds", "0"], "--seconds and --slo-ms"),
        (["--only", "ours"], None),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: list[str], why: str | None) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    said = command.problem(parser.parse_args(["--work", "w", *arguments]))
    assert (said or "").startswith(why or "")
    assert (said is None) == (why is None)
