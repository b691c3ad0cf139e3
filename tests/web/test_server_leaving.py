"""Clients that go away: however they die, the arms are stopped at once, and their place is free again."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest
from server_kit import (
    AT_ONCE,
    SOON,
    ByHand,
    Watched,
    asking,
    connection,
    nothing_left,
    read_until,
    serving,
    until,
)

from rrf_stream import Hit, Pipeline
from rrf_stream.web import Limits, create_app

pytestmark = pytest.mark.asyncio

PATHS = pytest.mark.parametrize("path", ["/search", "/search/stream"])
LIMITS = Limits(timeout=60, searches=1)
TRIES = 3
"""A machine that is busy with something else may be late once; a server that waits is late each time."""


def app_of(arm: Watched, **options: Any) -> Any:
    return create_app(Pipeline({"arm": arm.source}), limits=LIMITS, **options)


@PATHS
async def test_a_client_that_closes_stops_the_arms_within_100_ms(path: str) -> None:
    """The connection is closed while the server waits for an arm, which is stopped and cleans up at once."""
    arm = Watched("a", wait=True)
    delays = []
    async with serving(app_of(arm)) as port:
        for number in range(1, TRIES + 1):
            async with connection(port, f"{path}?q=x"):
                await arm.idle.wait()
                assert len(arm.closed) == number - 1
                left = time.monotonic()
            delays.append(await arm.has_closed(number) - left)
            arm.idle.clear()
    assert min(delays) < AT_ONCE, delays


@PATHS
async def test_a_client_that_is_cancelled_stops_the_arms(path: str) -> None:
    """A client of a library that gives up by its own timeout is one that closes."""
    arm = Watched("a", wait=True)
    async with serving(app_of(arm)) as port, httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.get(f"http://127.0.0.1:{port}{path}", params={"q": "x"})
        await arm.has_closed()


async def test_a_client_that_reads_no_more_is_given_up_after_the_stall() -> None:
    """The connection stays open, but nothing is taken for `stall` seconds: then the arms are stopped."""
    stall = 0.4
    filling = [Hit(number, item="x" * 200_000) for number in range(60)]
    arm = Watched(*filling, wait=True, pause=0.002)
    async with (
        serving(app_of(arm, stall=stall)) as port,
        connection(port, "/search/stream?q=x&top_k=60", room=4096) as (reader, _),
    ):
        await read_until(reader, b"event: snapshot")
        stopped_reading = time.monotonic()
        closed = await arm.has_closed()
        assert stall <= closed - stopped_reading < SOON
        async with httpx.AsyncClient(trust_env=False) as client:
            metrics = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
        assert "rrf_stream_open_fusions 0.0" in metrics
        assert 'rrf_stream_searches_total{outcome="left"} 1.0' in metrics


class Stalling(ByHand):
    """Takes messages until one of which something holds, and that one never."""

    stalls: Any = staticmethod(lambda _: False)
    gave_up: float | None = None

    async def send(self, message: Any) -> None:
        """Take a message, or wait for ever, and note when that was cancelled."""
        if self.stalls(message):
            try:
                await asyncio.Event().wait()
            finally:
                self.gave_up = time.monotonic()
        await super().send(message)


async def test_arms_stop_within_100_ms_after_a_message_is_given_up() -> None:
    """What comes between the end of the stall and the end of the arms is no waiting."""
    delays = []
    for _ in range(TRIES):
        arm = Watched("a", wait=True)
        client = Stalling("/search/stream?q=x")
        client.stalls = lambda message: message.get("body")
        async with nothing_left():
            app = app_of(arm, stall=0.1)
            await asyncio.wait_for(app(client.scope, client.receive, client.send), SOON)
            assert client.gave_up is not None
            delays.append(await arm.has_closed() - client.gave_up)
    assert min(delays) < AT_ONCE, delays


@pytest.mark.parametrize(
    ("path", "stalls"),
    [
        ("/search", lambda message: message["type"] == "http.response.start"),
        ("/search", lambda message: message["type"] == "http.response.body"),
        ("/search/stream", lambda message: message["type"] == "http.response.start"),
        ("/search/stream", lambda message: b"event: done" in message.get("body", b"")),
        ("/search/stream", lambda message: message.get("more_body") is False),
    ],
)
async def test_no_message_waits_longer_than_the_stall(path: str, stalls: Any) -> None:
    """A client that does not take the head, the body or the end of an answer holds its place no longer."""
    client = Stalling(f"{path}?q=x")
    client.stalls = stalls
    app = create_app(Pipeline({"arm": Watched("a").source}), limits=LIMITS, stall=0.1)
    async with asking(app) as next_client:
        await asyncio.wait_for(app(client.scope, client.receive, client.send), 5)
        assert client.gave_up is not None
        assert (await next_client.get("/search", params={"q": "x"})).status_code == 200


@PATHS
async def test_no_answer_takes_longer_than_its_time_and_the_stall(path: str) -> None:
    """A client that takes each message late, but before the stall, keeps its place no longer than that."""
    gave_up: list[bool] = []

    class Slow(ByHand):
        async def send(self, message: Any) -> None:
            try:
                await asyncio.sleep(0.6)
            except asyncio.CancelledError:
                gave_up.append(True)
                raise
            await super().send(message)

    async with nothing_left():
        app = create_app(Pipeline({"arm": Watched("a").source}), limits=LIMITS, stall=1.0)
        client = Slow(f"{path}?q=x&timeout_ms=50")
        await asyncio.wait_for(app(client.scope, client.receive, client.send), SOON)
        assert gave_up == [True]
        assert len(client.sent) < 2


@PATHS
async def test_the_place_of_a_client_that_left_is_free(path: str) -> None:
    """With room for one search, the next client gets in as soon as the one before is gone."""
    arm = Watched("a", wait=True)
    async with serving(app_of(arm)) as port, httpx.AsyncClient(trust_env=False) as client:
        url = f"http://127.0.0.1:{port}/search"
        async with connection(port, f"{path}?q=x"):
            await arm.idle.wait()
            assert (await client.get(url, params={"q": "x"})).status_code == 503
        await arm.has_closed()
        statuses = []

        async def ask() -> None:
            statuses.append((await client.get(url, params={"q": "x", "timeout_ms": 20})).status_code)

        async with asyncio.timeout(SOON):
            while 200 not in statuses:
                await ask()
        assert set(statuses) <= {200, 503}


async def test_an_arm_that_ignores_its_end_holds_nobody() -> None:
    """The place is free although an arm cleans up for long; the server waits for it at its end."""
    let_go = asyncio.Event()
    ended = []

    async def stubborn(_: str) -> Any:
        try:
            yield "a"
            await asyncio.Event().wait()
        finally:
            await let_go.wait()
            ended.append(True)

    app = create_app(Pipeline({"stubborn": stubborn}, grace=0.01), limits=LIMITS)
    client = ByHand("/search/stream?q=x")
    async with nothing_left(), app.router.lifespan_context(app):
        answering = asyncio.create_task(app(client.scope, client.receive, client.send))
        await until(lambda: "event: snapshot" in client.body)
        client.gone.set()
        await asyncio.wait_for(answering, SOON)
        assert not ended
        asyncio.get_running_loop().call_later(0.05, let_go.set)
    assert ended
