"""How a fusion is left, stopped and dropped."""

from __future__ import annotations

import gc
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import forever, good, hanging, statuses, turns

from rrf_stream import ArmStatus, Fusion, Outcome, fuse_arms, open_fusion
from rrf_stream.errors import FusionClosedError
from rrf_stream.testing import script

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.anyio
REQUEST: ContextVar[str] = ContextVar("REQUEST", default="none")


# --- leaving ----------------------------------------------------------------------------------------------


class OwnError(Exception):
    """Raised by the reader's body."""


async def test_what_the_body_raises_passes_unwrapped() -> None:
    """The reader's exception leaves `async with` as itself, having stopped the arms."""
    arms = hanging("x")
    error = OwnError()

    async def reader() -> None:
        async with open_fusion(arms) as fusion:
            async for _ in fusion:
                raise error

    with pytest.raises(OwnError) as caught:
        await reader()
    assert caught.value is error
    assert error.__cause__ is error.__context__ is None
    assert arms["hangs"].closed


async def test_a_task_group_sees_the_bodys_exception_alone() -> None:
    """Inside a group the exception arrives in the group's own wrapper, with nothing of ours beside it."""

    async def reader() -> None:
        async with open_fusion(hanging("x")) as fusion:
            async for _ in fusion:
                raise OwnError

    with pytest.raises(BaseExceptionGroup) as caught:
        async with anyio.create_task_group() as group:
            group.start_soon(reader)
    (error,) = caught.value.exceptions
    assert type(error) is OwnError


async def test_a_cancelled_reader_is_cancelled() -> None:
    """Cancelling the reader ends it, and its arms with it; nothing is swallowed, nothing goes on."""
    arms = hanging("x")
    reached = []

    async def reader() -> None:
        async with open_fusion(arms) as fusion:
            await anext(fusion)
            reached.append("body")
            await anext(fusion)
        reached.append("after")

    async with anyio.create_task_group() as group:
        group.start_soon(reader)
        await turns(10)
        group.cancel_scope.cancel()
    assert reached == ["body"]
    assert arms["hangs"].closed


async def test_a_cancelled_search_is_cancelled() -> None:
    """The same for `fuse_arms`, whose arms clean up behind it."""
    arms = hanging("x")
    async with anyio.create_task_group() as group:
        group.start_soon(fuse_arms, arms)
        await turns(10)
        group.cancel_scope.cancel()
    await turns(10)
    assert arms["hangs"].closed


async def test_leaving_early_cancels_the_open_arms_only() -> None:
    """The arms still open are CANCELLED; what ended keeps its status; `final()` still tells."""
    async with open_fusion({"done": ["x"], **hanging("y")}) as fusion:
        async for _ in fusion:
            break
    final = await fusion.final()
    assert statuses(final) == {"done": ArmStatus.EXHAUSTED, "hangs": ArmStatus.CANCELLED}
    assert (final.final, final.outcome, final.ids) == (True, Outcome.STOPPED, ["x", "y"])
    assert final.coverage.degraded


async def test_leaving_after_the_end_changes_nothing() -> None:
    """A fusion that was read to its end is not degraded by leaving it."""
    async with open_fusion(good()) as fusion:
        final = await fusion.final()
    await fusion.aclose()
    assert await fusion.final() is final
    assert final.coverage.full


async def test_closing_twice_is_closing_once() -> None:
    """`aclose` may be called again, in the body or after it; the stream has ended."""
    async with open_fusion(hanging("x")) as fusion:
        await fusion.aclose()
        await fusion.aclose()
        assert [snapshot async for snapshot in fusion] == []
    await fusion.aclose()


async def test_closing_ends_a_read_that_waits() -> None:
    """A task that waits for a snapshot gets the final one when another task leaves the fusion."""
    got = []

    async def reader(fusion: Fusion) -> None:
        got.extend([snapshot async for snapshot in fusion])

    fusion = open_fusion(hanging())
    async with anyio.create_task_group() as group:
        group.start_soon(reader, fusion)
        await turns(5)
        await fusion.aclose()
    assert [(snapshot.final, snapshot.outcome) for snapshot in got] == [(True, Outcome.STOPPED)]


