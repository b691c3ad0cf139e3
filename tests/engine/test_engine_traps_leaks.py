"""Traps of what is left behind: by readers that go, by arms that nobody refers to, while nobody reads."""

from __future__ import annotations

import gc
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from engine_kit import hanging, on, run_virtual, turns, virtual_time

from rrf_stream import Arm, Page, drain, fuse_arms, open_fusion
from rrf_stream.testing import VIRTUAL_BACKENDS, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


# --- nothing is left --------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["returns", "raises", "is cancelled"])
async def test_a_bare_loop_that_is_left_in_any_way_leaves_nothing(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without `async with` the dropped handle stops its arms, however it was left; nothing is logged."""
    arms = hanging("x")

    async def reader() -> None:
        async for _ in open_fusion(arms):
            if how == "returns":
                return
            if how == "raises":
                raise LookupError
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    with anyio.CancelScope() as scope:
        try:
            await reader()
        except LookupError:
            assert how == "raises"
    assert scope.cancelled_caught is (how == "is cancelled")
    gc.collect()
    await turns(10)
    assert arms["hangs"].closed
    assert caplog.records == []


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["stop", "leave", "unentered"])
async def test_a_source_that_was_never_read_is_closed_by_a_task_of_its_arm(way: str) -> None:
    """Also then it is closed on the event loop, by a task that has the arm's name and is in the registry."""
    source = script("x")
    fusion = open_fusion({"a": source})
    if way != "unentered":
        await fusion.__aenter__()
    if way == "stop":
        fusion.stop()
    await fusion.aclose()
    assert source.closed
    assert source.closed_by is not None
    assert source.closed_by.name == "rrf:a"
    assert (await fusion.final()).coverage["a"].received == 0


@pytest.mark.anyio
async def test_an_arm_that_nothing_else_refers_to_is_not_collected() -> None:
    """asyncio itself holds tasks weakly: one that waits for what only it knows would be destroyed."""
    left = []

    async def lonely() -> AsyncIterator[str]:
        try:
            yield "x"
            await anyio.Event().wait()
        finally:
            left.append("cleaned up")

    async with open_fusion({"a": lonely()}) as fusion:
        await anext(fusion)
        for _ in range(3):
            gc.collect()
            await turns()
        assert repr(fusion).endswith("1 tasks alive>")
        assert left == []
    assert left == ["cleaned up"]


def test_a_fusion_may_be_built_and_dropped_where_no_event_loop_runs() -> None:
    """Building starts nothing and needs no loop; running it does, and says so."""

    async def never() -> list[str]:
        return ["never"]

    open_fusion({"a": never(), "b": script("x")})
    gc.collect()
    for backend in VIRTUAL_BACKENDS:
        built = open_fusion({"a": script(1.0, "x")}, timeout=3)
        assert run_virtual(backend, built.final).ids == ["x"]
    with pytest.raises(anyio.NoEventLoopError):
        open_fusion({"a": ["x"]}).__aenter__().send(None)


@pytest.mark.anyio
@on("asyncio", "trio")
async def test_draining_one_event_loop_does_not_wait_for_another() -> None:
    """The registry is of the process; a loop in another thread cleans up on its own time."""
    cleans_up, may_end = threading.Event(), threading.Event()

    async def slow() -> AsyncIterator[str]:
        try:
            yield "x"
            await anyio.sleep_forever()
        finally:
            cleans_up.set()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(may_end.wait)

    async def elsewhere() -> list[str]:
        await fuse_arms({"slow": slow()}, timeout=0, grace=0)
        return await drain()

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, partial(anyio.run, elsewhere, backend="asyncio"))
        await anyio.to_thread.run_sync(cleans_up.wait)
        assert await drain() == []
        may_end.set()


# --- slow readers -----------------------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
async def test_a_slow_reader_costs_no_memory() -> None:
    """While nobody reads, forty thousand results that change nothing are not kept; the end is shown."""

    async def churning() -> AsyncIterator[Page[int]]:
        while True:
            yield Page(range(50))
            await anyio.sleep(1 / 64)

    async with open_fusion([Arm("a", churning(), window=None)], repeats="skip", timeout=20) as fusion:
        await anext(fusion)
        await anyio.sleep(4)
        gc.collect()
        before = sys.getallocatedblocks()
        await anyio.sleep(12)
        gc.collect()
        assert sys.getallocatedblocks() - before < 500
        snapshots = [snapshot async for snapshot in fusion]
    assert [snapshot.final for snapshot in snapshots][-1:] == [True]
    assert snapshots[-1].coverage["a"].received >= 16 * 64 * 50
