"""`load`, `capacity` and `offline` as somebody types them, against a server that is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import uvloop
from synthetic_server import synthetic

from benchmarks import __main__, results
from benchmarks.client import Client
from benchmarks.offline import job, split
from benchmarks.predictors import PredictorError


def command(*arguments: str | Path | float) -> int:
    return __main__.main([str(argument) for argument in arguments])


def test_load_prints_and_saves_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "run.json"
    with synthetic(service=0.001) as url:
        options = ("--rate", 50, "--seconds", 0.4, "--warm-up", 0.1, "--timeout-ms", 500, "--save", file)
        assert command("load", "--url", url, *options) == 0
    printed = capsys.readouterr().out
    assert f"m at {url}: poisson, 50 requests/s for 0.4 s" in printed
    assert "goodput" in printed
    saved = results.load(file)
    assert (saved["command"], saved["seed"]) == ("load", 1)
    assert saved["arguments"]["trace"] == "mixed"
    assert saved["found"]["kinds"].keys() == {"200"}


def test_offline_splits_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.json"
    with synthetic(most_items=20) as url:
        assert command("offline", "--url", url, "--items", 100, "--in-flight", 3, "--save", file) == 0
    (done,) = json.loads(file.read_text(encoding="utf-8"))["found"]["jobs"]
    assert (done["items"], done["answered"], done["errors"]) == (100, 100, {})
    assert done["requests"] == 7  # of 15: half of half of half of a thousand, and so on, until 20 are enough
    assert done["items_per_s"] > 0
    assert "CPU ms an item" in capsys.readouterr().out


def of_job(items: list[dict[str, Any]], model: str = "m") -> dict[str, Any]:
    async def run(url: str) -> dict[str, Any]:
        async with Client(url) as client:
            return await job(model, client, items, 2, None)

    with synthetic() as url:
        return uvloop.run(run(url))


def test_items_that_are_refused_are_counted_by_their_code() -> None:
    done = of_job([{"text": "yes"}, {"text": "no"}, {"text": "yes"}])
    assert (done["answered"], done["errors"]) == (2, {"overloaded": 1})
    assert done["cpu_ms_per_item"] is None


def test_a_server_without_the_batch_endpoint_has_no_job() -> None:
    with pytest.raises(PredictorError, match="/n/batch answered 404"):
        of_job([{"text": "yes"}], model="n")


def test_parts_of_a_job_keep_to_items_and_bytes() -> None:
    items = [{"text": "x" * size} for size in (10, 10, 10, 899_990, 10, 1_000_000)]
    assert [len(part) for part in split(items, 2)] == [2, 1, 1, 1, 1]
    assert [item for part in split(items, 2) for item in part] == items


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("load", "--url", "ftp://x", "--rate", 1), "no server's URL"),
        (("load", "--url", "http://x", "--rate", 0), "--rate is more than 0"),
        (("load", "--url", "http://x", "--closed", 2, "--profile", "burst"), "--profile is for --rate"),
        (("load", "--url", "http://x"), "one of the arguments --rate --closed is required"),
        (("load", "--url", "http://x", "--rate", 1, "--trace", "data"), "--data-dir go together"),
        (("load", "--url", "http://x", "--rate", 1, "--seconds", 0), "--seconds"),
        (("capacity", "--url", "http://x", "--confirm", 0), "--confirm is at least 1"),
        (("offline", "--url", "http://x", "--items", 0), "--items and --in-flight"),
        (("offline", "--url", "http://x", "--timeout-ms", 0), "--timeout-ms is at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: tuple[str | float, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command(*arguments)
    assert said in capsys.readouterr().err


def test_a_model_that_is_not_served_and_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with synthetic() as url:
        assert command("load", "--url", url, "--rate", 1, "--models", "m,n") == 1
    assert "has no model n; it has m" in capsys.readouterr().err
    assert command("capacity", "--url", url) == 1
    assert "no answer" in capsys.readouterr().err
