"""`python -m benchmarks report`: one page of any results, that asks for nothing else and lets nothing in."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from saved_results import FOUND, peers, run, save

from benchmarks.__main__ import main
from benchmarks.playback import Outcome

VOID = {"meta", "link", "br", "hr", "img", "input"}
SHOWN = {
    "load": ("How late answers came", "SLO 100 ms", "with Retry-After", "Goodput over time", "Rows that ran together"),
    "capacity": (
        "capacity 50.0/s",
        "50.0 requests/s, confirmed by 1 run",
        "its capacity, 50/s",
        "bracket",
    ),
    "offline": ("Batch jobs", "overloaded × 2"),
    "limit": ("alone, 1 thread", "split, 2 threads", "tokens an item"),
    "peers": ("floor 2.00", "this server", "not measured", "not installed", "a other"),
    "frontier": ("Speed and fidelity", "dynamic int8", "f1 -0.50"),
    "proof": ("2 of 3 promises are kept", "✕ missed", "m, overload"),
    "soak": ("10,000 requests in 10.0 minutes", "memory, 501 MB at first", "✕ missed", "503 instead of 200"),
    "tomorrow": ("tomorrow", "weather", "fair", "0.2500", "yes"),
}


class Page(HTMLParser):
    """Fails where tags are not closed in order; keeps text, links and what a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for key, value in attrs:
            assert not key.startswith("on")
            if key in {"src", "href", "data", "action", "srcset", "xlink:href", "poster"}:
                (self.links if tag == "a" else self.fetched).append(value or "")
            if key == "id":
                self.ids.append(value or "")
            if key == "aria-label":
                self.text += f"{value}\n"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self.open else ""


def report(*files: Path) -> Page:
    out = files[0].with_suffix(".html")
    assert main(["report", *map(str, files), "--out", str(out)]) == 0
    return Page(out.read_text(encoding="utf-8"))


@pytest.mark.parametrize("command", FOUND)
def test_every_command_is_shown(command: str, tmp_path: Path) -> None:
    page = report(save(tmp_path, command))
    for words in SHOWN[command]:
        assert words in page.text
    assert ("svg" in page.tags) == (command != "tomorrow")
    assert "table" in page.tags


def test_results_of_all_kinds_share_a_page_that_fetches_nothing(tmp_path: Path) -> None:
    page = report(*(save(tmp_path, command) for command in FOUND), save(tmp_path, "load", name="again"))
    assert page.fetched == ["data:,"]
    assert page.links == [f"#{name}" for name in page.ids]
    assert "script" not in page.tags
    text = (tmp_path / "load.html").read_text(encoding="utf-8")
    style = text[text.index("<style>") : text.index("</style>")]
    assert not re.search(r"url\(|@import|http", style)
    assert "default-src 'none'" in text
    for subject in ("prefers-color-scheme: dark", 'name="viewport"', "load: poisson, 50/s", "again: poisson, 50/s"):
        assert subject in text


def test_nothing_of_a_file_becomes_markup(tmp_path: Path) -> None:
    evil = """</title></svg></style><script>alert("x")</script><img src=x onerror='y'>&amp;$body"""
    found = peers()
    found["peers"][0] |= {"name": evil, "title": evil, "error": evil}
    found["model"] = evil
    machine = {"cpu": evil, "cpus": [0], "system": evil, "load_average": [0.0], "versions": {evil: evil}}
    files = [
        save(tmp_path, "load", run(evil, [Outcome(evil, 0.1, 0.0), Outcome("200", 0.1, 0.0)]), name="<b>&"),
        save(tmp_path, "peers", found, commit=evil, machine=machine, arguments={evil: evil}),
        save(
            tmp_path, "tomorrow", {evil: [{evil: evil}], "deep": {evil: {evil: [evil] * 9}}}, command=evil, name="other"
        ),
    ]
    page = report(*files)
    assert not {"script", "img", "b<"} & set(page.tags)
    assert page.text.count('<script>alert("x")</script>') > 10
    assert "<b>&" in page.text


def test_half_a_character_is_no_reason_to_fail(tmp_path: Path) -> None:
    file = save(tmp_path, "tomorrow", {"text": "?"})
    file.write_text(file.read_text(encoding="utf-8").replace('"?"', '"half \\ud83d"'), encoding="utf-8")
    assert "half ?" in report(file).text


def test_reasons_for_doubt_come_first(tmp_path: Path) -> None:
    late = run(outcomes=[Outcome("200", 0.02, 0.02)])
    busy = {"cpu": "c", "cpus": [0], "system": "s", "load_average": [9.0, 1.0, 1.0], "versions": {}}
    page = report(
        save(tmp_path, "load", late, name="late"), save(tmp_path, "limit", machine=busy, commit="d" * 40 + "-dirty")
    )
    for doubt in (
        "late: the load generator could not send in time",
        "limit: the machine was busy",
        "limit: the code differed from its commit",
        "of different machines",
        "of different commits",
    ):
        assert 0 < page.text.index(doubt) < page.text.index("Machine")
    assert "ddddddddd with changes" in page.text
    assert "Read this first" not in report(save(tmp_path, "load")).text


def test_a_run_without_answers_and_a_server_without_capacity_are_shown(tmp_path: Path) -> None:
    gone = run(outcomes=[Outcome("connection", 0.1, 0.0)], server=None)
    none = {"name": "m", "slo_ms": 1.0, "seconds": 2.0, "alone_p50_ms": None, "capacity_per_s": 0.0, "peak": None}
    none |= {"limited_by": "server", "tries": []}
    page = report(
        save(tmp_path, "load", gone), save(tmp_path, "capacity", none), save(tmp_path, "load", run(outcomes=[]), "x")
    )
    assert "connection × 1" in page.text
    assert "No rate kept 99 % of its requests within 1 ms." in page.text


def broken(**changes: Any) -> dict[str, Any]:
    return run() | changes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not JSON"),
        ('{"suite": "klue/ynat", "metrics": {}}', "is no result of a command"),
        ('{"command": "load", "found": {}}', "is no result of load: when: Field required"),
        (broken(offered="many"), "is no result of load: offered"),
        (broken(histogram="AAAA"), "is no result of load: histogram: Value error, no HDR histogram"),
        (broken(slo_ms=float("nan")), "is no result of load: slo_ms"),
        ([], "is no result of load: found"),
    ],
)
def test_a_broken_or_foreign_file_is_refused_by_name(
    text: Any, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = save(tmp_path, "load", text if not isinstance(text, str) else None, name="odd")
    if isinstance(text, str):
        file.write_text(text)
    out = tmp_path / "r.html"
    assert main(["report", str(save(tmp_path, "load")), str(file), "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"no report: {file} ")
    assert why in said
    assert not out.exists()


def test_a_missing_file_and_an_output_over_a_result_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path / "none.json"), "--out", str(tmp_path / "r.html")]) == 1
    assert "none.json" in capsys.readouterr().err
    file = save(tmp_path, "load")
    with pytest.raises(SystemExit):
        main(["report", str(file), "--out", str(file)])
    assert json.loads(file.read_text(encoding="utf-8"))["command"] == "load"


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    page = report(save(tmp_path / "a", "load"), save(tmp_path / "b", "load"))
    assert f"{tmp_path}/a/load: poisson" in page.text
    assert f"{tmp_path}/b/load: poisson" in page.text
