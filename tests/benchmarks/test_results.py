"""What goes beside every number: its command, commit, machine and versions; and histograms that merge."""

from __future__ import annotations

import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from benchmarks import histogram, results


def test_a_result_says_where_it_comes_from(tmp_path: Path) -> None:
    arguments = {"command": "load", "url": "http://x", "data_dir": Path("a/b"), "save": Path("c"), "models": ["m"]}
    made = results.result("load", arguments, 7, {"n": 1}, ("psutil",))
    assert made["arguments"] == {"url": "http://x", "data_dir": "a/b", "models": ["m"]}
    assert (made["command"], made["seed"], made["found"]) == ("load", 7, {"n": 1})
    assert datetime.fromisoformat(made["when"]).tzinfo is not None
    assert {"cpu", "cpus", "memory_gb", "versions"} <= made["machine"].keys()
    assert made["machine"]["versions"].keys() == {"python", "psutil"}
    results.save(tmp_path / "a" / "r.json", made)
    assert results.load(tmp_path / "a" / "r.json")["found"] == {"n": 1}


def test_other_files_are_no_results(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    for text, why in (("{", "is not JSON"), ("[]", "is no result"), ('{"found": 1}', "is no result")):
        file.write_text(text)
        with pytest.raises(ValueError, match=why):
            results.load(file)


def test_the_commit_says_if_files_differ_from_it(tmp_path: Path) -> None:
    assert results.commit(tmp_path) is None

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@x", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    assert results.commit(tmp_path) is None
    (tmp_path / "a").touch()
    git("add", "a")
    git("commit", "--quiet", "-m", "m")
    head = git("rev-parse", "HEAD").strip()
    assert results.commit(tmp_path) == head
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_text("changed")
    assert results.commit(tmp_path) == f"{head}-dirty"
    assert results.commit(tmp_path / "sub") is None


def test_runs_merge_by_their_histograms() -> None:
    # Of the two p99, 10 and 500 ms, no average is the p99 of both runs together.
    fast, slow = histogram.of([0.01] * 990), histogram.of([0.5] * 10)
    both = histogram.merged([histogram.encode(fast), histogram.encode(slow)])
    found = histogram.latency_ms(both)
    assert both.total_count == 1000
    assert found["p99"] == pytest.approx(10, rel=1e-3)
    assert found["p99.9"] == pytest.approx(500, rel=1e-3)
    assert found["mean"] == pytest.approx(14.9, rel=1e-2)


def test_what_is_out_of_range_counts_at_its_end() -> None:
    found = histogram.latency_ms(histogram.of([0.0, 10_000.0]))
    assert found["p50"] == 0.001
    assert found["max"] == pytest.approx(3_600_000, rel=1e-3)
