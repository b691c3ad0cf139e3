"""What is found is text: nothing in it becomes markup, a script or a link that does something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import page_kit
import pytest
from page_kit import ask, rows, titles, words
from playwright.async_api import expect

from rrf_stream import Hit

if TYPE_CHECKING:
    from playwright.async_api import Page as Tab

pytest_plugins = ["page_fixtures"]
pytestmark = pytest.mark.asyncio(loop_scope="session")

SCRIPT = "<script>window.harmed = true</script>"
IMAGE = '<img src=x onerror="window.harmed = true">'
HOSTILE: list[dict[str, Any]] = [
    {"title": SCRIPT, "text": SCRIPT, "url": "javascript:window.harmed=true"},
    {"title": IMAGE, "text": IMAGE, "url": " JaVaScRiPt:window.harmed=true"},
    {
        "title": "</li></ol><h1>taken over</h1>",
        "text": "<style>*{display:none}</style>",
        "url": "data:text/html,hi",
    },
    {"title": "\u202eright to left\u202e \u2067 unclosed", "text": "שלום \u202e abc", "url": "vbscript:x"},
    {"title": "W" * 3000, "text": "wide" * 2500, "url": "https://example.org/" + "path/" * 400},
    {"title": "nul \0 and \ud800 alone", "text": "\x1b[31m\x07", "url": "//example.org/x"},
    {"title": {"toString": 1}, "text": ["<b>", None], "url": {"href": "https://example.org"}},
    {"title": "${7*7} {{7*7}} &lt;b&gt;", "text": "\U0001d54f" * 700, "url": "https://user:pw@example.org/"},
    {"title": "__proto__", "__proto__": {"x": 1}, "constructor": 1, "url": "file:///etc/passwd"},
]


async def test_hostile_results_are_shown_as_text(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Markup, scripts, addresses that act, marks of direction and long words are text, and do nothing."""
    await tab.set_viewport_size({"width": 375, "height": 812})
    await tab.goto(served.url)
    await ask(tab, SCRIPT)
    hits = [Hit(number, item=item) for number, item in enumerate(HOSTILE)]
    hits.append(Hit(IMAGE, item=None))
    for name in ("lexical", "dense", "graph"):
        stage.end(name, SCRIPT, *hits)
    await expect(words(tab)).to_have_text("final")
    await expect(rows(tab)).to_have_count(10)
    shown = await titles(tab).all_text_contents()
    for place, item in enumerate(HOSTILE[:4]):
        assert shown[place] == item["title"]
    assert shown[4] == "W" * 300 + "…"
    assert shown[6] == '{"toString":1}'
    assert shown[9] == IMAGE
    links = await tab.locator("#results a").evaluate_all("all => all.map((a) => a.protocol)")
    assert links == ["https:", "https:"]
    made = await tab.locator("#results").evaluate(
        "(list) => [...new Set([...list.querySelectorAll('*')].map((one) => one.localName))].sort()"
    )
    assert made == ["a", "div", "h3", "li", "p", "span", "ul"]
    assert await tab.evaluate("window.harmed") is None
    assert await tab.locator("h1").count() == 1
    assert await tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    places = await rows(tab).evaluate_all("all => all.map((row) => row.getBoundingClientRect().height)")
    assert max(places) < 300, "no row takes the page for itself"


async def test_hostile_names_are_shown_as_text(tab: Tab) -> None:
    """The names of arms, the title and the note of a server are text, too, and long ones find room."""
    stage = page_kit.Stage(SCRIPT, "x" * 200)
    for served in page_kit.serving(stage, title=IMAGE, note=SCRIPT):
        await tab.set_viewport_size({"width": 375, "height": 812})
        await tab.goto(f"{served.url}?q=%3Cimg%20src%3Dx%20onerror%3Dwindow.harmed%3Dtrue%3E")
        query = "<img src=x onerror=window.harmed=true>"
        await expect(tab.locator("h1")).to_have_text(IMAGE)
        await expect(tab.locator("#note")).to_have_text(SCRIPT)
        stage.send(SCRIPT, query, Hit("a"))
        await expect(rows(tab).locator(".ranks li")).to_have_text([f"{SCRIPT} #1"])
        await expect(tab).to_have_title(f"{query} · {IMAGE}")
        assert await tab.evaluate("window.harmed") is None
        assert await tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_a_hostile_error_is_shown_as_text(tab: Tab) -> None:
    """What an arm's error says is text."""
    stage = page_kit.Stage()
    for served in page_kit.serving(stage, errors="full"):
        await tab.goto(f"{served.url}?q=ants")
        stage.fail("dense", "ants", OSError(IMAGE))
        stage.end("lexical", "ants", Hit("a"))
        stage.end("graph", "ants")
        await expect(words(tab)).to_contain_text("onerror")
        assert await tab.locator("img[src=x]").count() == 0
        assert await tab.evaluate("window.harmed") is None


FORBIDDEN = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|\beval\(|new Function|setHTML"
)


@pytest.mark.parametrize("path", sorted(page_kit.STATIC.glob("*.js")), ids=lambda path: path.name)
async def test_no_module_can_make_markup_of_text(path: Any) -> None:
    """The source of the page has none of the ways to turn text into elements or code."""
    source = path.read_text("utf-8")
    assert re.findall(FORBIDDEN, source) == []
    assert source.startswith("// @ts-check\n/**"), "it says what it is for, and its types are checked"
    assert len(source.splitlines()) <= 300


async def test_the_page_brings_all_that_it_needs() -> None:
    """No script or style is inside of the markup, and nothing is loaded from elsewhere."""
    markup = (page_kit.STATIC / "index.html").read_text("utf-8")
    assert (
        re.findall(r"<style|\bstyle=|\bon\w+=|<script(?! type=\"module\" src=\"static/page.js\")", markup)
        == []
    )
    for path in page_kit.STATIC.iterdir():
        text = path.read_text("utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert re.findall(r"https?://|@import|url\(", text) == [], path.name
