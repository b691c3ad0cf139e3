"""`fuse` below operators of aiostream: whichever ends it early, no arm and no task is left."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from aiostream import pipe, stream
from operators_kit import Scripts, items_of, nothing_left, on_asyncio

from rrf_stream import ArmStatus, Page, Snapshot
from rrf_stream.operators import fuse, settled_hits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiostream import Stream

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_hang", "untouched"), on_asyncio]


async def ids_later(snapshot: Snapshot, *_: Any) -> list[Any]:
    await asyncio.sleep(0.001)
    return snapshot.ids


async def after(*_: Any) -> AsyncIterator[int]:
    for number in range(3):
        yield number
        await asyncio.sleep(0.001)


def found_three(snapshot: Any) -> bool:
    return len(snapshot.hits) >= 3


def patient(*arms: Any) -> Stream[Snapshot]:
    """Return a fusion that waits for its arms to clean up, however busy the machine is."""
    return fuse(*arms, grace=30)


LATER: Any = ids_later  # aiostream's annotations do not know what a function of several streams is
AFTER: Any = after
OTHER: Any = stream.just("other")  # nor a list of streams of two kinds
OPERATORS: dict[str, tuple[Callable[[Any], Stream[Any]], int]] = {
    "take": (lambda xs: xs | pipe.take(2), 2),
    "take nothing": (lambda xs: xs | pipe.take(0), 0),
    "takelast": (lambda xs: xs | pipe.take(3) | pipe.takelast(2), 2),
    "skip": (lambda xs: xs | pipe.skip(1) | pipe.take(1), 1),
    "slice": (lambda xs: xs[1:3], 2),
    "until": (lambda xs: xs | pipe.until(found_three), 3),
    "takewhile": (lambda xs: xs | pipe.takewhile(lambda snapshot: not found_three(snapshot)), 2),
    "filter": (lambda xs: xs | pipe.filter(found_three) | pipe.take(1), 1),
    "enumerate": (lambda xs: xs | pipe.enumerate() | pipe.take(2), 2),
    "chunks": (lambda xs: xs | pipe.chunks(2) | pipe.take(1), 1),
    "map": (lambda xs: xs | pipe.map(lambda snapshot, *_: snapshot.ids) | pipe.take(2), 2),
    "map, asynchronous": (lambda xs: xs | pipe.map(LATER) | pipe.take(2), 2),
    "map, in any order": (lambda xs: xs | pipe.map(LATER, ordered=False, task_limit=2) | pipe.take(2), 2),
    "timeout": (lambda xs: xs | pipe.timeout(5) | pipe.take(2), 2),
    "spaceout": (lambda xs: xs | pipe.spaceout(0.001) | pipe.take(2), 2),
    "delay": (lambda xs: xs | pipe.delay(0.001) | pipe.take(2), 2),
    "merge": (lambda xs: stream.merge(xs, OTHER) | pipe.take(3), 3),
    "merge, twice": (lambda xs: stream.merge(xs, xs) | pipe.take(3), 3),
    "chain": (lambda xs: stream.chain(OTHER, xs) | pipe.skip(1) | pipe.take(2), 2),
    "zip": (lambda xs: stream.zip(xs, xs) | pipe.take(2), 2),
    "ziplatest": (lambda xs: stream.ziplatest(xs, xs) | pipe.take(3), 3),
    "flatten": (lambda xs: stream.flatten(stream.iterate([xs, OTHER])) | pipe.take(3), 3),
    "switch": (lambda xs: stream.switch(stream.iterate([xs, xs])) | pipe.take(3), 3),
    "switchmap over it": (lambda xs: xs | pipe.switchmap(AFTER) | pipe.take(2), 2),
    "concatmap to it": (lambda xs: stream.range(3) | pipe.concatmap(lambda *_: xs) | pipe.take(2), 2),
    "flatmap to it": (lambda xs: stream.range(3) | pipe.flatmap(lambda *_: xs) | pipe.take(4), 4),
    "switchmap to it": (lambda xs: stream.range(3) | pipe.switchmap(lambda *_: xs) | pipe.take(2), 2),
    "settled hits": (lambda xs: xs | settled_hits.pipe() | pipe.take(2), 2),
    "settled hits, merged": (
        lambda xs: stream.merge(xs | settled_hits.pipe(), xs | settled_hits.pipe()) | pipe.take(3),
        3,
    ),
    "switchmap to settled hits": (
        lambda xs: stream.range(3) | pipe.switchmap(lambda *_: settled_hits(xs)) | pipe.take(2),
        2,
    ),
    "fuse": (lambda xs: patient(xs | pipe.map(lambda snapshot, *_: snapshot.seq)) | pipe.take(3), 3),
}


MAY_SKIP = {"until", "takewhile"}
"""Operators that count hits, some of which arrive together if the machine is busy."""


@pytest.mark.parametrize("name", OPERATORS)
async def test_an_operator_that_is_left_early_leaves_no_task(name: str) -> None:
    """When the context of the stream is left, the arms of all fusions below are closed, and nothing runs."""
    build, count = OPERATORS[name]
    arms = Scripts()
    async with nothing_left():
        items = await items_of(build(patient(arms.ticking())))
        assert all(arms.closed)
    if name in MAY_SKIP:
        assert len(items) <= count
    else:
        assert len(items) == count
    assert bool(arms.all) == bool(count)


@pytest.mark.parametrize("name", OPERATORS)
async def test_an_error_in_the_loop_over_an_operator_leaves_no_task(name: str) -> None:
    """The error comes out as it is, and the arms are closed when it does."""
    build, count = OPERATORS[name]
    arms = Scripts()

    async def read() -> None:
        async with build(patient(arms.ticking())).stream() as streamer:
            async for _ in streamer:
                raise LookupError("of the reader")

    async with nothing_left():
        if count:
            with pytest.raises(LookupError, match="of the reader"):
                await read()
        else:
            await read()
        assert all(arms.closed)


@pytest.mark.parametrize("name", [name for name, (_, count) in OPERATORS.items() if count])
@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "in the loop"])
async def test_a_cancelled_reader_leaves_no_task(name: str, *, waits: bool) -> None:
    """Cancelling the task that reads closes the arms before that task has ended."""
    build, _ = OPERATORS[name]
    arms = Scripts()
    started = asyncio.Event()

    async def hanging() -> Any:
        started.set()
        return await arms.arm(hang=True)()

    async def read() -> None:
        async with build(patient(hanging if waits else arms.ticking())).stream() as streamer:
            async for _ in streamer:
                if not waits:
                    started.set()
                    await asyncio.Event().wait()

    async with nothing_left():
        reader = asyncio.create_task(read())
        await started.wait()
        await asyncio.sleep(0.002)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert arms.all
        assert all(arms.closed)


async def test_a_timeout_that_fires_stops_the_arms() -> None:
    """aiostream's `timeout` is for each step; when it fires, its source is closed before the error is out."""
    arms = Scripts()
    seen: list[Snapshot] = []
    async with nothing_left():
        with pytest.raises(asyncio.TimeoutError):
            await (patient(arms.arm("x", hang=True)) | pipe.timeout(0.3) | pipe.action(seen.append))
        assert arms.closed == [True]
    assert [snapshot.ids for snapshot in seen] == [["x"]]


