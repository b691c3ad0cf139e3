"""Nothing moves under the pointer or the focus: changes wait behind a button."""

from __future__ import annotations

from typing import TYPE_CHECKING

import page_kit
import pytest
import pytest_asyncio
from page_kit import arm, ask, docs, rows, titles, until_true, words
from playwright.async_api import expect

if TYPE_CHECKING:
    from playwright.async_api import Locator
    from playwright.async_api import Page as Tab

pytest_plugins = ["page_fixtures"]
pytestmark = pytest.mark.asyncio(loop_scope="session")

BEFORE = ["Title of a", "Title of b", "Title of c"]
AFTER = ["Title of c", "Title of b", "Title of a"]


@pytest_asyncio.fixture(loop_scope="session")
async def shown(tab: Tab, stage: page_kit.Stage, served: page_kit.Server) -> Tab:
    """A tab with three results that are about to change."""
    await tab.goto(served.url)
    await ask(tab, "ants")
    stage.send("lexical", "ants", *docs("abc"))
    await expect(titles(tab)).to_have_text(BEFORE)
    return tab


async def point_at(place: Locator) -> None:
    """Move the pointer to an element, as a hand does: in more than one step."""
    box = await place.bounding_box()
    assert box
    await place.page.mouse.move(box["x"] + 30, box["y"] + 8)
    await place.page.mouse.move(box["x"] + 34, box["y"] + 12)


async def changed(tab: Tab, stage: page_kit.Stage) -> None:
    """Let the order change, and wait until the page knows."""
    stage.send("dense", "ants", *docs("cb"))
    await expect(arm(tab, "dense")).to_contain_text("streaming")


async def test_changes_wait_under_the_pointer(shown: Tab, stage: page_kit.Stage) -> None:
    """While the pointer is on the list, rows stay where they are; the button lets them go on."""
    await point_at(rows(shown).nth(1))
    places = await rows(shown).evaluate_all("all => all.map((row) => row.getBoundingClientRect().top)")
    await changed(shown, stage)
    await expect(shown.locator("#update")).to_be_visible()
    await expect(titles(shown)).to_have_text(BEFORE)
    after = await rows(shown).evaluate_all("all => all.map((row) => row.getBoundingClientRect().top)")
    assert after == places
    await shown.locator("#update").click()
    await expect(titles(shown)).to_have_text(AFTER)
    await expect(shown.locator("#update")).to_be_hidden()


async def test_after_the_update_the_list_goes_on_by_itself(shown: Tab, stage: page_kit.Stage) -> None:
    """Whoever pressed the button with the pointer has left the list."""
    await point_at(rows(shown).nth(1))
    await changed(shown, stage)
    await shown.locator("#update").click()
    await expect(titles(shown)).to_have_text(AFTER)
    stage.send("graph", "ants", *docs("a"))
    await expect(titles(shown)).to_have_text(["Title of a", "Title of c", "Title of b"])


async def test_leaving_the_list_lets_changes_go_on(shown: Tab, stage: page_kit.Stage) -> None:
    """When the pointer is gone, nobody has to press anything."""
    await point_at(rows(shown).nth(1))
    await changed(shown, stage)
    await expect(shown.locator("#update")).to_be_visible()
    await shown.mouse.move(5, 5)
    await expect(titles(shown)).to_have_text(AFTER)
    await expect(shown.locator("#update")).to_be_hidden()


