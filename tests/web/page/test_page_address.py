"""The address of the page: searches can be shared, and back and forward lead from one to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import page_kit
import pytest
from page_kit import ask, docs, titles, until, words
from playwright.async_api import expect

if TYPE_CHECKING:
    from playwright.async_api import Browser
    from playwright.async_api import Page as Tab

pytest_plugins = ["page_fixtures"]
pytestmark = pytest.mark.asyncio(loop_scope="session")


def answer(stage: page_kit.Stage, query: str, ids: str) -> None:
    """Let every arm answer a query to its end."""
    for name in ("lexical", "dense", "graph"):
        stage.end(name, query, *docs(ids))


async def test_an_address_can_be_shared(tab: Tab, stage: page_kit.Stage, served: page_kit.Server) -> None:
    """Who opens the address of a search sees that search, with its time."""
    await tab.goto(served.url)
    await ask(tab, "ants & bees?")
    answer(stage, "ants & bees?", "ab")
    await expect(words(tab)).to_have_text("final")
    shared = tab.url
    assert shared == f"{served.url}?q=ants+%26+bees%3F&timeout_ms=10000"
    await tab.goto("about:blank")
    answer(stage, "ants & bees?", "ab")
    await tab.goto(shared.replace("10000", "3333"))
    await expect(titles(tab)).to_have_text(["Title of a", "Title of b"])
    await expect(tab.locator("#q")).to_have_value("ants & bees?")
    await expect(tab.locator("#budget-shown")).to_have_text("3.3 s")
    await expect(tab).to_have_title("ants & bees? · Library")
    assert tab.url.endswith("timeout_ms=3333")


async def test_an_address_may_leave_the_time_to_the_server(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """A missing, senseless or too long time becomes one that the server allows."""
    for given, shown in (("", "10 s"), ("&timeout_ms=soon", "10 s"), ("&timeout_ms=99999999", "10 s")):
        await tab.goto(f"{served.url}?q=ants{given}")
        await expect(tab.locator("#budget-shown")).to_have_text(shown)
        await expect(tab).to_have_url(f"{served.url}?q=ants&timeout_ms=10000")
        await expect(words(tab)).to_have_text("waiting for lexical, dense and graph")
    assert stage.asked["dense", "ants"].count == 3


async def test_arms_and_top_k_are_handed_on(tab: Tab, stage: page_kit.Stage, served: page_kit.Server) -> None:
    """An address may ask for other arms or fewer results; the next search does so too."""
    await tab.goto(f"{served.url}?q=ants&top_k=1&arms=lexical,dense")
    for query in ("ants", "bees"):
        if query != "ants":
            await ask(tab, query)
        stage.end("lexical", query, *docs("ab"))
        stage.end("dense", query, *docs("ab"))
        await expect(words(tab)).to_have_text("final")
        await expect(titles(tab)).to_have_count(1)
    await expect(page_kit.arm(tab, "graph")).to_contain_text("not asked")
    await expect(tab).to_have_url(f"{served.url}?q=bees&timeout_ms=10000&top_k=1&arms=lexical%2Cdense")
    assert stage.asked["graph", "ants"].count == 0


async def test_typing_on_cancels_the_old_search(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """The next letter ends the search before, on the server too, and late words of it are never shown."""
    await tab.goto(served.url)
    await tab.locator("#q").press_sequentially("ant")
    await until(lambda: stage.asked["dense", "ant"].count)
    await tab.locator("#q").press_sequentially("s")
    await until(lambda: stage.asked["dense", "ant"].closed_at)
    await until(lambda: stage.asked["dense", "ants"].count)
    stage.send("lexical", "ant", *docs("x"))
    stage.send("lexical", "ants", *docs("a"))
    await expect(titles(tab)).to_have_text(["Title of a"])
    assert stage.asked["dense", "ants"].closed_at == []


async def test_quick_typing_is_one_search(
    browser: Browser, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Letters that follow each other at once are not searched one by one."""
    context = await browser.new_context()  # whose clock can be stopped without stopping that of all tests
    tab = await context.new_page()
    await tab.goto(served.url)
    await tab.clock.install(time=0)
    await tab.clock.pause_at(1000)
    for text in ("a", "an", "ant", "ants"):
        await tab.locator("#q").fill(text)
        await tab.clock.run_for(100)
    assert not stage.asked
    await tab.clock.run_for(100)
    await until(lambda: stage.asked["dense", "ants"].count)
    assert {query for _, query in stage.asked} == {"ants"}
    await context.close()


async def test_back_and_forward_lead_between_searches(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Each search that was submitted is one step; what was typed on the way to it is none."""
    await tab.goto(served.url)
    for query, ids in (("ants", "ab"), ("bees", "cd")):
        await tab.locator("#q").fill(query[:2])
        await until(lambda query=query: stage.asked["dense", query[:2]].count)  # type: ignore[misc]
        await ask(tab, query)
        answer(stage, query, ids)
        await expect(titles(tab)).to_have_count(2)
        await expect(words(tab)).to_have_text("final")

    await tab.go_back()
    await expect(tab.locator("#q")).to_have_value("ants")
    answer(stage, "ants", "ab")
    await expect(titles(tab)).to_have_text(["Title of a", "Title of b"])
    await expect(tab).to_have_title("ants · Library")

    await tab.go_back()
    await expect(tab.locator("#q")).to_have_value("")
    await expect(titles(tab)).to_have_count(0)
    await expect(tab).to_have_url(served.url)

    await tab.go_forward()
    await tab.go_forward()
    await expect(tab.locator("#q")).to_have_value("bees")
    answer(stage, "bees", "cd")
    await expect(titles(tab)).to_have_text(["Title of c", "Title of d"])


async def test_a_search_that_was_left_standing_is_kept(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Without Enter, a search that ended and was looked at for a moment is a step of its own."""
    await tab.goto(served.url)
    await tab.locator("#q").fill("ants")
    answer(stage, "ants", "ab")
    await expect(words(tab)).to_have_text("final")
    await tab.wait_for_timeout(1200)
    await tab.locator("#q").fill("bees")
    answer(stage, "bees", "cd")
    await expect(titles(tab)).to_have_text(["Title of c", "Title of d"])
    await tab.go_back()
    await expect(tab.locator("#q")).to_have_value("ants")


async def test_back_from_a_result_shows_the_search_again(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """A result is opened in the same tab, and Back leads to where it was found."""
    await tab.goto(served.url)
    await tab.locator("#q").fill("ants")
    for name in ("lexical", "dense", "graph"):
        stage.end(name, "ants", page_kit.doc("a", url=f"{served.url}healthz"))
    await expect(words(tab)).to_have_text("final")
    await tab.locator("#results a").click()
    await expect(tab).to_have_url(f"{served.url}healthz")
    answer(stage, "ants", "ab")
    await tab.go_back()
    await expect(tab.locator("#q")).to_have_value("ants")
    await expect(titles(tab).first).to_have_text("Title of a")
