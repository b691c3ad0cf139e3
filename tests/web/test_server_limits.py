"""Limits: who is let in, that a refusal costs nothing, and when there will be room."""

from __future__ import annotations

import asyncio
import statistics
import time

import httpx
import pytest
from server_kit import ByHand, Watched, asking, nothing_left, serving, until

from rrf_stream import Pipeline
from rrf_stream.web import Limits, create_app
from rrf_stream.web._limits import Admission
from rrf_stream.web._problems import Refused

PATHS = pytest.mark.parametrize("path", ["/search", "/search/stream"])


@pytest.mark.asyncio
@PATHS
async def test_no_more_searches_than_may_be(path: str) -> None:
    """Beyond `searches` the answer is 503 with Retry-After, at once, and no arm is asked for it."""
    arm = Watched("a", wait=True)
    app = create_app(Pipeline({"arm": arm.source}), limits=Limits(searches=2))
    async with asking(app, client="1.1.1.1") as one, asking(app, client="2.2.2.2") as other:
        under_way = [
            asyncio.create_task(client.get("/search", params={"q": "x", "timeout_ms": 2500}))
            for client in (one, other)
        ]
        await until(lambda: len(arm.asked) == 2)
        refused = await one.get(path, params={"q": "y"})
        metrics = (await one.get("/metrics")).text
        app.state.close()
        await asyncio.gather(*under_way)
    assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
    assert 1 <= int(refused.headers["retry-after"]) <= 3
    assert arm.asked == ["x", "x"]
    assert "rrf_stream_open_fusions 2.0" in metrics
    assert 'rrf_stream_refused_total{status="503"} 1.0' in metrics


@pytest.mark.asyncio
@PATHS
async def test_no_more_searches_of_one_client_than_may_be(path: str) -> None:
    """Beyond `searches_per_client` the answer is 429 with Retry-After; other clients are let in."""
    arm = Watched("a", wait=True)
    app = create_app(Pipeline({"arm": arm.source}), limits=Limits(searches_per_client=1))
    async with asking(app, client="1.1.1.1") as one, asking(app, client="2.2.2.2") as other:
        under_way = asyncio.create_task(one.get(path, params={"q": "x", "timeout_ms": 2500}))
        await until(lambda: len(arm.asked) == 1)
        refused = await one.get(path, params={"q": "y"})
        allowed = await other.get(path, params={"q": "z", "timeout_ms": 10})
        await under_way
        again = await one.get(path, params={"q": "w", "timeout_ms": 10})
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 3
    assert refused.headers["content-type"] == "application/problem+json"
    assert (allowed.status_code, again.status_code) == (200, 200)
    assert arm.asked == ["x", "z", "w"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", 429),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", 200),
        ("::ffff:10.0.0.1", "10.0.0.1", 429),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", 200),
        ("10.0.0.1", "10.0.0.2", 200),
        ("unknown", "hidden", 200),
    ],
)
async def test_one_client_is_one_address_or_one_network_of_ipv6(first: str, second: str, status: int) -> None:
    """Whoever has one address of IPv6 has the 2**64 around it, and is still one client."""
    arm = Watched("a", wait=True)
    app = create_app(Pipeline({"arm": arm.source}), limits=Limits(searches_per_client=1))
    async with asking(app, client=first) as one, asking(app, client=second) as other:
        under_way = asyncio.create_task(one.get("/search", params={"q": "x"}))
        await until(lambda: len(arm.asked) == 1)
        answer = await other.get("/search", params={"q": "y", "timeout_ms": 10})
        app.state.close()
        await under_way
    assert answer.status_code == status


