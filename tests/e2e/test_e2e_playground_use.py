"""The playground in use: keys, links, spans chosen by hand, nested spans, hostile text, and what may go wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from e2e_browser import ANSWER, PROBLEM, Tab, chromium
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.xdist_group("playground")

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script> &lt; {{7*7}} \u202eabc 😀'
BUSY = "Failed to load resource: the server responded with a status of"  # Chromium's own note of any 4xx and 5xx


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def tab(browser: Browser, server: str) -> Iterator[Tab]:
    tab = Tab(browser, server)
    yield tab
    tab.close(BUSY, "net::ERR_FAILED")


def entry(client: httpx.Client, name: str, **facts: Any) -> dict[str, Any]:
    (found,) = (model for model in client.get("/v1/models").json()["models"] if model["name"] == name)
    return found | facts


def test_ctrl_enter_runs_from_anywhere_and_slash_searches(tab: Tab) -> None:
    tab.open("klue-ynat")
    tab.page.get_by_label("Text", exact=True).fill("코스피 2% 상승")
    tab.page.keyboard.press("Control+Enter")
    tab.page.locator(ANSWER).wait_for()
    assert tab.item["text"] == "코스피 2% 상승"
    tab.page.get_by_role("button", name="Copy link").focus()
    tab.page.keyboard.press("/")
    expect(tab.page.get_by_role("searchbox")).to_be_focused()
    tab.page.keyboard.type("korean question")
    assert tab.texts("#list .model") == ["klue-mrc"]
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_role("heading", name="klue-mrc")).to_be_visible()
    expect(tab.page.get_by_label("Question", exact=True)).not_to_be_empty()
    tab.page.get_by_role("searchbox").fill("no such model")
    assert "No model matches" in tab.texts("#list")[0]


def test_models_stand_by_task_and_then_by_language(tab: Tab) -> None:
    tab.open()
    groups = {
        section.locator("h3").text_content(): section.locator(".language").all_text_contents()
        for section in tab.page.locator("#list section").all()
    }
    assert list(groups)[:4] == ["Text classification", "Text pairs", "Relation of two spans", "Entities"]
    assert all(languages == sorted(languages) for languages in groups.values())


def test_a_link_carries_model_and_text_and_is_answered_at_once(tab: Tab) -> None:
    tab.open(f"klue-ner?text={quote('서울에서 만나요 & 100%')}&threshold=0.2")
    tab.page.locator(ANSWER).wait_for()
    assert tab.item == {"text": "서울에서 만나요 & 100%", "threshold": 0.2, "offset_unit": "utf16"}
    expect(tab.page.get_by_label("Least score")).to_have_value("0.2")
    expect(tab.page.get_by_role("link", name="klue-ner")).to_have_attribute("aria-current", "page")


@pytest.mark.parametrize("fragment", ["no-such-model", "klue-ner?threshold=%7B", "%E0%A4%A"])
def test_a_link_that_leads_nowhere_shows_an_example(tab: Tab, fragment: str) -> None:
    tab.open(fragment)
    expect(tab.page.get_by_label("Text", exact=True)).not_to_be_empty()
    tab.run()


def test_spans_are_chosen_by_selecting_text_and_move_with_it(tab: Tab) -> None:
    tab.open("klue-re")
    box = tab.page.get_by_label("Text", exact=True)
    box.fill("😀 이순신은 조선의 장군이다.")
    assert tab.texts(".chosen") == ["not chosen", "not chosen"], "nothing is left of the example's spans"
    tab.page.get_by_role("button", name="Run").click()
    expect(tab.page.locator(".span-row[data-path=subject] .problem")).to_be_visible()
    for role, left in (("subject", 3), ("object", 8)):
        box.press("Control+Home")
        for _ in range(left - 1):  # one key passes the emoji, which counts two
            box.press("ArrowRight")
        for _ in range({"subject": 3, "object": 2}[role]):
            box.press("Shift+ArrowRight")
        tab.page.get_by_role("button", name=f"Set {role}").press("Enter")
    assert tab.texts(".chosen") == ["이순신", "조선"]
    box.press("Control+Home")
    tab.page.keyboard.insert_text("아, ")
    assert tab.texts(".chosen") == ["이순신", "조선"]
    tab.run()
    assert tab.item["subject"] == {"start": 6, "end": 9}
    assert tab.marks() == ["이순신", "조선"]


def test_a_form_and_its_json_are_two_views_of_one_item(tab: Tab) -> None:
    tab.open("klue-dp")
    tab.page.get_by_role("button", name="Words").click()
    assert [box.input_value() for box in tab.page.get_by_label("Word", exact=True).all()][:2] == ["나는", "어제"]
    tab.page.get_by_role("button", name="JSON").click()
    item = json.loads(tab.page.get_by_label("Item").input_value())
    assert item == {"words": ["나는", "어제", "도서관에서", "책을", "빌렸다."], "offset_unit": "utf16"}
    tab.page.get_by_label("Item").fill("{")
    tab.page.get_by_role("button", name="Run").click()
    expect(tab.page.locator(PROBLEM)).to_contain_text("not JSON yet")
    expect(tab.page.get_by_label("Item")).to_have_attribute("aria-invalid", "true")
    tab.page.get_by_label("Item").fill('{"words": ["새", "책을", "샀다."], "offset_unit": "byte"}')
    tab.run()
    assert tab.texts(".arcs .word") == ["새", "책을", "샀다."]


def test_rows_are_added_and_removed(tab: Tab) -> None:
    tab.open("klue-wos")
    tab.page.get_by_role("button", name="Add a turn").click()
    tab.page.get_by_role("button", name="Add a turn").click()
    boxes = tab.page.get_by_label("What is said").all()
    boxes[1].fill("몇 분이신가요?")
    boxes[2].fill("두 명입니다.")
    tab.run()
    assert [turn["role"] for turn in tab.item["turns"]] == ["user", "sys", "user"]
    tab.page.get_by_role("button", name="Remove").nth(1).click()
    tab.run()
    assert [turn["text"] for turn in tab.item["turns"]][1:] == ["두 명입니다."]


def test_a_document_may_be_several_notes(tab: Tab) -> None:
    tab.open("pubmedqa")
    tab.page.get_by_role("button", name="Notes").click()
    tab.page.get_by_role("button", name="Add a note").click()
    tab.page.get_by_label("Note", exact=True).last.fill("No falls since.")
    tab.run()
    assert tab.item["notes"][1:] == [{"text": "No falls since."}]
    assert tab.texts(".windows small") == [
        f"Window 1 · note 1, 0–{len(tab.item['notes'][0]['text'])}",
        "Window 2 · note 2, 0–15",
    ]


def test_spans_within_and_across_others_are_marked_whole(tab: Tab, client: httpx.Client) -> None:
    text = "😀患者左肺上叶感染伴胸膜炎"
    spans = [("disease", 4, 10), ("body", 4, 6), ("body", 4, 8), ("symptom", 8, 13)]  # the last crosses the first
    found = [{"type": t, "text": "", "start": a, "end": b, "score": 0.9} for t, a, b in spans]
    tab.stub("/v1/models", {"models": [entry(client, "cmedqaner-gp", example={"text": text})]})
    tab.stub("/cmedqaner-gp", {"entities": found, "truncated": True, "tokens": 14})
    tab.open("cmedqaner-gp")
    tab.run()
    assert tab.marks() == ["左肺上叶感染", "左肺", "左肺上叶", "感染伴胸膜"]
    assert tab.texts(f"{ANSWER} mark mark mark") == ["左肺"]
    assert len(tab.page.locator(f'{ANSWER} mark[data-span="3"]').all()) == 2, "in two pieces"
    assert tab.texts(f"{ANSWER} .reading") == [text]
    expect(tab.page.locator("#result")).to_contain_text("was not read")


def test_hostile_text_stays_text(tab: Tab, client: httpx.Client) -> None:
    labels = {
        "labels": [f"B-{HOSTILE}"],
        "label_names": {HOSTILE: HOSTILE},
        "suite": HOSTILE,
        "example": {"text": HOSTILE},
    }
    span = {"type": HOSTILE, "text": HOSTILE, "start": 0, "end": 20, "score": 0.5}
    tab.stub("/v1/models", {"models": [entry(client, "klue-ner", **labels)]})
    tab.stub("/klue-ner", {"entities": [span], "tags": [HOSTILE], "truncated": False, "tokens": 3})
    tab.open("klue-ner")
    tab.run()
    assert tab.texts(f"{ANSWER} .reading") == [HOSTILE]
    assert tab.rows()[0][:2] == [HOSTILE, HOSTILE]
    assert tab.page.locator("main img, main script").count() == 0
    assert tab.page.title() == "klue-ner · clueserve"


@pytest.mark.parametrize(
    ("name", "label", "field", "message"),
    [("klue-ner", "Text", "text", "the text is empty"), ("klue-mrc", "Context", "context", "the text is empty")],
)
def test_a_refused_item_says_why_and_where(tab: Tab, name: str, label: str, field: str, message: str) -> None:
    tab.open(name)
    box = tab.page.get_by_label(label, exact=True)
    box.fill("  ")
    tab.page.get_by_role("button", name="Run").click()
    expect(tab.page.get_by_role("alert")).to_contain_text(message)
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(box).to_be_focused()
    expect(tab.page.locator(f".field:has([data-path='{field}']) .problem")).to_have_text(message)
    box.press("a")
    expect(box).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize(
    ("status", "code", "title"),
    [
        (429, "overloaded", "busy"),
        (503, "not_ready", "not ready yet"),
        (500, "internal", "failed"),
        (504, "deadline_exceeded", "ran out"),
    ],
)
def test_trouble_of_the_server_is_told_and_may_pass(tab: Tab, status: int, code: str, title: str) -> None:
    tab.open("klue-ner")
    error = {"error": {"code": code, "message": "because"}}
    tab.stub("/klue-ner", error, status, {"Retry-After": "1"} if status in (429, 503) else None)
    tab.page.get_by_role("button", name="Run").click()
    expect(tab.page.get_by_role("alert")).to_contain_text(title)
    again = tab.page.get_by_role("button", name="Try again")
    if status in (429, 503):
        expect(again).to_have_text("Try again in 1 s")
        expect(again).to_be_disabled()
    tab.real("/klue-ner")
    again.click()
    tab.page.locator(ANSWER).wait_for()


def test_a_server_that_is_away_is_told_and_the_text_is_kept(tab: Tab) -> None:
    tab.page.route("**/v1/models", lambda route: route.abort())
    tab.page.goto(tab.url)
    expect(tab.page.get_by_role("alert")).to_contain_text("could not be reached")
    tab.page.unroute("**/v1/models")
    tab.page.get_by_role("button", name="Try again").click()
    tab.page.locator("body.loaded").wait_for()
    box = tab.page.locator("#form textarea").first
    box.fill("남는 글")
    tab.page.route(f"{tab.url}/*", lambda route: route.abort())
    tab.page.get_by_role("button", name="Run").click()
    expect(tab.page.get_by_role("alert")).to_contain_text("could not be reached")
    expect(box).to_have_value("남는 글")


def test_a_model_that_is_loading_is_said_to_be_until_it_is_ready(tab: Tab, client: httpx.Client) -> None:
    tab.stub("/v1/models", {"models": [entry(client, "klue-ner", ready=False)]})
    tab.open()
    assert tab.texts("#list .waiting") == ["loading"]
    tab.real("/v1/models")
    expect(tab.page.locator("#list .waiting")).to_have_count(0, timeout=20_000)


def test_every_input_and_button_has_a_name(tab: Tab, client: httpx.Client) -> None:
    for name in ("klue-ner", "klue-re", "klue-wos", "klue-mrc"):
        tab.open(name)
        for control in tab.page.locator("input, textarea, select, button").all():
            named = "e => e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim()"
            assert control.evaluate(named), control.evaluate("e => e.outerHTML")