async def test_switchmap_closes_the_old_query_before_the_new_one_answers() -> None:
    """A search as one types: each new query stops the arms of the one before, and the last one ends."""
    arms = Scripts()
    queries = stream.iterate(["t", "ta", "tas"]) | pipe.spaceout(0.02)
    closed: list[list[bool]] = []

    def search(query: str, *_: Any) -> Stream[Snapshot]:
        hangs = query != "tas"
        return patient({"text": arms.arm(query, 0.001, query + "!", hang=hangs)})

    async with nothing_left(), (queries | pipe.switchmap(search)).stream() as answers:
        ids = []
        async for snapshot in answers:
            ids.append(snapshot.ids)
            closed.append(arms.closed[:-1])
    assert ids[-1] == ["tas", "tas!"]
    assert all(all(before) for before in closed)
    assert arms.closed[-1:] == [True]


async def test_settled_hits_close_the_arms_when_enough_are_certain() -> None:
    """`take` on settled hits ends a fusion as soon as its first positions can not change any more."""
    arms = Scripts()
    both = patient({"strong": arms.arm("a", "b"), "second": arms.arm("a", 0.001, "c", hang=True)})
    async with nothing_left():
        (hit,) = await items_of(both | settled_hits.pipe() | pipe.take(1))
        assert (hit.id, hit.rank) == ("a", 1)
        assert arms.closed == [True, True]