@pytest.mark.asyncio
async def test_a_crowd_is_let_in_up_to_the_limit() -> None:
    """Of many that come at once over real connections exactly as many are let in as may be."""
    arm = Watched("a", wait=True)
    app = create_app(Pipeline({"arm": arm.source}), limits=Limits(searches=5, searches_per_client=50))
    async with serving(app) as port, httpx.AsyncClient(trust_env=False, timeout=30) as client:
        url = f"http://127.0.0.1:{port}/search"
        asked = [client.get(url, params={"q": "x", "timeout_ms": 5000}) for _ in range(20)]
        tasks = [asyncio.create_task(one) for one in asked]
        await until(lambda: sum(task.done() for task in tasks) >= 15)
        assert len(arm.asked) == 5
        app.state.close()
        statuses = sorted([(await task).status_code for task in tasks])
    assert statuses == [200] * 5 + [503] * 15


@pytest.mark.asyncio
async def test_a_refusal_takes_less_than_a_millisecond() -> None:
    """From the request to the whole answer inside of the server, most of the time."""
    arm = Watched("a", wait=True)
    app = create_app(Pipeline({"arm": arm.source}), limits=Limits(searches_per_client=1, timeout=60))
    first = ByHand("/search/stream?q=x")
    async with nothing_left():
        under_way = asyncio.create_task(app(first.scope, first.receive, first.send))
        await until(lambda: bool(arm.asked))
        times = []
        for _ in range(200):
            client = ByHand("/search/stream?q=x&top_k=3&timeout_ms=100")
            started = time.perf_counter()
            await app(client.scope, client.receive, client.send)
            times.append(time.perf_counter() - started)
            assert client.status == 429
        first.gone.set()
        await under_way
    assert statistics.median(times) < 0.001
    assert arm.asked == ["x"]


@pytest.mark.asyncio
async def test_the_server_that_ends_lets_nobody_in() -> None:
    """Once it was told to end, searches are refused with 503, and it is not ready."""
    arm = Watched("a")
    app = create_app(Pipeline({"arm": arm.source}))
    async with asking(app) as client:
        app.state.close()
        for path in ("/search?q=x", "/search/stream?q=x", "/readyz"):
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert (await client.get("/healthz")).status_code == 200
    assert not arm.asked


# --- the decision itself ----------------------------------------------------------------------------------


def test_retry_after_is_when_the_first_place_is_free_at_the_latest() -> None:
    """Whole seconds from now, rounded up, until the first of those that take the room has spent its time."""
    admission = Admission(Limits(searches=3, searches_per_client=2))
    with (
        admission.admit("a", now=100.0, timeout=9.5),
        admission.admit("b", now=101.0, timeout=2.2),
        admission.admit("a", now=102.0, timeout=4.0),
    ):
        with pytest.raises(Refused) as all_taken, admission.admit("c", now=102.0, timeout=1):
            pass
        assert (all_taken.value.status, all_taken.value.headers) == (503, {"Retry-After": "2"})
    with admission.admit("a", now=100.0, timeout=9.5), admission.admit("a", now=102.0, timeout=4.0):
        for now, seconds in [(102.0, "4"), (102.1, "4"), (105.0, "1"), (106.0, "1"), (200.0, "1")]:
            with pytest.raises(Refused) as own_taken, admission.admit("a", now=now, timeout=1):
                pass
            assert (own_taken.value.status, own_taken.value.headers) == (429, {"Retry-After": seconds})
        with admission.admit("b", now=102.0, timeout=1):
            assert len(admission._under_way) == 3
    assert len(admission._under_way) == 0


def test_places_are_free_again_whatever_happens() -> None:
    """A search that raises, or ends before those that began earlier, leaves its place and only that."""
    admission = Admission(Limits(searches=2, searches_per_client=1))
    for _ in range(5):
        with pytest.raises(LookupError), admission.admit("a", now=1.0, timeout=1):
            raise LookupError
    first, second = admission.admit("a", now=1.0, timeout=1), admission.admit("b", now=1.0, timeout=1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with admission.admit("a", now=1.0, timeout=1):
        assert len(admission._under_way) == 2
    second.__exit__(None, None, None)
    assert len(admission._under_way) == 0
    assert not admission._of_client, "nothing is kept of clients that are gone"
