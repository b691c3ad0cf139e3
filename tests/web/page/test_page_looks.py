"""How the page looks: on a phone, light and dark, with less motion; and pictures of it for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import page_kit
import pytest
import pytest_asyncio
from page_kit import arm, docs, rows, titles, words
from playwright.async_api import expect

from rrf_stream import Hit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser
    from playwright.async_api import Page as Tab

pytest_plugins = ["page_fixtures"]
pytestmark = pytest.mark.asyncio(loop_scope="session")

Scheme = Literal["light", "dark"]
SCHEMES: list[Scheme] = ["light", "dark"]

SHELF = [
    ("Streaming answers over HTTP", "A response that stays open needs no library. " * 4),
    (
        "When is a top ten final?",
        "A position is settled when nothing that may still arrive can change it. " * 2,
    ),
    ("Fusing ranked lists without scores", "Reciprocal ranks add up, whatever made them. " * 3),
    ("Cancelling what nobody waits for", "A task is asked to end at its next await, once."),
    ("Vector search in one file", "Vectors are kept next to the rows that they belong to."),
    ("Deadlines and budgets", "A time budget turns a slow search into a shorter list, not into an error."),
    ("Circuit breakers, half open", "An arm that failed again and again is left alone for a while."),
    ("Full text with prefixes", "One index for words, their beginnings and what is around them."),
    ("A walk along links", "From the best documents to those that they point to, with fading weights."),
    ("Hedged requests", "Ask a second time when the first answer is late, and take what comes first."),
]


def shelf(places: str) -> list[Hit]:
    """Return documents for people to look at, by their digits."""
    return [
        Hit(
            f"shelf/{place}",
            item={
                "title": SHELF[int(place)][0],
                "text": SHELF[int(place)][1],
                "url": f"https://example.org/shelf/{place}",
            },
        )
        for place in places
    ]


@pytest_asyncio.fixture(loop_scope="session", params=[(s, w) for s in SCHEMES for w in (1000, 375)], ids=str)
async def seen(browser: Browser, request: pytest.FixtureRequest) -> AsyncIterator[tuple[Tab, str]]:
    """A tab in light or dark, on a desk or on a phone, and what to call its pictures."""
    scheme, width = request.param
    is_phone = width < 500
    context = await browser.new_context(
        viewport={"width": width, "height": 812 if is_phone else 900},
        color_scheme=scheme,
        is_mobile=is_phone,
        has_touch=is_phone,
        reduced_motion="reduce",
    )
    yield await context.new_page(), f"{scheme}-{width}"
    await context.close()


CONTRASTS = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const channels = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const [r, g, b] = channels(color).map((one) => one / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (channels(color)[3] === 255) return color;
    }
    return 'white';
  };
  const found = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility({visibilityProperty: true})) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(ground(element))].sort((x, y) => y - x);
    const name = element.className || element.id || element.localName;
    found[name] = Math.min(found[name] ?? 21, (a + 0.05) / (b + 0.05));
  }
  return found;
}"""

TARGETS = """() => {
  // A link takes its whole row, by a box that is no element: asked for at the edges of the row.
  const height = (one) => {
    if (one.localName !== 'a') return one.getBoundingClientRect().height;
    const {left, width, top, bottom} = one.closest('li').getBoundingClientRect();
    if (bottom > innerHeight - 90 || top < 0) return 44; // out of sight, or below the buttons
    const at = (y) => document.elementFromPoint(left + width / 2, y);
    return at(top + 2) === one && at(bottom - 2) === one ? bottom - top : 0;
  };
  return [...document.querySelectorAll('button, input, #results a')]
    .filter((one) => one.checkVisibility())
    .map((one) => [one.id || one.className || one.localName, height(one)]);
}"""


