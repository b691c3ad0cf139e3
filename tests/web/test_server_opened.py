"""Where the pipeline of an application comes from, how long it lives, and what its end waits for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from server_kit import ByHand, Watched, asking, events_in, letters, until

from rrf_stream import Pipeline
from rrf_stream.web import create_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.mark.asyncio
async def test_an_opened_pipeline_lives_as_long_as_the_server() -> None:
    """It is entered at the start and left at the end, after the arms; requests outside of that get 503."""
    told: list[str] = []
    arm = Watched("a", wait=True)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Pipeline]:
        told.append("open")
        yield Pipeline({"arm": arm.source})
        told.append(f"left after {len(arm.closed)}")

    app = create_app(opened)
    client = ByHand("/search/stream?q=x")
    async with asking(app) as asker:

        async def status(path: str) -> int:
            answer = await asker.get(path, params={"q": "x"} if path.startswith("/search") else {})
            assert answer.status_code == 200 or answer.headers["retry-after"] == "1"
            return answer.status_code

        paths = [
            "/search",
            "/search/stream",
            "/page.json",
            "/openapi.json",
            "/readyz",
            "/healthz",
            "/metrics",
        ]
        assert [await status(path) for path in paths] == [503] * 5 + [200] * 2
        assert not told
        async with app.router.lifespan_context(app):
            assert told == ["open"]
            assert [await status(path) for path in paths[2:]] == [200] * 5
            answering = asyncio.create_task(app(client.scope, client.receive, client.send))
            await until(lambda: "event: snapshot" in client.body)
        assert told == ["open", "left after 1"]
        await answering
        assert events_in(client.body)[-1].data["outcome"] == "stopped"
        assert [await status(path) for path in paths] == [503] * 5 + [200] * 2


@pytest.mark.asyncio
@pytest.mark.parametrize("is_opened", [True, False])
async def test_an_application_can_be_started_again(*, is_opened: bool) -> None:
    """After its end it starts as at first: tests and reloading servers do that."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Pipeline]:
        yield letters()

    app = create_app(opened if is_opened else letters())
    async with asking(app) as client:
        for _ in range(2):
            async with app.router.lifespan_context(app):
                assert (await client.get("/search", params={"q": "x"})).status_code == 200
                assert (await client.get("/readyz")).status_code == 200
            assert (await client.get("/search", params={"q": "x"})).status_code == 503


@pytest.mark.asyncio
async def test_what_opens_no_pipeline_stops_the_start() -> None:
    """A callable that gives something else is told at the start, not to the first client."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        yield {"a": letters}

    app = create_app(opened)
    with pytest.raises(TypeError, match=r"^pipeline must be"):
        async with app.router.lifespan_context(app):
            pass


@pytest.mark.asyncio
async def test_a_pipeline_that_clients_cannot_ask_stops_the_start() -> None:
    """An arm whose name clients could not say is told at the start also of what is opened then."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Pipeline]:
        yield Pipeline({"a,b": Watched().source})

    app = create_app(opened)
    with pytest.raises(ValueError, match=r"^pipeline must .*'a,b'"):
        async with app.router.lifespan_context(app):
            pass


@pytest.mark.asyncio
async def test_a_failed_opening_stops_the_start() -> None:
    """What the opener raises is not lost."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Pipeline]:
        raise OSError("no index")
        yield

    app = create_app(opened)
    with pytest.raises(OSError, match="no index"):
        async with app.router.lifespan_context(app):
            pass


@pytest.mark.asyncio
async def test_the_end_waits_for_arms_that_clean_up() -> None:
    """At the end of the server, arms get `grace` seconds to end what they do, also those left before."""
    ended: list[str] = []

    async def careful(query: str) -> Any:
        try:
            yield "a"
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            ended.append(query)

    app = create_app(Pipeline({"careful": careful}, grace=0))
    async with asking(app) as client:
        async with app.router.lifespan_context(app):
            answer = await client.get("/search", params={"q": "x", "timeout_ms": 10})
            assert answer.json()["outcome"] == "deadline"
        assert ended == ["x"]


@pytest.mark.asyncio
async def test_the_end_waits_no_longer_than_the_grace() -> None:
    """An arm that never ends is left behind."""
    let_go = asyncio.Event()

    async def stuck(_: str) -> Any:
        try:
            yield "a"
            await asyncio.Event().wait()
        finally:
            await let_go.wait()

    app = create_app(Pipeline({"stuck": stuck}, grace=0), grace=0.05)
    async with asking(app) as client:
        async with asyncio.timeout(10), app.router.lifespan_context(app):
            await client.get("/search", params={"q": "x", "timeout_ms": 10})
        let_go.set()
