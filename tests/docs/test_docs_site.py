"""The site builds without a warning and asks no other host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from docblocks import ROOT

# What a browser fetches by itself, by tag.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
# Links of a page to its neighbours, which nobody follows unasked.
NAVIGATION = {"next", "prev", "canonical"}


class Fetches(HTMLParser):
    """Addresses that a page fetches when it is opened, and what it links to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        address = found.get(FETCHED.get(tag, ""))
        if address is not None and found.get("rel") not in NAVIGATION:
            self.fetched.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_every_page_of_docs_and_the_model_cards_are_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT / "docs").with_suffix("")
        place = path.parent if path.name == "index" else path
        assert (site / place / "index.html").is_file(), page
    assert (site / "demo/heads/klue-ner/index.html").is_file()
    assert (site / "CHANGELOG/index.html").is_file()
    assert not list(site.rglob("*.py"))


def test_no_page_is_listed_twice() -> None:
    listed = re.findall(
        r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(listed) > 20
    assert sorted(listed) == sorted(set(listed))


def test_pages_fetch_nothing_from_other_hosts(site: Path) -> None:
    strange = {(page.name, a) for page in pages(site) for a in Fetches(page).fetched if re.match(r"(\w+:)?//", a)}
    assert strange == set()


def test_styles_fetch_nothing_from_other_hosts(site: Path) -> None:
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    styles += [text for page in pages(site) for text in re.findall(r"<style>(.*?)</style>", page.read_text("utf-8"))]
    assert any(styles)
    fetched = [a for text in styles for a in re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", text)]
    assert [a for a in fetched if not a.startswith(("data:", "#", "..", "assets"))] == []


def test_no_page_has_a_drawing_whose_library_would_be_fetched(site: Path) -> None:
    """The theme's script loads mermaid from another host when a page has such a block, and stars when it has a repo."""
    for page in pages(site):
        text = page.read_text(encoding="utf-8")
        assert 'class="mermaid"' not in text
        assert 'data-md-component="source"' not in text


def test_the_reference_shows_what_an_engineer_extends(site: Path) -> None:
    reference = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").rglob("*.html"))
    for name in ("service.tasks.base.Head", "service.bundle.Manifest", "exporters.export.export", "suites.load"):
        assert f'id="{name}"' in reference, name
