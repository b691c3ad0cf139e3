"""What a search looks like while it goes on: rows, marks, arms, words, and what is read out at the end."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import page_kit
import pytest
from page_kit import arm, ask, doc, docs, rows, titles, until, until_still, until_true, words
from playwright.async_api import expect

from rrf_stream import Hit

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext
    from playwright.async_api import Page as Tab

pytest_plugins = ["page_fixtures"]
pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_results_refine_as_arms_answer(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Rows come with the first arm, are reordered by the next, and are final, as is the line, at the end."""
    await tab.goto(served.url)
    await expect(arm(tab, "dense")).to_contain_text("ready")
    await tab.locator("#q").press_sequentially("ants")
    await expect(words(tab)).to_have_text("waiting for lexical, dense and graph")
    await expect(arm(tab, "dense")).to_contain_text("waiting")

    stage.end("lexical", "ants", *docs("abc"))
    await expect(titles(tab)).to_have_text(["Title of a", "Title of b", "Title of c"])
    await expect(words(tab)).to_have_text("none of 3 is final yet, waiting for dense and graph")
    await expect(rows(tab).nth(0).locator(".mark")).to_have_text("may move")
    await expect(rows(tab).nth(1).locator(".ranks li")).to_have_text(["lexical #2"])
    await expect(arm(tab, "lexical")).to_contain_text("done")
    await expect(arm(tab, "lexical")).to_contain_text("3 hits")

    stage.send("dense", "ants", *docs("cb"))
    await expect(titles(tab)).to_have_text(["Title of c", "Title of b", "Title of a"])
    await expect(rows(tab).nth(0).locator(".ranks li")).to_have_text(["lexical #3", "dense #1"])
    await expect(arm(tab, "dense")).to_contain_text("streaming")

    stage.end("dense", "ants")
    stage.end("graph", "ants", *docs("c"))
    await expect(words(tab)).to_have_text("final")
    await expect(tab.locator("#detail")).to_contain_text("3 results in ")
    await expect(rows(tab).locator(".mark")).to_have_text(["final"] * 3)
    assert [cell.split("\n")[1] for cell in await tab.locator("#arms > li").all_inner_texts()] == ["done"] * 3