SOURCES: dict[str, Callable[[Any], Stream[Any]]] = {
    "iterate": stream.iterate,
    "map": lambda xs: stream.iterate(xs) | pipe.map(lambda hit, *_: hit),
    "map, asynchronous": lambda xs: stream.iterate(xs) | pipe.map(later_itself),
    "filter and enumerate": lambda xs: (
        stream.iterate(xs) | pipe.filter(bool) | pipe.enumerate() | pipe.map(lambda pair, *_: pair[1])
    ),
    "merge": lambda xs: stream.merge(stream.iterate(xs), stream.empty()),
    "chain": lambda xs: stream.iterate(xs) + stream.empty(),
    "flatten": lambda xs: stream.flatten(stream.iterate([stream.iterate(xs)])),
    "switchmap": lambda xs: stream.just(0) | pipe.switchmap(lambda *_: stream.iterate(xs)),
    "spaceout": lambda xs: stream.iterate(xs) | pipe.spaceout(0.001),
    "timeout": lambda xs: stream.iterate(xs) | pipe.timeout(30),
    "settled hits of a fusion": lambda xs: (
        patient(stream.iterate(xs)) | settled_hits.pipe() | pipe.map(lambda hit, *_: hit.id)
    ),
}


async def later_itself(hit: Any, *_: Any) -> Any:
    await asyncio.sleep(0)
    return hit


@pytest.mark.parametrize("name", SOURCES)
async def test_a_stream_of_any_operator_is_an_arm(name: str) -> None:
    """What aiostream makes of a source is an arm with the same hits in the same order, read twice as well."""
    xs = fuse({"stream": SOURCES[name](["a", "b", "c"]), "other": ["c"]})
    for _ in range(2):
        async with nothing_left():
            final = await xs
        assert final.ids == ["c", "a", "b"]
        assert {report.name: report.received for report in final.coverage.arms} == {"stream": 3, "other": 1}


@pytest.mark.parametrize("name", SOURCES)
async def test_an_arm_of_any_operator_is_closed_with_its_fusion(name: str) -> None:
    """An arm that still runs when the time is up, or the reader leaves, ends with all that it started."""
    arms = Scripts()

    async def hits() -> AsyncIterator[Any]:  # aiostream closes what is no generator while it is being read
        async with aclosing(await arms.ticking()()) as source:
            async for hit in source:
                yield hit  # noqa: ASYNC119 - no scope is open here

    async def source() -> Stream[Any]:
        return SOURCES[name](hits())

    xs = fuse(source, timeout=0.05, grace=30)
    async with nothing_left():
        final = await xs
        assert final.coverage["0"].status == ArmStatus.DEADLINE
    async with nothing_left():
        assert len(await items_of(xs | pipe.take(1))) == 1
    assert arms.closed == [True, True]


async def test_pages_are_made_by_two_operators() -> None:
    """`pipe.chunks(n) | pipe.map(Page)` delivers many hits at once."""
    page: Any = Page
    snapshots = await items_of(fuse(stream.range(6) | pipe.chunks(3) | pipe.map(page)))
    assert [len(snapshot.hits) % 3 for snapshot in snapshots] == [0] * len(snapshots)
    assert snapshots[-1].ids == [*range(6)]
