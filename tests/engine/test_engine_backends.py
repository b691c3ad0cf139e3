"""What each backend has of its own: asyncio's futures, timeouts and single cancellation, trio's levels."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import aiostream
import anyio
import pytest
from engine_kit import on, received, statuses, turns

from rrf_stream import Arm, ArmStatus, Page, drain, fuse_arms, open_fusion
from rrf_stream._tasks import current_backend
from rrf_stream.testing import capture_events, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio
GRACE = 0.0625


@on("asyncio", "uvloop")
async def test_an_aiostream_stream_is_a_source() -> None:
    """A stream of aiostream is entered, read and closed; asyncio only, as aiostream is."""
    closed = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
        finally:
            closed.append("numbers")

    source: Any = numbers()  # aiostream's annotations reject a generator
    stream: Any = aiostream.stream.take(aiostream.stream.iterate(source), 2)
    again = aiostream.stream.range(2)
    final = await fuse_arms({"a": stream, "b": again, "c": again})
    assert final.ids == [0, 1]
    assert received(final) == {"a": 2, "b": 2, "c": 2}
    assert final.coverage.full
    assert closed == ["numbers"]


@on("asyncio", "uvloop")
async def test_an_aiostream_stream_is_closed_with_the_window() -> None:
    """Stopping early leaves the streamer's context, which closes what it reads."""
    source = script("x", "y", "z")
    async with open_fusion([Arm("a", aiostream.stream.iterate(source), window=1)]) as fusion:
        assert (await fusion.final()).ids == ["x"]
    assert source.closed


async def _later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


@on("asyncio", "uvloop")
async def test_asyncio_futures_and_tasks_are_sources() -> None:
    """Whatever asyncio can await is an awaitable of a list."""
    future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_later(["x", "y"]))
    future.set_result(["f"])
    assert (await fuse_arms({"future": future, "task": task})).ids == ["f", "x", "y"]


@on("asyncio", "uvloop")
@pytest.mark.parametrize("way", ["timeout", "wait_for", "cancel"])
async def test_asyncio_cancels_as_usual(way: str) -> None:
    """asyncio's own timeouts and `Task.cancel` stop a search with their usual exceptions."""
    arms = {"hangs": script("x", hang=True)}
    if way == "timeout":
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await fuse_arms(arms)
    elif way == "wait_for":
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fuse_arms(arms), 0.01)
    else:
        task = asyncio.create_task(fuse_arms(arms))
        await turns(5)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task
    await turns(5)
    assert arms["hangs"].closed


@on("asyncio-virtual")
async def test_one_cancellation_is_all_an_asyncio_arm_gets() -> None:
    """An arm that swallowed it goes on to its end undisturbed; nothing it delivers counts."""
    source = script("x", 3.0, "late", "later", swallow=1, cleanup=1.0)
    async with open_fusion({"a": source}, timeout=1, grace=GRACE) as fusion:
        final = await fusion.final()
    assert not source.closed
    assert await drain() == []
    assert anyio.current_time() == 3 + 1
    assert (source.swallowed, source.closed) == (1, True)
    assert (final.ids, fusion.rankings()) == (["x"], {"a": ["x"]})


@on("asyncio-virtual")
async def test_an_asyncio_arm_finishes_its_clean_up_in_the_background() -> None:
    """It is not cut short by a second cancellation when the grace is over."""
    source = script("x", hang=True, cleanup=2.0)
    await fuse_arms({"a": source}, timeout=1, grace=GRACE)
    assert await drain() == []
    assert source.closed
    assert anyio.current_time() == 1 + 2


@on("asyncio-virtual")
async def test_late_results_are_counted_and_dropped() -> None:
    """What an arm delivers after it was closed appears in one event with its number, and nowhere else."""
    source = script("x", 2.0, Page(["p", "q", "r"]), "s", swallow=1)
    with capture_events() as events:
        async with open_fusion({"a": source}, timeout=1, grace=4) as fusion:
            final = await fusion.final()
    assert final.ids == ["x"]
    assert received(final) == {"a": 1}
    late = [event for event in events if event["event"] == "rrf_stream.late_hits"]
    assert [(event["arm"], event["received"]) for event in late] == [("a", 3)]


@on("trio-virtual")
async def test_a_trio_arm_must_shield_its_clean_up() -> None:
    """What trio does to a clean-up that waits is not the library's to change: shield it."""
    bare, shielded = script(hang=True, cleanup=2.0), script(hang=True, cleanup=2.0, shield=True)
    await fuse_arms({"bare": bare, "shielded": shielded}, timeout=1)
    assert await drain() == []
    assert (bare.closed, shielded.closed) == (False, True)


@on("asyncio-virtual")
async def test_a_second_cancellation_during_clean_up_changes_nothing() -> None:
    """The reader is cancelled while it waits for clean-up: it ends, and the arm cleans up to its end."""
    source = script("x", hang=True, cleanup=1.0)

    async def reader() -> None:
        async with open_fusion({"a": source}, grace=GRACE) as fusion:
            await anext(fusion)
            await asyncio.sleep(8)

    with capture_events() as events:
        task = asyncio.create_task(reader())
        await anyio.sleep(0.5)
        task.cancel()
        await anyio.sleep(GRACE / 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await drain() == []
    assert source.closed
    assert anyio.current_time() == 0.5 + 1
    assert [event["arm"] for event in events if event["event"] == "rrf_stream.arm_abandoned"] == ["a"]


@on("asyncio-virtual")
async def test_somebody_else_may_cancel_the_task_of_an_arm() -> None:
    """An arm whose task is cancelled from outside has failed; the fusion goes on."""
    async with open_fusion({"a": script("x", hang=True), "b": script(1.0, "y")}) as fusion:
        await anext(fusion)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "rrf:a"]
        task.cancel()
        final = await fusion.final()
    assert statuses(final) == {"a": ArmStatus.FAILED, "b": ArmStatus.EXHAUSTED}
    assert isinstance(final.coverage["a"].error, asyncio.CancelledError)
    assert final.ids == ["x", "y"]


@on("asyncio", "uvloop", "asyncio-virtual")
@pytest.mark.parametrize("part", ["nothing", "an empty module"])
async def test_a_trio_that_is_half_imported_is_not_taken_for_one_that_runs(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may be importing it: then its modules are there, with little in them."""
    monkeypatch.setitem(sys.modules, "trio", ModuleType("trio"))
    if part == "nothing":
        monkeypatch.delitem(sys.modules, "trio.lowlevel", raising=False)
    else:
        monkeypatch.setitem(sys.modules, "trio.lowlevel", ModuleType("trio.lowlevel"))
    assert current_backend().loop is asyncio.get_running_loop()
    final = await fuse_arms({"a": script("x", 0.001, "y")})
    assert (final.ids, await drain()) == (["x", "y"], [])
