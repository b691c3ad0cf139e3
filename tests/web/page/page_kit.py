"""What the tests of the page share: arms that a test leads step by step, a server, what to look at."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from rrf_stream import Arm, Hit, Page, Pipeline
from rrf_stream.web import create_app

REQUIRED = os.environ.get("RRF_STREAM_REQUIRE_BROWSER") == "1"
"""Whether a machine without a browser fails the tests, instead of skipping them."""

if not REQUIRED:
    pytest.importorskip("playwright", reason="needs the package playwright")

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from playwright.async_api import Locator
    from playwright.async_api import Page as Tab

STATIC = Path(__file__).parents[3] / "rrf_stream" / "web" / "static"
ARTIFACTS = Path(os.environ.get("RRF_STREAM_ARTIFACTS", Path(__file__).parents[3] / ".artifacts")) / "page"
PATIENCE = 15.0
"""Seconds after which what a test waits for counts as never coming; the machine may be busy."""


def chromium() -> str:
    """Return the path of a browser; skip the test, or fail it where one is required, if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("RRF_STREAM_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        reason = "needs Chromium: neither RRF_STREAM_CHROMIUM nor the PATH leads to one"
        if REQUIRED:
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@dataclass
class Asked:
    """What one arm was asked for one query; the times are of `time.monotonic`."""

    steps: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    count: int = 0
    closed_at: list[float] = field(default_factory=list)


END = object()


class Stage:
    """Arms that do what the test says, when it says so; a search without an order waits for one.

    Args:
        arms: Their names, or `Arm` options beside the source by name.
        options: Of the pipeline.
    """

    def __init__(self, *arms: str, required: tuple[str, ...] = (), **options: Any) -> None:
        self.asked: defaultdict[tuple[str, str], Asked] = defaultdict(Asked)
        self.loop: asyncio.AbstractEventLoop | None = None
        names = arms or ("lexical", "dense", "graph")
        self.pipeline = Pipeline(
            [Arm(name, self._retriever(name), required=name in required) for name in names], **options
        )

    def forget(self) -> None:
        """Start anew: what was asked so far is over, and what was sent is lost."""
        self.asked = defaultdict(Asked)

    def send(self, arm: str, query: str, *results: Any) -> None:
        """Let an arm give results, as one page."""
        self._step(arm, query, Page(results))

    def end(self, arm: str, query: str, *results: Any) -> None:
        """Let an arm give results, and end."""
        self._step(arm, query, Page(results), END)

    def fail(self, arm: str, query: str, error: Exception) -> None:
        """Let an arm raise."""
        self._step(arm, query, error)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Pipeline]:
        """Give the pipeline to the server, and learn of its event loop."""
        self.loop = asyncio.get_running_loop()
        yield self.pipeline

    def _step(self, arm: str, query: str, *steps: Any) -> None:
        assert self.loop is not None, "a server has to run"

        def put() -> None:
            for step in steps:
                self.asked[arm, query].steps.put_nowait(step)

        self.loop.call_soon_threadsafe(put)

    def _retriever(self, arm: str) -> Callable[[str], AsyncIterator[Any]]:
        async def retrieve(query: str) -> AsyncIterator[Any]:
            asked = self.asked[arm, query]
            asked.count += 1
            try:
                while (step := await asked.steps.get()) is not END:
                    if isinstance(step, Exception):
                        raise step
                    yield step
            finally:
                asked.closed_at.append(time.monotonic())

        return retrieve


def doc(id_: str, title: str = "", **more: Any) -> Hit:
    """Return a result that has a title and a text."""
    return Hit(
        id_, item={"title": title or f"Title of {id_}", "text": f"What {id_} says, in a sentence.", **more}
    )


def docs(ids: str) -> list[Hit]:
    """Return a result for each letter."""
    return [doc(letter) for letter in ids]


class _Uvicorn(uvicorn.Server):
    """Ends the searches under way before it waits for them, as `rrf_stream.web.serve` does."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app: Any = self.config.app
        app.state.close()
        await super().shutdown(sockets)


class Server:
    """A server in a thread of its own, at a free port."""

    def __init__(self, app: Any) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._server = _Uvicorn(uvicorn.Config(app, log_level="error", lifespan="on"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        until = time.monotonic() + PATIENCE
        while not self._server.started:
            assert self._thread.is_alive()
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.005)

    def break_connections(self) -> None:
        """Cut off every client, as a network does; the server goes on."""
        for connection in list(self._server.server_state.connections):
            protocol: Any = connection
            protocol.loop.call_soon_threadsafe(protocol.transport.abort)

    def stop(self) -> None:
        """End the server."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self._socket.close()


def serving(stage: Stage, **options: Any) -> Iterator[Server]:
    """Serve a stage until the generator is closed; what a fixture is made of."""
    server = Server(create_app(stage.opened, **options))
    try:
        yield server
    finally:
        server.stop()


async def until(condition: Callable[[], object], within: float = PATIENCE) -> None:
    """Wait for something in another thread."""
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        await asyncio.sleep(0.005)


async def until_true(tab: Tab, expression: str) -> None:
    """Wait until an expression is true in the page, whose policy lets it evaluate nothing by itself."""
    end = time.monotonic() + PATIENCE
    while not await tab.evaluate(expression):
        assert time.monotonic() < end, f"did not become true: {expression}"
        await asyncio.sleep(0.01)


async def until_still(tab: Tab) -> None:
    """Wait until no row moves or appears any more."""
    await until_true(
        tab, "document.getAnimations().every((one) => !one.effect.target.classList.contains('row'))"
    )


# --- what is on the page ----------------------------------------------------------------------------------


def rows(tab: Tab) -> Locator:
    """Return the rows of the list."""
    return tab.locator("#results > li")


def titles(tab: Tab) -> Locator:
    """Return the titles of the rows."""
    return tab.locator("#results > li .title")


def words(tab: Tab) -> Locator:
    """Return the line of words."""
    return tab.locator("#words")


def arm(tab: Tab, name: str) -> Locator:
    """Return the place of an arm in the strip."""
    return tab.locator("#arms > li", has=tab.locator(".arm-name", has_text=name))


async def ask(tab: Tab, query: str) -> None:
    """Type a query in place of what is there, and submit it."""
    await tab.locator("#q").fill(query)
    await tab.keyboard.press("Enter")
