"""Search as one types, in a terminal: the ranking fills in, and a strip shows how each arm stands.

Every key opens a new fusion in a worker of Textual that is `exclusive`: it cancels the one before,
and so the arms of the old query stop. Each snapshot is shown when it comes. A hit whose position is
settled is marked with `=`; one that may still move with `~`. Below, each arm says how it stands and
how many hits it gave.

On a terminal it is interactive; escape ends it. With `--demo`, or where the output is no terminal,
it types by itself on a screen that nobody sees, and prints what is on it.

Run it with `python examples/textual_search.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.reactive import reactive
from textual.widgets import Input, Static

from rrf_stream import Pipeline, Snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.binding import BindingType

TITLES = [
    "Tables and keys",
    "Tasks and timeouts",
    "Task groups and their errors",
    "How a task is cancelled",
    "Tests of tasks",
    "Timeouts in asyncio",
]
fate: Counter[str] = Counter()
"""How often the slowest arm was read to its end, and how often it was stopped."""


async def by_prefix(query: str) -> list[str]:
    """Find titles that begin with the query, at once."""
    return [title for title in TITLES if title.lower().startswith(query.lower())]


async def by_word(query: str) -> AsyncIterator[str]:
    """Find titles that have a word like the query, one every 0.1 seconds."""
    for title in TITLES:
        if any(word.startswith(query.lower()) for word in title.lower().split()):
            await asyncio.sleep(0.1)
            yield title


async def by_letters(query: str) -> AsyncIterator[str]:
    """Find titles that have the letters of the query anywhere, slowly, the last title first."""
    try:
        for title in reversed(TITLES):
            await asyncio.sleep(0.15)
            if set(query.lower()) <= set(title.lower()):
                yield title
        fate["read to its end"] += 1
    except asyncio.CancelledError:
        fate["stopped"] += 1
        raise


hybrid = Pipeline({"prefix": by_prefix, "word": by_word, "letters": by_letters}, top_k=4, min_interval=0.05)


class SearchApp(App[None]):
    """An input, the ranking so far, and a strip of arms."""

    CSS = """
    #hits { height: 1fr; padding: 1 2; }
    #arms { height: 1; }
    #arms Static { width: 1fr; padding: 0 1; }
    .open { color: $warning; }
    .short { color: $error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "quit", "Quit")]
    asked = ""
    snapshot: reactive[Snapshot | None] = reactive(None)

    def compose(self) -> ComposeResult:
        """Lay out the widgets."""
        yield Input(placeholder="Search")
        yield Static(id="hits", markup=False)
        with Horizontal(id="arms"):
            for name in hybrid.stats():
                yield Static(name, id=name, markup=False)

    @on(Input.Changed)
    def typed(self, event: Input.Changed) -> None:
        """Search for what is in the input now."""
        self.asked, self.snapshot = event.value.strip(), None
        self.search(self.asked)

    @work(exclusive=True)
    async def search(self, query: str) -> None:
        """Show each snapshot of a query. The next query cancels this, and so the arms."""
        if not query:
            return
        async with hybrid.open(query, timeout=5.0) as fusion:
            async for snapshot in fusion:
                self.snapshot = snapshot

    def watch_snapshot(self, snapshot: Snapshot | None) -> None:
        """Draw a snapshot."""
        hits = snapshot.hits if snapshot else ()
        settled = (snapshot.settled or 0) if snapshot else 0
        rows = [f"{'=' if hit.rank <= settled else '~'} {hit.rank}. {hit.id}" for hit in hits]
        self.query_one("#hits", Static).update("\n".join(rows))
        for arm in snapshot.coverage.arms if snapshot else ():
            strip = self.query_one(f"#{arm.name}", Static)
            strip.update(f"{arm.name}: {arm.received} {arm.status}")
            strip.set_class(arm.status.is_open, "open")
            strip.set_class(arm.status.is_short, "short")


def on_screen(app: SearchApp) -> str:
    """Return what the app shows, as text."""
    shown = [f"> {app.query_one(Input).value}", str(app.query_one("#hits", Static).content)]
    shown.append(" | ".join(str(strip.content) for strip in app.query("#arms Static").results(Static)))
    return "\n".join(shown)


async def demo() -> None:
    """Type two queries, the first of which is not waited for, and print what is shown on the way."""
    app = SearchApp()
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("t", "a")
        while not (app.asked == "ta" and app.snapshot and app.snapshot.hits):
            await pilot.pause(0.01)
        print(f"{on_screen(app)}\n")
        await pilot.press("s", "k")
        while not (app.asked == "task" and app.snapshot and app.snapshot.settled):
            await pilot.pause(0.01)
        print(f"{on_screen(app)}\n")
        while not (app.asked == "task" and app.snapshot and app.snapshot.final):
            await pilot.pause(0.01)
        print(f"{on_screen(app)}\n")
    print("search by letters:", ", ".join(f"{count} {how}" for how, count in sorted(fate.items())))


if __name__ == "__main__":
    if "--demo" in sys.argv or not sys.stdout.isatty():
        asyncio.run(demo())
    else:
        SearchApp().run()
