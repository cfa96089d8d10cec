"""Lists in the docs that the code has as well are the code's."""

from __future__ import annotations

import json
import re

import pathspec
import yaml
from docblocks import ROOT, blocks, pages

import demo
from service.config import PREFIX, Settings
from service.observability.telemetry import CATALOGUE
from service.observability.telemetry import PREFIX as PREFIX_OF_METRICS

OPERATING = (ROOT / "docs/operating.md").read_text(encoding="utf-8")


def test_the_settings_are_those_of_the_server_with_their_defaults() -> None:
    rows = dict(re.findall(r"^\| `(NLU_\w+)` \| ([^|]+) \|", OPERATING, re.MULTILINE))
    defaults = {PREFIX + name.upper(): field.default for name, field in Settings.model_fields.items()}
    assert rows.keys() == defaults.keys()
    said = {name: value.strip().strip("`") for name, value in rows.items()}
    unsaid = {name for name, default in defaults.items() if default in ("", None)}  # the table has words for it
    assert {name: said[name] for name in said.keys() - unsaid} == {
        name: str(default).lower()
        if isinstance(default, bool)
        else f"{default:g}"
        if isinstance(default, float)
        else str(default)
        for name, default in defaults.items()
        if name not in unsaid
    }


def test_every_metric_that_a_page_names_is_counted() -> None:
    known = {PREFIX_OF_METRICS + name + ("_total" if m.kind == "counter" else "") for name, m in CATALOGUE.items()}
    named = {name for page in pages() for name in re.findall(r"`(clueserve_\w+)`", (ROOT / page).read_text("utf-8"))}
    assert named
    assert {re.sub("_(sum|count|bucket)$", "", name) for name in named} <= known


def test_the_readme_fits_one_screen_before_its_details() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("## "))
    assert first <= 45
    screen = "\n".join(lines[:first])
    assert "make serve" in screen
    assert "make test" in screen
    (asked,) = [block for block in blocks("README.md") if block.language == "sh" and block.text.startswith("curl")]
    assert asked.line < first
    assert json.loads(asked.shows or "null")["entities"]


def test_the_bento_holds_the_default_demo_models() -> None:
    listed = yaml.safe_load((ROOT / "bentofile.yaml").read_text(encoding="utf-8"))["models"]
    assert listed == [f"{name}:latest" for name in demo.default_names()]


def test_the_bento_holds_every_file_of_the_service() -> None:
    """The tutorial's bento file, too."""
    own = next(block.text for block in blocks("docs/tutorial.md") if block.title and "bento" in block.title)
    files = {p.relative_to(ROOT).as_posix() for p in (ROOT / "service").rglob("*") if p.is_file()}
    files = {file for file in files if "__pycache__" not in file}
    for text in (own, (ROOT / "bentofile.yaml").read_text(encoding="utf-8")):
        included = pathspec.PathSpec.from_lines("gitwildmatch", yaml.safe_load(text)["include"])
        assert files - set(included.match_files(files)) == set()
