"""Keys at work: rates over two workers, rotation, browsers, pages of other sites, and what is told of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest
from e2e_browser import Tab, chromium
from e2e_keys import ORIGIN, TEXT, Guarded, serving
from e2e_servers import StartServer

pytestmark = pytest.mark.xdist_group("keys")  # one server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, demo_store: Path) -> Iterator[Guarded]:
    with serving(tmp_path_factory.mktemp("keys")) as server:
        yield server


def test_a_rate_holds_over_the_workers_and_is_counted_by_key(guarded: Guarded) -> None:
    start = monotonic()
    answers = [guarded.ask("POST", "/klue-ner", "slow", json={"text": TEXT}) for _ in range(40)]
    most = 4 + 1 * (monotonic() - start) + 1
    admitted = [a for a in answers if a.status_code == 200]
    assert 2 <= len(admitted) <= most
    refused = [a for a in answers if a.status_code == 429]
    assert len(admitted) + len(refused) == 40
    assert {(a.json()["error"]["code"], int(a.headers["retry-after"]) >= 1) for a in refused} == {
        ("rate_limited", True)
    }
    metrics = guarded.ask("GET", "/metrics", "scraper").text
    for outcome, count in (("admitted", len(admitted)), ("rate_limited", len(refused))):
        assert f'clueserve_key_requests_total{{key="slow",outcome="{outcome}"}} {float(count)}' in metrics


def test_keys_are_rotated_without_a_restart(guarded: Guarded) -> None:
    def lasts(key: str, status: int) -> bool:
        """Whether both workers come to say so."""
        return until(lambda: {guarded.ask("GET", "/v1/models", key).status_code for _ in range(8)} == {status})

    old = guarded.keeper.new("old")
    assert lasts(old, 200)
    new = guarded.keeper.new("new")
    assert lasts(new, 200)
    assert lasts(old, 200)
    guarded.keeper.remove("old")
    assert lasts(old, 401)
    assert lasts(new, 200)


def until(true: Callable[[], bool], seconds: float = 10) -> bool:
    end = monotonic() + seconds
    while not (found := true()) and monotonic() < end:
        sleep(0.2)
    return found


def test_a_browser_signs_in_once(guarded: Guarded) -> None:
    with httpx.Client(base_url=guarded.url, trust_env=False, headers={"accept": "text/html"}) as browser:
        asked = browser.get("/")
        assert (asked.status_code, "/v1/session" in asked.text) == (401, True)
        assert browser.post("/v1/session", data={"key": "wrong"}).status_code == 401
        entered = browser.post("/v1/session", data={"key": guarded.key("all")})
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert browser.get("/").status_code == 200
        assert browser.post("/klue-ner", json={"text": TEXT}).status_code == 200
        assert (
            browser.post("/klue-ner", json={"text": TEXT}, headers={"sec-fetch-site": "same-site"}).status_code == 401
        )


def test_the_playground_works_behind_the_form(guarded: Guarded) -> None:
    with chromium() as browser:
        tab = Tab(browser, guarded.url)
        tab.page.goto(guarded.url)
        tab.page.get_by_label("This server wants a key.").fill("wrong")
        tab.page.get_by_role("button", name="Go on").click()
        tab.page.get_by_role("alert").wait_for()
        tab.page.get_by_label("This server wants a key.").fill(guarded.key("ner"))
        tab.page.get_by_role("button", name="Go on").click()
        tab.page.locator("body.loaded").wait_for()
        tab.run()
        assert tab.page.evaluate("document.cookie") == ""
        tab.close("401")  # a browser reports that a page came with it


def test_a_page_of_a_named_site_may_ask_and_no_other(guarded: Guarded) -> None:
    preflight = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    answer = guarded.ask("OPTIONS", "/klue-ner", headers={"origin": ORIGIN, **preflight})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)
    for key, status in (("all", 200), (None, 401)):
        answer = guarded.ask("POST", "/klue-ner", key, json={"text": TEXT}, headers={"origin": ORIGIN})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, ORIGIN)
        assert "X-Queue-Ms" in answer.headers["access-control-expose-headers"]
    for origin in ("https://evil.example", f"{ORIGIN}.evil.example", "null"):
        answer = guarded.ask("POST", "/klue-ner", "all", json={"text": TEXT}, headers={"origin": origin})
        assert "access-control-allow-origin" not in answer.headers


def test_no_key_is_in_any_log_or_metric(guarded: Guarded) -> None:
    wrong = "clue_all_canary0canary0canary0"
    for headers in ({"authorization": f"Bearer {wrong}"}, {"x-api-key": wrong}, {"cookie": f"clueserve_key={wrong}"}):
        guarded.ask("POST", "/klue-ner", json={"text": TEXT}, headers=headers)
    guarded.ask("POST", "/v1/session", data={"key": wrong})
    guarded.ask("POST", "/klue-ner", "all", json={"text": TEXT})
    told = guarded.log + guarded.ask("GET", "/metrics", "scraper").text
    assert "canary" not in told
    for text in guarded.keeper.texts.values():
        assert text.rpartition("_")[2] not in told
    assert "key=all" in guarded.log, "who asked is in the line of a request"


@pytest.mark.parametrize("content", [None, "{", '{"keys": [{"id": "a"}]}'])
def test_a_broken_file_of_keys_ends_the_start(start_server: StartServer, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_text(content)
    server = start_server({"NLU_MODELS": "klue-ner:latest", "NLU_KEYS_FILE": str(path)}, ready=False)
    assert server.exit_code() != 0
    assert f"clueserve cannot start: {path}" in server.log


def test_without_keys_everybody_may_ask_and_no_site_is_named(server: str) -> None:
    answer = httpx.post(f"{server}/klue-ner", json={"text": TEXT}, headers={"origin": ORIGIN}, trust_env=False)
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert httpx.post(f"{server}/v1/session", data={"key": "x"}, trust_env=False).status_code == 404