async def test_closing_before_the_start_closes_the_sources() -> None:
    """What was never read is closed all the same, and says CANCELLED."""
    source = script("x")

    async def coroutine() -> list[str]:
        return ["never"]

    fusion = open_fusion({"a": source, "b": coroutine(), "c": ["x"], "d": forever})
    await fusion.aclose()
    assert source.closed
    with pytest.raises(StopAsyncIteration):
        await anext(fusion)
    with pytest.raises(FusionClosedError):
        await fusion.__aenter__()
    final = await fusion.final()
    assert set(statuses(final).values()) == {ArmStatus.CANCELLED}


# --- stop -------------------------------------------------------------------------------------------------


async def test_stop_ends_with_what_has_arrived() -> None:
    """The reader that has enough gets a final snapshot next, with the open arms STOPPED."""
    arms = {"done": ["x"], **hanging("y")}
    async with open_fusion(arms) as fusion:
        await anext(fusion)
        fusion.stop()
        fusion.stop()
        (final,) = [snapshot async for snapshot in fusion]
    assert (final.final, final.outcome, final.ids) == (True, Outcome.STOPPED, ["x", "y"])
    assert statuses(final) == {"done": ArmStatus.EXHAUSTED, "hangs": ArmStatus.STOPPED}
    assert arms["hangs"].closed


async def test_stop_after_the_end_changes_nothing() -> None:
    """A complete fusion stays complete, also before its final snapshot was taken."""
    async with open_fusion({"a": ["x"]}) as fusion:
        await turns()
        fusion.stop()
        final = await fusion.final()
    assert final.outcome is Outcome.COMPLETE


async def test_stop_from_another_task_wakes_the_reader() -> None:
    """Whoever has the handle may stop it while another task waits for a snapshot."""
    async with open_fusion(hanging()) as fusion, anyio.create_task_group() as group:

        async def stopper() -> None:
            await turns(5)
            fusion.stop()

        group.start_soon(stopper)
        assert (await anext(fusion)).outcome is Outcome.STOPPED


async def test_stop_before_the_start_stops_everything() -> None:
    """A fusion stopped before it is read ends at once, with nothing in it, its arms STOPPED and closed."""
    source = script("x")
    fusion = open_fusion({"a": source, "b": forever})
    fusion.stop()
    final = await fusion.final()
    assert (final.ids, final.outcome) == ([], Outcome.STOPPED)
    assert set(statuses(final).values()) == {ArmStatus.STOPPED}
    await fusion.aclose()
    assert source.closed


# --- dropping ---------------------------------------------------------------------------------------------


async def test_a_loop_left_without_a_context_leaves_nothing() -> None:
    """After a bare `break` the dropped handle stops its arms; their sources are closed."""
    arms = hanging("x")
    async for snapshot in open_fusion(arms):
        assert snapshot.ids == ["x"]
        break
    gc.collect()
    await turns(10)
    assert arms["hangs"].closed


async def test_a_dropped_cycle_leaves_nothing() -> None:
    """A handle that is part of a reference cycle stops its arms when that is collected."""
    arms = hanging("x")
    cycle: dict[str, Any] = {"fusion": open_fusion(arms)}
    cycle["self"] = cycle
    await anext(cycle["fusion"])
    del cycle
    gc.collect()
    await turns(10)
    assert arms["hangs"].closed


async def test_a_handle_collected_in_another_thread_stops_its_arms() -> None:
    """The garbage collector may run anywhere; the arms are stopped on their own event loop."""
    arms = hanging("x")
    held = [open_fusion(arms)]
    await anext(held[0])
    await anyio.to_thread.run_sync(held.clear)
    await turns(10)
    assert arms["hangs"].closed


async def test_a_fusion_that_is_dropped_unread_leaves_nothing() -> None:
    """Nothing was started, so nothing is to be stopped, nor does a coroutine complain."""

    async def coroutine() -> list[str]:
        return ["never"]

    open_fusion({"a": script("x"), "b": ["y"], "c": forever, "d": coroutine()})
    gc.collect()
    await turns()


async def test_an_anonymous_search_is_not_dropped_while_it_runs() -> None:
    """`final()` on a handle that nobody else holds gets its answer."""

    async def collector() -> None:
        for _ in range(5):
            gc.collect()
            await anyio.sleep(0.001)

    async with anyio.create_task_group() as group:
        group.start_soon(collector)
        assert (await open_fusion({"a": script(0.01, "x")}).final()).ids == ["x"]
