"""What goes wrong is told in words, what was shown stays, and nothing is searched again by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import page_kit
import pytest
from page_kit import arm, ask, docs, titles, until, words
from playwright.async_api import expect

from rrf_stream.web import Limits, create_app

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import BrowserContext, Route
    from playwright.async_api import Page as Tab

pytest_plugins = ["page_fixtures"]
pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(searches_per_client=1), "too many searches at once, try again in "),
        (Limits(searches=1), "the server is busy, try again in "),
    ],
    ids=["429", "503"],
)
async def test_a_full_server_says_when_to_try_again(
    tab: Tab, visitor: BrowserContext, limits: Limits, said: str
) -> None:
    """Where there is no room, the line says so and when there will be, and the button searches again."""
    stage = page_kit.Stage()
    for served in page_kit.serving(stage, limits=limits):
        other = await visitor.new_page()
        await other.goto(f"{served.url}?q=bees")
        await until(lambda: stage.asked["dense", "bees"].count)
        await tab.goto(served.url)
        await ask(tab, "ants")
        await expect(words(tab)).to_contain_text(said)
        await expect(tab.locator("#detail")).to_contain_text("under way, as many as may")
        await expect(arm(tab, "dense")).to_contain_text("ready")
        await expect(tab.get_by_role("status")).to_contain_text(said)
        await other.close()
        await until(lambda: stage.asked["dense", "bees"].closed_at)
        assert stage.asked["dense", "ants"].count == 0
        await tab.get_by_role("button", name="Search again").click()
        stage.send("lexical", "ants", *docs("a"))
        await expect(titles(tab)).to_have_text(["Title of a"])
        await expect(tab.locator("#again")).to_be_hidden()


async def test_a_lost_connection_is_told_and_nothing_else(tab: Tab) -> None:
    """When the server is gone, its results stay, and the search starts again only when it is told to."""
    stage = page_kit.Stage()
    lost = page_kit.Server(create_app(stage.opened))
    try:
        await tab.goto(lost.url)
        await ask(tab, "ants")
        stage.send("lexical", "ants", *docs("ab"))
        await expect(titles(tab)).to_have_count(2)
        requests: list[str] = []
        tab.on("request", lambda request: requests.append(request.url))
        lost.break_connections()
        await expect(words(tab)).to_have_text("the connection was lost")
        detail = "nothing is searched again by itself; what is shown stays as it was"
        await expect(tab.locator("#detail")).to_have_text(detail)
        await expect(titles(tab)).to_have_count(2)
        await expect(arm(tab, "dense")).to_contain_text("unknown")
        await until(lambda: stage.asked["dense", "ants"].closed_at)
        await tab.wait_for_timeout(300)
        assert requests == []
        await tab.locator("#again").click()
        await until(lambda: stage.asked["dense", "ants"].count == 2)
        assert len(requests) == 1
    finally:
        lost.stop()


async def test_a_server_that_is_gone_is_told(tab: Tab) -> None:
    """Who searches where nobody answers reads that the connection was lost."""
    gone = page_kit.Server(create_app(page_kit.Stage().opened))
    await tab.goto(gone.url)
    await expect(words(tab)).to_have_text("type to search")
    gone.stop()
    await ask(tab, "ants")
    await expect(words(tab)).to_have_text("the connection was lost")
    await expect(tab.locator("#again")).to_be_visible()


async def test_a_refusal_is_told_with_its_reason(tab: Tab, served: page_kit.Server) -> None:
    """What the server did not understand is told in the server's words."""
    await tab.goto(f"{served.url}?q=ants&top_k=nine")
    await expect(words(tab)).to_have_text("the server did not understand this search")
    await expect(tab.locator("#detail")).to_contain_text("top_k must be a whole number")


async def test_a_required_arm_that_fails_is_told(tab: Tab) -> None:
    """When an arm fails that no answer can do without, the line says so, and what arrived stays."""
    stage = page_kit.Stage(required=("dense",))
    for served in page_kit.serving(stage):
        await tab.goto(served.url)
        await expect(arm(tab, "dense")).to_contain_text("required")
        await ask(tab, "ants")
        stage.send("lexical", "ants", *docs("ab"))
        await expect(titles(tab)).to_have_count(2)
        stage.fail("dense", "ants", OSError("no route"))
        await expect(words(tab)).to_have_text(
            "dense failed (OSError), and there is no full answer without it"
        )
        await expect(titles(tab)).to_have_count(2)
        await expect(tab.locator("#again")).to_be_visible()
        await expect(arm(tab, "dense")).to_contain_text("failed")
        await ask(tab, "bees")
        stage.fail("dense", "bees", OSError("no route"))
        await expect(words(tab)).to_contain_text("no full answer without it")
        await expect(titles(tab)).to_have_count(2)
        await expect(tab.locator("#detail")).to_have_text("below: the results for “ants”")


