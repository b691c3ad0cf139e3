"""The page without a mouse: keys, and the order in which Tab goes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import page_kit
import pytest
from page_kit import ask, doc, docs, rows, titles, until, words
from playwright.async_api import expect

if TYPE_CHECKING:
    from playwright.async_api import Page as Tab

pytest_plugins = ["page_fixtures"]
pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_field_has_the_focus_at_the_beginning(tab: Tab, served: page_kit.Server) -> None:
    """Who opens the page types at once; a slash brings the focus back, and is no letter of the query."""
    await tab.goto(served.url)
    await expect(tab.locator("#q")).to_be_focused()
    await tab.keyboard.press("Tab")
    await expect(tab.locator("#q")).not_to_be_focused()
    await tab.keyboard.press("/")
    await expect(tab.locator("#q")).to_be_focused()
    await expect(tab.locator("#q")).to_have_value("")
    await tab.keyboard.type("a/b")
    await expect(tab.locator("#q")).to_have_value("a/b")


async def test_arrows_move_between_the_results(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Down leads from the field through the rows, by their links where they have one, and up leads back."""
    await tab.goto(served.url)
    await ask(tab, "ants")
    stage.end("lexical", "ants", doc("a"), doc("b", url="https://example.org/b"), doc("c"))
    await expect(titles(tab)).to_have_count(3)
    await tab.keyboard.press("ArrowDown")
    await expect(rows(tab).nth(0)).to_be_focused()
    await tab.keyboard.press("ArrowDown")
    await expect(rows(tab).nth(1).locator("a")).to_be_focused()
    await tab.keyboard.press("End")
    await expect(rows(tab).nth(2)).to_be_focused()
    await tab.keyboard.press("ArrowDown")
    await expect(rows(tab).nth(2)).to_be_focused()
    await tab.keyboard.press("Home")
    await expect(rows(tab).nth(0)).to_be_focused()
    await tab.keyboard.press("ArrowUp")
    await expect(tab.locator("#q")).to_be_focused()


