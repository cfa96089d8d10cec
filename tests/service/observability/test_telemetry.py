"""Metrics over several processes, as `/metrics` shows them. The processes of a test are real and share one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from service.observability.telemetry import CATALOGUE, PREFIX, STAGES

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
COUNT = """
import sys
from types import SimpleNamespace
from service.observability.telemetry import Telemetry
from service.types import Timing
manifest = SimpleNamespace(family="text-classification", suite="s")
telemetry = Telemetry(["news"])
"""
SHOW = "from service.observability.telemetry import exposition\nprint(exposition()[0].decode())\n"
READY = "telemetry.ready('news', SimpleNamespace(manifest=manifest, precision='fp32'), 'cpu')\n"
STAY = "print('on', flush=True)\nsys.stdin.read()\n"


class Folder:
    """Where processes count together."""

    def __init__(self, folder: Path) -> None:
        self.env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder), "PYTHONPATH": str(ROOT)}

    def run(self, script: str) -> str:
        command = [sys.executable, "-c", script]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=True, timeout=60).stdout

    def start(self, script: str) -> subprocess.Popen[str]:
        """A process that has done its counting and lives on until its input ends."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, "-c", COUNT + script + STAY], env=self.env, stdin=pipe, stdout=pipe, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        return process

    def series(self) -> dict[str, float]:
        lines = (line.rpartition(" ") for line in self.run(SHOW).splitlines() if line and not line.startswith("#"))
        return {name.removeprefix(PREFIX): float(value) for name, _, value in lines}


def end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(20)
    process.stdout.close()


def test_counters_and_histograms_are_sums_that_outlive_their_process(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for _ in range(2):
        folder.run(COUNT + "telemetry.answered('news', Timing(queue=0.02))\ntelemetry.refused('not_found')\n")
    series = folder.series()
    assert series['requests_total{bundle="news",outcome="ok"}'] == 2
    assert series['refusals_total{reason="not_found"}'] == 2
    assert series['stage_seconds_count{bundle="news",stage="queue"}'] == 2
    assert series['stage_seconds_bucket{bundle="news",le="0.01",stage="queue"}'] == 0
    assert series['stage_seconds_bucket{bundle="news",le="0.025",stage="queue"}'] == 2


def test_gauges_are_of_the_living(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    one = folder.start(READY + "telemetry.in_flight.inc()\ntelemetry.depth('news')(3)\n")
    two = folder.start("telemetry.in_flight.inc()\ntelemetry.depth('news')(4)\n")
    both = folder.series()
    assert (both["workers"], both["http_in_flight"], both['queue_depth{bundle="news"}']) == (2, 2, 7)
    assert both['bundle_ready{bundle="news"}'] == 0, "the second has not loaded it yet"
    assert both["resident_memory_bytes"] > 1 << 24
    two.kill()
    two.wait(20)
    alone = folder.series()
    assert (alone["workers"], alone["http_in_flight"], alone['queue_depth{bundle="news"}']) == (1, 1, 3)
    assert alone['bundle_ready{bundle="news"}'] == 1
    assert not list(tmp_path.glob(f"gauge_*_{two.pid}.db"))
    end(one)
    end(two)
    assert folder.series()["workers"] == 0


def test_a_bundle_is_told_as_unloaded_only_while_nobody_wants_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    info = 'bundle_info{bundle="news",device="cpu",family="text-classification",precision="fp32",suite="s"}'
    bundle = "SimpleNamespace(manifest=manifest, precision='fp32')"
    unloaded = f"telemetry.unloaded('news', {bundle}, 'cpu')\n"
    failed = "telemetry.unready('news')\n"
    for script, expected in {
        READY: (1, 1),
        READY + failed: (0, 1),
        READY + unloaded: (0, 0),
        unloaded: (0, 0),  # by a worker that came later
        READY + unloaded + failed: (0, 1),
        READY + unloaded + READY: (1, 1),
        failed: (0, None),
    }.items():
        worker = folder.start(script)
        series = folder.series()
        assert (series['bundle_ready{bundle="news"}'], series.get(info)) == expected, script
        end(worker)


def test_a_killed_worker_that_nobody_has_reaped_yet_is_dead(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    worker = folder.start("telemetry.in_flight.inc()\n")
    worker.kill()
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    assert folder.series()["workers"] == 0
    end(worker)


def test_a_worker_with_a_dead_ones_number_does_not_inherit_its_gauges(tmp_path: Path) -> None:
    anew = COUNT + "telemetry.in_flight.inc()\n" + SHOW
    # exec keeps the process's number.
    script = COUNT + "telemetry.in_flight.inc()\nimport os\n"
    script += f"os.execv(sys.executable, [sys.executable, '-c', {anew!r}])\n"
    shown = Folder(tmp_path).run(script)
    assert "clueserve_http_in_flight 1.0" in shown


def test_series_that_alerts_divide_by_are_there_before_the_first_event(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.run(COUNT + READY)
    series = folder.series()
    for outcome in ("ok", "internal", "overloaded", "deadline_exceeded"):
        assert series[f'requests_total{{bundle="news",outcome="{outcome}"}}'] == 0
    for cause in ("crashed", "hung"):
        assert series[f'workers_lost_total{{cause="{cause}"}}'] == 0


def test_the_quality_of_answers_is_counted_by_bundle(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.run(
        COUNT
        + "from service.tasks import FAMILIES\n"
        + "observe = telemetry.quality('news', FAMILIES['text-classification'].Output)\n"
        + "answer = {'label': 'x', 'score': 0.93, 'scores': [], 'labels': [], 'value': None, 'truncated': True}\n"
        + "observe(answer, Timing(tokens=9, unknown=2))\n"
        + "observe(answer | {'truncated': False}, Timing(tokens=9))\n"
    )
    series = folder.series()
    assert series['truncated_total{bundle="news"}'] == 1
    assert series['unknown_tokens_total{bundle="news"}'] == 2
    assert series['labels_total{bundle="news",label="x"}'] == 2
    assert series['score_bucket{bundle="news",le="0.9"}'] == 0
    assert series['score_bucket{bundle="news",le="0.95"}'] == 2


def test_the_guide_lists_the_catalogue_and_nothing_else() -> None:
    rows = re.findall(r"^\| `clueserve_(\w+)` \| (\w+) \| ([\w, ]*?) ?\|", GUIDE, re.MULTILINE)
    listed = {name: (kind, tuple(filter(None, labels.split(", ")))) for name, kind, labels in rows}
    assert len(listed) == len(rows)
    catalogue = {
        name + ("_total" if metric.kind == "counter" else ""): (metric.kind, metric.labels)
        for name, metric in CATALOGUE.items()
    }
    assert listed == catalogue


def test_the_guide_names_every_stage() -> None:
    assert all(f"`{stage}`" in GUIDE for stage in STAGES)