async def test_an_arm_that_fails_is_told(tab: Tab, stage: page_kit.Stage, served: page_kit.Server) -> None:
    """When an arm fails that others make up for, the line says so at the end."""
    await tab.goto(f"{served.url}?q=ants")
    stage.end("lexical", "ants", *docs("ab"))
    stage.end("graph", "ants")
    stage.fail("dense", "ants", OSError("no route"))
    await expect(words(tab)).to_contain_text("dense failed (OSError): ")


STREAM = "event: snapshot\r\ndata: {"
ANSWERS = {
    "an answer of before": (204, None, "", "this search was answered before"),
    "a page of a proxy": (502, "text/html", "<h1>Bad gateway", "the search failed"),
    "an end without an end": (200, "text/event-stream", ": hello\r\n\r\n", "the connection was lost"),
    "a stream that is none": (200, "text/event-stream", f"{STREAM}\r\n\r\n", "the search failed"),
    "no snapshot": (200, "text/event-stream", f'{STREAM}"hits":[]}}\r\n\r\n', "the search failed"),
    "no arms": (
        200,
        "text/event-stream",
        f'{STREAM}"hits":[],"elapsed":0,"coverage":{{"arms":[{{}}]}}}}\r\n\r\n',
        "the search failed",
    ),
    "nothing, and its end": (
        200,
        "text/event-stream",
        "event: done\r\ndata: {}\r\n\r\n",
        "the search failed",
    ),
    "a problem in the stream": (
        200,
        "text/event-stream",
        'event: error\r\ndata: {"type":"about:blank","status":500,"detail":"it broke"}\r\n\r\n',
        "the search failed",
    ),
}


def replying(status: int, kind: str | None, body: str) -> Callable[[Route], Awaitable[None]]:
    """Return what answers in place of the server."""

    async def reply(route: Route) -> None:
        await route.fulfill(status=status, content_type=kind, body=body)

    return reply


async def test_answers_that_are_none_are_told(tab: Tab, served: page_kit.Server) -> None:
    """Whatever comes in place of a stream, the page says what it makes of it, and offers to search again."""
    for query, (status, kind, body, said) in ANSWERS.items():
        await tab.route("**/search/stream*", replying(status, kind, body))
        await tab.goto(f"{served.url}?q={query}")
        await expect(words(tab)).to_have_text(said)
        await expect(tab.locator("#again")).to_be_visible()
        await expect(tab.locator("#stop")).to_have_text("Clear")
        await tab.unroute("**/search/stream*")


async def test_a_stream_that_cannot_be_read_is_left(tab: Tab, served: page_kit.Server) -> None:
    """Its body is cancelled, so that the server does not search on for nobody."""
    await tab.goto(served.url)
    await tab.evaluate("""() => {
      window.fetch = async () => new Response(new ReadableStream({
        start: (control) => control.enqueue(new TextEncoder().encode('event: snapshot\\ndata: {oops\\n\\n')),
        cancel: () => { window.isLeft = true; },
      }));
    }""")
    await ask(tab, "ants")
    await expect(words(tab)).to_have_text("the search failed")
    await page_kit.until_true(tab, "window.isLeft === true")


async def test_what_is_typed_before_the_page_is_ready_counts(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Letters that come before the server has told of itself are searched for as soon as it has."""
    is_ready = asyncio.Event()

    async def wait(route: Route) -> None:
        await is_ready.wait()
        await route.continue_()

    await tab.route("**/page.json", wait)
    await tab.goto(served.url)
    await ask(tab, "ants")
    is_ready.set()
    stage.send("lexical", "ants", *docs("a"))
    await expect(titles(tab)).to_have_text(["Title of a"])
    await expect(tab).to_have_url(f"{served.url}?q=ants&timeout_ms=10000")
    assert stage.asked["dense", "ants"].count == 1


async def test_the_page_works_without_its_facts(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """If the server tells nothing of itself, arms appear with the first that is heard of them."""
    await tab.route("**/page.json", lambda route: route.abort())
    await tab.goto(served.url)
    await ask(tab, "ants")
    stage.send("lexical", "ants", *docs("a"))
    await expect(titles(tab)).to_have_text(["Title of a"])
    await expect(tab.locator(".arm-name")).to_have_text(["lexical", "dense", "graph"])