async def test_settled_rows_are_marked_before_the_end(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Leading rows that nothing can change are final in words and style while others may move."""
    await tab.goto(served.url)
    await ask(tab, "ants")
    stage.end("lexical", "ants", *docs("abcd"))
    stage.end("graph", "ants", *docs("abcd"))
    stage.send("dense", "ants", *docs("ab"))
    await expect(words(tab)).to_have_text("2 of 4 are final, waiting for dense")
    await expect(rows(tab).locator(".mark")).to_have_text(["final", "final", "may move", "may move"])
    marks = await rows(tab).evaluate_all("all => all.map((row) => row.dataset.mark)")
    assert marks == ["final", "final", "open", "open"]
    fill = "getComputedStyle(row.querySelector('.rank')).backgroundColor"
    await until_true(
        tab,
        f"() => {{ const all = [...document.querySelectorAll('.row')].map((row) => {fill}); "
        "return all[0] === all[1] && all[1] !== all[2] && all[2] === all[3]; }",
    )


async def test_an_arm_that_is_cut_off_is_told(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """At the deadline the line says who was cut off and when, and how much is certain all the same."""
    await tab.goto(f"{served.url}?q=ants&timeout_ms=900")
    stage.end("lexical", "ants", *docs("abcdefgh"))
    stage.end("graph", "ants", *docs("abcdefgh"))
    stage.send("dense", "ants", *docs("abc"))
    cut_off = re.compile(r"dense was cut off after [0-9.]+ m?s: 3 of these would be the same anyway")
    await expect(words(tab)).to_have_text(cut_off)
    await expect(arm(tab, "dense")).to_contain_text("late")
    await expect(arm(tab, "dense")).to_contain_text(re.compile(r"[0-9.]+ m?s · 3 hits"))
    marks = ["final"] * 3 + ["might differ with all of dense"] * 5
    await expect(rows(tab).locator(".mark")).to_have_text(marks)


async def test_without_bounds_rows_are_marked_at_the_end_only(tab: Tab) -> None:
    """Where nothing is known of the future, the page says how many there are, and promises nothing."""
    stage = page_kit.Stage(bounds="off")
    for served in page_kit.serving(stage):
        await tab.goto(f"{served.url}?q=ants")
        stage.end("lexical", "ants", *docs("ab"))
        await expect(words(tab)).to_have_text("2 so far, waiting for dense and graph")
        await expect(rows(tab).locator(".mark")).to_have_text(["", ""])
        stage.end("dense", "ants")
        stage.end("graph", "ants")
        await expect(words(tab)).to_have_text("final")
        await expect(rows(tab).locator(".mark")).to_have_text(["final", "final"])


async def test_the_clock_of_a_waiting_arm_runs(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Nobody has to hear from the server to see that an arm takes its time."""
    await tab.goto(f"{served.url}?q=ants")
    await until(lambda: stage.asked["dense", "ants"].count)
    figures = arm(tab, "dense").locator(".arm-figures")
    await expect(figures).to_contain_text("0 hits")
    before = await figures.inner_text()
    await expect(figures).not_to_have_text(before)


async def test_nothing_found_is_said_at_the_end_only(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Before the last arm has ended, the page never says that there is nothing."""
    await tab.goto(served.url)
    await tab.evaluate("""() => {
      window.said = [];
      const note = () => window.said.push(document.querySelector('main').innerText);
      const all = {subtree: true, childList: true, characterData: true};
      new MutationObserver(note).observe(document.body, all);
    }""")
    await ask(tab, "ants")
    stage.end("lexical", "ants")
    stage.end("graph", "ants")
    await expect(words(tab)).to_have_text("waiting for dense")
    said = await tab.evaluate("window.said")
    assert said
    assert [text for text in said if "nothing" in text or "no results" in text.lower()] == []
    stage.end("dense", "ants")
    await expect(words(tab)).to_have_text("nothing found")
    await expect(rows(tab)).to_have_count(0)


async def test_the_former_results_stay_until_there_are_others(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """A new search keeps the old rows, and says whose they are, until its own first hits come."""
    await tab.goto(served.url)
    await ask(tab, "ants")
    for name in ("lexical", "dense", "graph"):
        stage.end(name, "ants", *docs("ab"))
    await expect(words(tab)).to_have_text("final")
    await ask(tab, "bees")
    await expect(tab.locator("#results")).to_have_attribute("data-former", "")
    await expect(tab.locator("#detail")).to_have_text("below: the results for “ants”")
    await expect(titles(tab)).to_have_text(["Title of a", "Title of b"])
    await expect(rows(tab).locator(".mark").first).to_be_hidden()
    stage.end("lexical", "bees")
    await expect(words(tab)).to_have_text("waiting for dense and graph")
    await expect(titles(tab)).to_have_count(2)
    stage.send("dense", "bees", *docs("c"))
    await expect(titles(tab)).to_have_text(["Title of c"])
    assert await tab.locator("#results").get_attribute("data-former") is None


async def test_rows_glide_to_their_new_place(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """When the order changes, rows that stay are animated from where they were, as the same elements."""
    await tab.emulate_media(reduced_motion="no-preference")
    await tab.goto(served.url)
    await ask(tab, "ants")
    stage.send("lexical", "ants", *docs("abc"))
    await expect(titles(tab)).to_have_count(3)
    await rows(tab).first.evaluate("(row) => { row.id = 'same'; }")
    await until_still(tab)
    await tab.evaluate("""() => {
      const glides = window.glides = [];
      const animate = Element.prototype.animate;
      Element.prototype.animate = function (frames, options) {
        const glide = animate.call(this, frames, options);
        glides.push({id: this.id, from: frames[0].transform, running: this.getAnimations().length});
        return glide;
      };
    }""")
    stage.send("dense", "ants", *docs("cb"))
    await expect(titles(tab)).to_have_text(["Title of c", "Title of b", "Title of a"])
    glides = await tab.evaluate("window.glides")
    assert [glide["running"] > 0 for glide in glides] == [True, True]
    assert [glide["id"] for glide in glides] == ["", "same"]
    assert "translateY(-" in glides[1]["from"], "the first row came from above"
    assert await rows(tab).nth(2).get_attribute("id") == "same"


async def test_the_live_region_speaks_once_at_the_end(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """What is read out is the final state alone, once, however much happened on the way."""
    await tab.goto(f"{served.url}?q=ants")  # nothing is typed, so nothing holds back what would be said
    await tab.evaluate("""() => {
      window.spoken = [];
      const region = document.querySelector('[role=status]');
      const note = () => region.textContent && window.spoken.push(region.textContent);
      new MutationObserver(note).observe(region, {subtree: true, childList: true, characterData: true});
    }""")
    assert await tab.locator("[aria-live]").count() == 1
    stage.send("lexical", "ants", *docs("abc"))
    await expect(titles(tab)).to_have_count(3)
    stage.send("dense", "ants", *docs("cba"))
    await expect(arm(tab, "dense")).to_contain_text("streaming")
    assert await tab.evaluate("window.spoken") == []
    for name in ("lexical", "dense", "graph"):
        stage.end(name, "ants")
    await until_true(tab, "window.spoken.length > 0")
    await expect(arm(tab, "graph")).to_contain_text("done")
    (spoken,) = await tab.evaluate("window.spoken")
    assert spoken.startswith("“ants”: final. 3 results in ")


async def test_the_live_region_is_silent_while_somebody_types(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Of searches that end between two letters nothing is read out, only of the last one."""
    await tab.goto(served.url)
    await tab.clock.install()
    for query in ("ant", "ants"):
        await tab.locator("#q").fill(query)
        await tab.clock.run_for(200)
        for name in ("lexical", "dense", "graph"):
            stage.end(name, query, *docs("a"))
        await until(lambda query=query: stage.asked["dense", query].closed_at)  # type: ignore[misc]
        await until_true(tab, "document.querySelector('#stop').textContent === 'Clear'")
        assert await tab.locator("#live").text_content() == ""
    await tab.clock.run_for(500)
    await expect(tab.locator("#live")).to_contain_text("“ants”: final. 1 result in ")


async def test_a_closed_tab_stops_the_arms_at_once(
    visitor: BrowserContext, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """Within 100 ms of its tab being closed, the arms of a search have been cancelled on the server."""
    delays = []
    for query in ("ants", "bees", "cats"):
        leaver = await visitor.new_page()
        await leaver.goto(f"{served.url}?q={query}")
        await until(lambda query=query: stage.asked["dense", query].count)  # type: ignore[misc]
        stage.send("lexical", query, *docs("ab"))
        await expect(titles(leaver)).to_have_count(2)
        left_at = time.monotonic()
        await leaver.close()
        asked = [stage.asked[name, query] for name in ("lexical", "dense", "graph")]
        await until(lambda asked=asked: all(one.closed_at for one in asked))  # type: ignore[misc]
        delays.append(max(one.closed_at[0] for one in asked) - left_at)
    assert min(delays) < 0.1, f"from the order to close the tab to the clean-up: {delays}"


ITEMS: list[tuple[Hit, str, str, str]] = [
    (Hit("only-an-id"), "only-an-id", "", ""),
    (Hit(7), "7", "", ""),
    (Hit("t", item="a short text"), "a short text", "", "t"),
    (Hit("l", item="long " * 30), "l", "long " * 29 + "long", ""),
    (Hit("n", item={"name": "Name", "body": "Body"}), "Name", "Body", "n"),
    (Hit("s", item={"snippet": "Snippet", "title": " "}), "s", "Snippet", ""),
    (Hit("u", item={"title": "T", "url": "https://example.org/a/b?c#d"}), "T", "", "example.org/a/b"),
    (Hit("v", item={"title": 12, "text": ["a", 1]}), "12", '["a",1]', "v"),
    (Hit(("a", 1), item=None), '["a",1]', "", ""),
]


async def test_items_of_any_form_are_shown(tab: Tab, stage: page_kit.Stage, served: page_kit.Server) -> None:
    """A result has a title at least, from its item or else its id; text and place where there are any."""
    await tab.goto(f"{served.url}?q=ants")
    stage.send("lexical", "ants", *(hit for hit, *_ in ITEMS))
    await expect(rows(tab)).to_have_count(len(ITEMS))
    shown: Any = await rows(tab).evaluate_all("""all => all.map((row) =>
      ['title', 'text', 'place'].map((part) => row.querySelector('.' + part).textContent))""")
    assert shown == [list(expected) for _, *expected in ITEMS]
    assert await tab.locator("#results a").count() == 1


async def test_a_later_copy_of_a_document_is_shown(
    tab: Tab, stage: page_kit.Stage, served: page_kit.Server
) -> None:
    """When the item of a hit changes, its row tells the new one."""
    await tab.goto(f"{served.url}?q=ants")
    stage.send("dense", "ants", doc("a", "from dense"))
    await expect(titles(tab)).to_have_text(["from dense"])
    stage.send("lexical", "ants", doc("a", "from lexical"))
    await expect(titles(tab)).to_have_text(["from lexical"])
