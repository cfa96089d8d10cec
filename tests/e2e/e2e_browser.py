"""A tab of Debian's Chromium that notes what a page must not do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from playwright.sync_api import Browser, Page, Request, Route, sync_playwright

ANSWER = "#result .view"
PROBLEM = "#result .trouble"
TEXTS = {"text", "text_pair", "question", "context"}
PHONE = {"width": 390, "height": 844}


@contextmanager
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path is not None, "there is no chromium: run `make system`, or install what requirements/debian.txt lists"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Tab:
    """The playground in a browser context of its own."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.noise: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", lambda message: self.noise.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.noise.append(str(error)))
        self.page.on("request", self._note)

    def _note(self, request: Request) -> None:
        self.hosts.add(urlsplit(request.url).netloc)

    def open(self, fragment: str = "") -> None:
        """Load the page anew, with its models."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/#{fragment}")
        self.page.locator("body.loaded").wait_for()

    def run(self) -> None:
        """Press the button and wait for an answer."""
        self.page.get_by_role("button", name="Run").click()
        self.page.locator(ANSWER).wait_for()

    def stub(self, path: str, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Answer a path in the server's place."""

        def answer(route: Route) -> None:
            route.fulfill(status=status, json=body, headers=headers)

        self.page.route(f"{self.url}{path}", answer)

    def real(self, path: str) -> None:
        """Let the server answer a path itself again."""
        self.page.unroute(f"{self.url}{path}")

    @property
    def item(self) -> dict[str, Any]:
        """What was asked, as the address has it."""
        fragment = urlsplit(self.page.url).fragment.partition("?")[2]
        return {key: value if key in TEXTS else json.loads(value) for key, value in parse_qsl(fragment)}

    def texts(self, selector: str) -> list[str]:
        return [text or "" for text in self.page.locator(selector).all_text_contents()]

    def marks(self, root: str = ANSWER) -> list[str]:
        """The texts of the spans that are marked, in their order in the answer; pieces of one span are joined."""
        pieces: dict[int, str] = {}
        for mark in self.page.locator(f"{root} mark[data-span]").all():
            span = int(mark.get_attribute("data-span") or -1)
            pieces[span] = pieces.get(span, "") + (mark.text_content() or "")
        return [pieces[span] for span in sorted(pieces)]

    def bars(self, root: str = ANSWER) -> list[tuple[str, str]]:
        """Names and numbers of bars."""
        names, numbers = self.texts(f"{root} .bar .name bdi"), self.texts(f"{root} .bar .number")
        return list(zip(names, numbers, strict=True))

    def rows(self, root: str = ANSWER) -> list[list[str]]:
        """The cells of a table's body."""
        return [row.locator("td").all_text_contents() for row in self.page.locator(f"{root} tbody tr").all()]

    def width(self) -> int:
        found: int = self.page.evaluate("document.documentElement.scrollWidth")
        return found

    def close(self, *expected: str) -> None:
        """End it. It asked this server alone, and complained of nothing but what was `expected`."""
        self.context.close()
        strange = [line for line in self.noise if not any(part in line for part in expected)]
        assert strange == []
        assert self.hosts == {urlsplit(self.url).netloc, ""} or self.hosts == {urlsplit(self.url).netloc}


def percent(score: float) -> str:
    return f"{100 * score:.1f} %"