async def test_the_skip_link_leads_to_the_results_and_back(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """It moves the focus and nothing else: the answer stays, and nothing is asked again, also by Back."""
    await tab.goto(served.url)
    await ask(tab, "ants")
    stage.send("lexical", "ants", *docs("ab"))
    await expect(titles(tab)).to_have_count(2)
    await tab.locator(".skip").focus()
    await tab.keyboard.press("Enter")
    await expect(tab.locator("#results")).to_be_focused()
    await expect(tab).to_have_url(re.compile(r"\?q=ants&timeout_ms=10000#results$"))
    await tab.go_back()
    await expect(tab).to_have_url(re.compile("timeout_ms=10000$"))
    await tab.go_forward()
    for name in ("lexical", "dense", "graph"):
        stage.end(name, "ants")
    await expect(words(tab)).to_have_text("final")
    await expect(titles(tab)).to_have_text(["Title of a", "Title of b"])
    assert stage.asked["dense", "ants"].count == 1


async def test_enter_searches_at_once(tab: Tab, stage: page_kit.Stage, served: page_kit.Server) -> None:
    """Enter asks for what is in the field, once, though the pause after typing would do so too."""
    await tab.goto(served.url)
    await ask(tab, "ants")
    await until(lambda: stage.asked["dense", "ants"].count)
    for name in ("lexical", "dense", "graph"):
        stage.end(name, "ants", *docs("a"))
    await expect(words(tab)).to_have_text("final")
    assert stage.asked["dense", "ants"].count == 1


async def test_escape_stops_then_clears(tab: Tab, stage: page_kit.Stage, served: page_kit.Server) -> None:
    """Escape stops a search and keeps what arrived; the next one clears the field and the list."""
    await tab.goto(served.url)
    await ask(tab, "ants")
    stage.send("lexical", "ants", *docs("ab"))
    await expect(titles(tab)).to_have_count(2)
    await tab.keyboard.press("Escape")
    await expect(words(tab)).to_have_text("stopped, none of 2 is final yet")
    await until(lambda: stage.asked["dense", "ants"].closed_at)
    await expect(titles(tab)).to_have_count(2)
    await expect(tab.locator("#q")).to_have_value("ants")
    await expect(tab.locator("#again")).to_be_visible()
    await expect(page_kit.arm(tab, "dense")).to_contain_text("stopped")
    await tab.keyboard.press("Escape")
    await expect(tab.locator("#q")).to_have_value("")
    await expect(tab.locator("#q")).to_be_focused()
    await expect(titles(tab)).to_have_count(0)
    await expect(words(tab)).to_have_text("type to search")


async def test_escape_in_the_list_leads_to_the_field(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """When no search runs, Escape leaves the list and takes nothing away."""
    await tab.goto(served.url)
    await ask(tab, "ants")
    for name in ("lexical", "dense", "graph"):
        stage.end(name, "ants", *docs("ab"))
    await expect(words(tab)).to_have_text("final")
    await tab.keyboard.press("ArrowDown")
    await expect(rows(tab).nth(0)).to_be_focused()
    await tab.keyboard.press("Escape")
    await expect(tab.locator("#q")).to_be_focused()
    await expect(titles(tab)).to_have_count(2)


async def test_tab_reaches_everything(tab: Tab, stage: page_kit.Stage, served: page_kit.Server) -> None:
    """Field, button, search, slider and links follow each other as they are seen, each with a name."""
    await tab.goto(served.url)
    await ask(tab, "ants")
    for name in ("lexical", "dense", "graph"):
        stage.end(name, "ants", doc("a", url="https://example.org/a"), doc("b", url="http://example.org/b"))
    await expect(words(tab)).to_have_text("final")
    found = []
    for _ in range(5):
        await tab.keyboard.press("Tab")
        found.append(
            await tab.evaluate(
                "(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()"
            )
        )
    assert found == ["Clear", "Search", "Time budget", "Title of a", "Title of b"]
    ring = await tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"


async def test_the_stop_button_does_what_it_says(tab: Tab, served: page_kit.Server) -> None:
    """The button in the field stops a search that runs, and clears the field after that."""
    await tab.goto(served.url)
    await expect(tab.locator("#stop")).to_be_hidden()
    await ask(tab, "ants")
    await expect(tab.locator("#stop")).to_have_text("Stop")
    await tab.locator("#stop").click()
    await expect(words(tab)).to_have_text("stopped before anything arrived")
    await tab.locator("#stop").click()
    await expect(tab.locator("#q")).to_have_value("")
    await expect(tab.locator("#stop")).to_be_hidden()


async def test_the_slider_sets_the_time(tab: Tab, served: page_kit.Server) -> None:
    """Keys on the slider choose a time, which is told in words, written into the address and obeyed."""
    await tab.goto(f"{served.url}?q=ants&timeout_ms=1200")
    slider = tab.locator("#budget")
    await expect(slider).to_have_attribute("aria-valuetext", "1.2 s")
    await slider.focus()
    await tab.keyboard.press("ArrowLeft")
    await tab.keyboard.press("ArrowLeft")
    await expect(slider).to_have_attribute("aria-valuetext", "800 ms")
    await expect(tab.locator("#budget-shown")).to_have_text("800 ms")
    await expect(tab).to_have_url(f"{served.url}?q=ants&timeout_ms=800")
    cut_off = re.compile("nothing found; lexical, dense and graph were cut off after [0-9.]+ m?s")
    await expect(words(tab)).to_have_text(cut_off)
    await tab.keyboard.press("Home")
    await expect(slider).to_have_attribute("aria-valuetext", "50 ms")
    await tab.keyboard.press("End")
    await expect(slider).to_have_attribute("aria-valuetext", "10 s")


async def test_the_page_has_landmarks_and_names(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """A screen reader finds a search, headings in order, lists, and a name for each control."""
    await tab.goto(served.url)
    await ask(tab, "ants")
    stage.send("lexical", "ants", *docs("ab"))
    await expect(titles(tab)).to_have_count(2)
    tree = await tab.locator("body").aria_snapshot()
    for line in (
        "- banner:",
        "- main:",
        "- search:",
        "- contentinfo:",
        '- heading "Library" [level=1]',
        '- searchbox "Search for"',
        '- slider "Time budget"',
        '- button "Search"',
        '- region "Arms":',
        '- region "Results":',
        '- list "Results":',
        '- heading "Title of a" [level=3]',
        '- list "ranked by":',
        "- status",
    ):
        assert line in tree, f"{line} not in\n{tree}"