async def test_a_pointer_that_rests_does_not_point(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Where the list appears under a pointer that is not moved, it is free to change."""
    await tab.goto(served.url)
    await tab.evaluate("""() => {
      let last;
      addEventListener('pointermove', (event) => { last = event; });
      // Some browsers say that the pointer moved when what is under it did.
      window.still = () => document.querySelector('#results li').dispatchEvent(
        new PointerEvent('pointermove', {bubbles: true, screenX: last.screenX, screenY: last.screenY}));
    }""")
    await tab.mouse.move(300, 500)
    await tab.mouse.move(310, 510)
    await ask(tab, "ants")
    stage.send("lexical", "ants", *docs("abc"))
    await expect(titles(tab)).to_have_text(BEFORE)
    await until_true(tab, "document.querySelector('#results').matches(':hover')")
    await tab.evaluate("window.still()")
    stage.send("dense", "ants", *docs("cb"))
    await expect(titles(tab)).to_have_text(AFTER)


async def test_changes_wait_under_the_focus(shown: Tab, stage: page_kit.Stage) -> None:
    """While the focus is in the list, rows stay; u updates, and leaves the focus on its document."""
    await shown.keyboard.press("ArrowDown")
    await expect(rows(shown).nth(0)).to_be_focused()
    await changed(shown, stage)
    await expect(shown.locator("#update")).to_be_visible()
    await expect(titles(shown)).to_have_text(BEFORE)
    await shown.keyboard.press("u")
    await expect(titles(shown)).to_have_text(AFTER)
    await expect(rows(shown).nth(2)).to_be_focused()


async def test_the_button_can_be_reached_with_tab(shown: Tab, stage: page_kit.Stage) -> None:
    """Shift and Tab lead from the list to the button, where the changes still wait."""
    await shown.keyboard.press("ArrowDown")
    await changed(shown, stage)
    await expect(shown.locator("#update")).to_be_visible()
    for _ in range(3):
        await shown.keyboard.press("Shift+Tab")
        if await shown.locator("#update").evaluate("(button) => button === document.activeElement"):
            break
    await expect(shown.locator("#update")).to_be_focused()
    await expect(titles(shown)).to_have_text(BEFORE)
    await shown.keyboard.press("Enter")
    await expect(titles(shown)).to_have_text(AFTER)
    await expect(rows(shown).nth(0)).to_be_focused()


async def test_the_end_waits_too(shown: Tab, stage: page_kit.Stage) -> None:
    """At the end the line says so, and the list still waits for the person who points at it."""
    await point_at(rows(shown).nth(1))
    for name in ("lexical", "dense", "graph"):
        stage.end(name, "ants", *docs("cb"))
    await expect(words(shown)).to_have_text("final")
    await expect(titles(shown)).to_have_text(BEFORE)
    await shown.locator("#update").click()
    await expect(titles(shown)).to_have_text(AFTER)
    await expect(rows(shown).locator(".mark")).to_have_text(["final"] * 3)


async def test_marks_do_not_wait_as_they_move_nothing(shown: Tab, stage: page_kit.Stage) -> None:
    """If the order stays, rows become final under the pointer, without a button."""
    await point_at(rows(shown).nth(1))
    for name in ("lexical", "dense", "graph"):
        stage.end(name, "ants")
    await expect(words(shown)).to_have_text("final")
    await expect(rows(shown).locator(".mark")).to_have_text(["final"] * 3)
    await expect(shown.locator("#update")).to_be_hidden()


async def test_longer_words_do_not_move_the_list(tab: Tab) -> None:
    """On a phone, where a line soon becomes three, the row that has the focus stays where it is."""
    long = "an arm whose name is long"
    stage = page_kit.Stage("lexical", "dense", long, required=(long,))
    for served in page_kit.serving(stage):
        await tab.set_viewport_size({"width": 375, "height": 700})
        await tab.goto(f"{served.url}?q=ants")
        stage.end("lexical", "ants", *docs("abcdefghij"))
        await expect(titles(tab)).to_have_count(10)
        await tab.locator("#q").focus()
        await tab.keyboard.press("ArrowDown")
        place = "document.activeElement.getBoundingClientRect().top"
        height = "document.querySelector('#line').offsetHeight"
        before, low = await tab.evaluate(place), await tab.evaluate(height)
        stage.fail("dense", "ants", OSError())
        await expect(words(tab)).to_contain_text("dense failed")
        stage.fail(long, "ants", ConnectionResetError())
        await expect(words(tab)).to_contain_text("no full answer")
        await expect(tab.locator("#again")).to_be_visible()
        assert await tab.evaluate(height) > low, "or this says nothing"
        assert abs(await tab.evaluate(place) - before) < 1


async def test_typing_lets_go(shown: Tab, stage: page_kit.Stage) -> None:
    """Who types with the pointer left on the list wants to see what comes of it."""
    await point_at(rows(shown).nth(1))
    await ask(shown, "bees")
    stage.send("lexical", "bees", *docs("xy"))
    await expect(titles(shown)).to_have_text(["Title of x", "Title of y"])


async def test_other_results_wait_behind_the_former_ones(shown: Tab, stage: page_kit.Stage) -> None:
    """Who points at the former results keeps them until the button is pressed."""
    await ask(shown, "bees")
    await expect(shown.locator("#results")).to_have_attribute("data-former", "")
    await point_at(rows(shown).nth(1))
    stage.send("lexical", "bees", *docs("xy"))
    await expect(shown.locator("#update")).to_be_visible()
    await expect(titles(shown)).to_have_text(BEFORE)
    await expect(shown.locator("#detail")).to_have_text("2 results so far; below: the results for “ants”")
    await shown.locator("#update").click()
    await expect(titles(shown)).to_have_text(["Title of x", "Title of y"])
