"""The fixtures of the tests of the page; a plug-in, as the tests have one conftest only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import page_kit
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, async_playwright, expect
from playwright.async_api import Page as Tab

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from playwright.async_api import ConsoleMessage, Dialog


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The one browser of all tests."""
    path = page_kit.chromium()
    expect.set_options(timeout=page_kit.PATIENCE * 1000)
    async with async_playwright() as playwright:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        await browser.close()


@pytest.fixture(scope="module")
def house() -> Iterator[tuple[page_kit.Stage, page_kit.Server]]:
    """A stage and its server, for the tests that have no wishes of their own: to end one takes time."""
    stage = page_kit.Stage()
    for served in page_kit.serving(stage, title="Library"):
        yield stage, served


@pytest.fixture
def stage(house: tuple[page_kit.Stage, page_kit.Server]) -> page_kit.Stage:
    """Three arms that the test leads, and that nobody asked yet."""
    house[0].forget()
    return house[0]


@pytest.fixture
def served(house: tuple[page_kit.Stage, page_kit.Server]) -> page_kit.Server:
    """A server of the stage."""
    return house[1]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def visitor(browser: Browser) -> AsyncIterator[BrowserContext]:
    """The one person who opens tabs; the page leaves nothing with anybody, and a new person takes time.

    So does motion, where no graphics card helps: only tests that are about it have any.
    """
    context = await browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(page_kit.PATIENCE * 1000)
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def tab(visitor: BrowserContext) -> AsyncIterator[Tab]:
    """An empty tab; whatever the page complains of fails the test."""
    complaints: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        # That a request failed is what some tests are about; the browser tells it by itself.
        if message.type in {"error", "warning"} and not message.text.startswith("Failed to load resource"):
            complaints.append(message.text)

    async def refuse(dialog: Dialog) -> None:
        complaints.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    tab = await visitor.new_page()
    tab.on("console", complain)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", refuse)
    yield tab
    await tab.close()
    assert complaints == []
