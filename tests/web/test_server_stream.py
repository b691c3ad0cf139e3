"""GET /search/stream: what is sent, in which form, and that a broken stream is not searched again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from server_kit import ByHand, Watched, asking, comments_in, connection, events_in, read_until, serving

from rrf_stream import Arm, Hit, Pipeline, Snapshot
from rrf_stream.web import create_app

if TYPE_CHECKING:
    from rrf_stream import FusedHit

pytestmark = pytest.mark.asyncio


async def failing(_: str) -> list[str]:
    raise ConnectionError("postgres://admin:hunter2@inside")


async def test_a_stream_is_snapshots_and_a_last_done() -> None:
    """Ids are sequence numbers, data is what `to_dict` gives, the last snapshot is final, then `done`."""
    pipeline = Pipeline(
        {"slow": Watched("a", "b", "c", pause=0.02).source, "quick": Watched("c", "d").source}
    )
    async with asking(create_app(pipeline)) as client:
        answer = await client.get("/search/stream", params={"q": "x"})
        expected = await pipeline.search("x")
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-store"
    *snapshots, done = events_in(answer.text)
    assert len(snapshots) > 2
    assert [event.kind for event in snapshots] == ["snapshot"] * len(snapshots)
    assert [event.id for event in snapshots] == [str(event.data["seq"]) for event in snapshots]
    assert sorted({event.data["seq"] for event in snapshots}) == [event.data["seq"] for event in snapshots]
    assert [event.data["final"] for event in snapshots] == [False] * (len(snapshots) - 1) + [True]
    for event in snapshots:
        assert Snapshot.from_dict(event.data).to_dict() == event.data
    last = snapshots[-1].data
    assert Snapshot.from_dict(last).ids == expected.ids
    assert [hit["ranks"] for hit in last["hits"]] == [dict(hit.ranks) for hit in expected.hits]
    assert done.kind == "done"
    assert done.data == {"seq": last["seq"], "outcome": "complete", "elapsed": last["elapsed"]}


async def test_snapshots_arrive_while_arms_still_work() -> None:
    """Over a socket the first snapshot is there although an arm never answers; the stream ends on its own."""
    stuck = Watched(wait=True)
    pipeline = Pipeline({"quick": Watched("a").source, "stuck": stuck.source})
    async with (
        serving(create_app(pipeline)) as port,
        connection(port, "/search/stream?q=x&timeout_ms=500", "Connection: close") as (reader, _),
    ):
        first = await read_until(reader, b'"id":"a"')
        assert not stuck.closed
        assert b'"final":true' not in first
        rest = await read_until(reader, b"event: done")
        assert b'"outcome":"deadline"' in rest
        assert await asyncio.wait_for(reader.read(), 10) in {b"", b"0\r\n\r\n"}


async def test_options_of_the_request_are_those_of_the_search() -> None:
    """`q`, `top_k`, `arms` and `timeout_ms` reach the arms and the fusion."""
    first, second = Watched("a", "b", "c"), Watched("z", wait=True)
    app = create_app(Pipeline({"first": first.source, "second": second.source}))
    async with asking(app) as client:
        query = "snow \N{SNOWMAN} & rain; a=b"
        answer = await client.get("/search/stream", params={"q": query, "top_k": 2, "arms": "first"})
        final = events_in(answer.text)[-2].data
        assert (first.asked, second.asked) == ([query], [])
        assert [hit["id"] for hit in final["hits"]] == ["a", "b"]
        assert [arm["name"] for arm in final["coverage"]["arms"]] == ["first"]
        answer = await client.get("/search/stream", params={"q": "x", "timeout_ms": 80})
        final = events_in(answer.text)[-2].data
        assert final["outcome"] == "deadline"
        assert 0.07 < final["elapsed"] < 5


async def test_a_silent_stream_is_kept_open_by_comments() -> None:
    """While nothing arrives there is a comment each `ping` seconds, which is no event."""
    app = create_app(Pipeline({"silent": Watched(wait=True).source}), ping=0.05)
    async with asking(app) as client:
        answer = await client.get("/search/stream", params={"q": "x", "timeout_ms": 600})
    assert comments_in(answer.text) >= 3
    assert [event.kind for event in events_in(answer.text)][-1:] == ["done"]


async def test_a_client_that_reads_slowly_skips_to_the_newest() -> None:
    """Snapshots that nobody took in time are never sent, and the last one is."""
    pages = [f"{number}" for number in range(100)]
    app = create_app(Pipeline({"many": Watched(*pages).source}, top_k=100))

    class Slow(ByHand):
        async def send(self, message: Any) -> None:
            await asyncio.sleep(0.05)
            await super().send(message)

    client = Slow("/search/stream?q=x")
    async with asking(app):
        await app(client.scope, client.receive, client.send)
    events = events_in(client.body)
    assert len(events) < 20
    assert len(events[-2].data["hits"]) == 100


# --- what goes wrong --------------------------------------------------------------------------------------


async def test_a_required_arm_that_fails_is_told_after_the_final_snapshot() -> None:
    """The `error` is a problem that names the arm, without its words, and takes the place of `done`."""
    app = create_app(Pipeline([Arm("broken", failing, required=True), Arm("good", Watched("a").source)]))
    async with asking(app) as client:
        answer = await client.get("/search/stream", params={"q": "x"})
    *_, final, error = events_in(answer.text)
    assert (final.data["final"], final.data["outcome"]) == (True, "failed")
    assert error.kind == "error"
    assert error.data["status"] == 502
    assert error.data["arm"] == "broken"
    assert {"type", "title", "detail"} < error.data.keys()
    assert [event.kind for event in events_in(answer.text)].count("done") == 0
    assert "hunter2" not in answer.text


async def test_a_server_that_breaks_says_so_and_ends_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    """`present` that raises is a last `error` without its words, a whole body, and a log for the operator."""

    def present(_: FusedHit) -> NoReturn:
        raise LookupError("secret of the server")

    app = create_app(Pipeline({"good": Watched("a").source}), present=present)
    with caplog.at_level(logging.ERROR):
        async with serving(app) as port, connection(port, "/search/stream?q=x") as (reader, _):
            got = await read_until(reader, b"\r\n0\r\n\r\n")
    assert got.count(b"event: ") == 1
    assert b"event: error" in got
    assert b'"status":500' in got
    assert b"secret" not in got
    assert b"Traceback" not in got
    assert "secret of the server" in caplog.text


# --- again ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["3", "0", "", "anything"])
async def test_a_broken_stream_is_not_searched_again(value: str) -> None:
    """`Last-Event-ID`, whatever it says, is answered with 204, which stops a browser, and asks no arm."""
    arm = Watched("a")
    async with asking(create_app(Pipeline({"arm": arm.source}))) as client:
        answer = await client.get("/search/stream", params={"q": "x"}, headers={"Last-Event-ID": value})
    assert (answer.status_code, answer.content) == (204, b"")
    assert not arm.asked


async def test_a_stream_begins_with_an_id() -> None:
    """A browser that is cut off before any hit comes back with `Last-Event-ID`, and not with a new search."""
    silent = Watched(wait=True)
    async with (
        serving(create_app(Pipeline({"silent": silent.source}))) as port,
        connection(port, "/search/stream?q=x") as (reader, _),
    ):
        head, _, body = (await read_until(reader, b"id: ")).partition(b"\r\n\r\n")
        assert b"text/event-stream" in head
        body += b"" if body.endswith(b"\r\n\r\n") else await read_until(reader, b"\r\n\r\n")
    assert body.partition(b"\r\n")[2] == b"id: 0\r\n\r\n\r\n", "a chunk with an id, and no event"


async def test_head_and_other_methods_search_nothing() -> None:
    """HEAD, POST and OPTIONS are refused with 405 and what is allowed."""
    arm = Watched("a")
    async with asking(create_app(Pipeline({"arm": arm.source}))) as client:
        for path in ("/search", "/search/stream"):
            for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
                answer = await client.request(method, path, params={"q": "x"})
                assert (answer.status_code, answer.headers["allow"]) == (405, "GET"), method
    assert not arm.asked


async def test_what_present_gives_is_what_clients_see() -> None:
    """Each snapshot shows the hits as `present` gives them; what it leaves out is nowhere in the stream."""

    def present(hit: FusedHit) -> FusedHit:
        return hit._replace(item={"title": hit.item["title"]}, items={})

    arm = Watched(
        Hit("a", item={"title": "A", "text": "private"}), Hit("b", item={"title": "B", "text": "private"})
    )
    async with asking(create_app(Pipeline({"arm": arm.source}), present=present)) as client:
        answer = await client.get("/search/stream", params={"q": "x"})
    assert [hit["item"] for hit in events_in(answer.text)[-2].data["hits"]] == [
        {"title": "A"},
        {"title": "B"},
    ]
    assert "private" not in answer.text