async def test_the_page_is_readable_at_every_stage(
    seen: tuple[Tab, str], stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """In light and dark, wide and narrow, no text is faint and nothing sticks out; pictures are kept."""
    tab, name = seen
    page_kit.ARTIFACTS.mkdir(parents=True, exist_ok=True)

    async def look(moment: str) -> None:
        await tab.screenshot(path=page_kit.ARTIFACTS / f"{name}-{moment}.png")
        contrasts: dict[str, float] = await tab.evaluate(CONTRASTS)
        assert contrasts
        assert {what: ratio for what, ratio in contrasts.items() if ratio < 4.5} == {}
        assert await tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        if name.endswith("375"):
            targets: list[tuple[str, float]] = await tab.evaluate(TARGETS)
            assert [one for one in targets if one[1] < 44] == []

    query = "how to stream results"
    await tab.goto(f"{served.url}?timeout_ms=5000")
    await expect(words(tab)).to_have_text("type to search")
    await look("0-start")
    await tab.locator("#q").fill(query)
    stage.end("lexical", query, *shelf("2013456789"))
    stage.send("dense", query, *shelf("01"))
    stage.send("graph", query, *shelf("10"))
    await expect(titles(tab)).to_have_count(10)
    await expect(arm(tab, "graph")).to_contain_text("streaming")
    await look("1-mid-stream")
    stage.send("dense", query, *shelf("2"))
    stage.end("graph", query, *shelf("2"))
    await expect(words(tab)).to_have_text("3 of 10 are final, waiting for dense")
    await look("2-settling")
    await tab.locator("#stop").click()
    await expect(words(tab)).to_contain_text("stopped")
    await look("3-stopped")
    await tab.locator("#again").click()
    for name_ in ("lexical", "dense", "graph"):
        stage.end(name_, query, *shelf("0123456789"))
    await expect(words(tab)).to_have_text("final")
    await look("4-final")
    other = "how to stop"
    await tab.locator("#q").fill(other)
    await expect(tab.locator("#detail")).to_contain_text("below: ")
    await look("5-former")
    stage.fail("dense", other, OSError())
    stage.end("lexical", other, *shelf("356"))
    stage.end("graph", other)
    await expect(words(tab)).to_contain_text("failed")
    await look("6-degraded")
    await tab.screenshot(path=page_kit.ARTIFACTS / f"{name}-7-whole.png", full_page=True)


async def test_light_and_dark_follow_the_system(tab: Tab, served: page_kit.Server) -> None:
    """The page is light or dark as the person's system is, also when that changes."""
    await tab.goto(served.url)
    shades = []
    for scheme in SCHEMES:
        await tab.emulate_media(color_scheme=scheme)
        color: str = await tab.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        shades.append(sum(int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")))
    assert shades[0] > 700
    assert shades[1] < 100


async def test_less_motion_is_respected(tab: Tab, stage: page_kit.Stage, served: page_kit.Server) -> None:
    """Who asked for less motion sees rows in their new place at once, and nothing that breathes."""
    await tab.goto(f"{served.url}?q=ants")
    stage.send("lexical", "ants", *docs("abc"))
    await expect(titles(tab)).to_have_count(3)
    await tab.evaluate("""() => {
      window.glides = 0;
      const animate = Element.prototype.animate;
      Element.prototype.animate = function (...given) {
        window.glides += 1;
        return animate.apply(this, given);
      };
    }""")
    stage.send("dense", "ants", *docs("cb"))
    await expect(titles(tab)).to_have_text(["Title of c", "Title of b", "Title of a"])
    assert await tab.evaluate("window.glides") == 0
    assert await tab.evaluate("document.getAnimations().length") == 0


@pytest.mark.parametrize("width", [1000, 375])
async def test_the_list_does_not_move_when_the_head_changes(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server, width: int
) -> None:
    """Arms, words and buttons have their room from the start, so the first row stays where it is."""
    await tab.set_viewport_size({"width": width, "height": 800})
    await tab.goto(f"{served.url}?q=ants")
    stage.send("lexical", "ants", *docs("abc"))
    await expect(titles(tab)).to_have_count(3)
    top = "document.querySelector('#results').getBoundingClientRect().top"
    before: Any = await tab.evaluate(top)
    stage.fail("dense", "ants", OSError())
    await expect(words(tab)).to_contain_text("dense failed (OSError)")
    assert await tab.evaluate(top) == before
    await tab.locator("#stop").click()
    await expect(tab.locator("#again")).to_be_visible()
    assert await tab.evaluate(top) == before


async def test_forced_colours_keep_the_marks(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Where the system chooses the colours, final rows still differ from those that may move."""
    await tab.emulate_media(forced_colors="active")
    await tab.goto(f"{served.url}?q=ants")
    stage.end("lexical", "ants", *docs("abcd"))
    stage.end("graph", "ants", *docs("abcd"))
    stage.send("dense", "ants", *docs("ab"))
    await expect(rows(tab).locator(".mark")).to_have_text(["final", "final", "may move", "may move"])
    await page_kit.until_true(
        tab,
        """new Set([...document.querySelectorAll('.rank')]
          .map((one) => getComputedStyle(one).backgroundColor)).size === 2""",
    )
