"""Traps of cancellation and collection: each has cost somebody a task, an answer or a core."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from engine_kit import (
    assert_is_batch,
    ended,
    hanging,
    on,
    received,
    statuses,
    turns,
    virtual_time,
)

from rrf_stream import Arm, ArmStatus, Fusion, Outcome, drain, fuse_arms, open_fusion
from rrf_stream.errors import ArmError
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GRACE = 0.0625


@pytest.mark.anyio
@on("asyncio", "uvloop", "trio", "asyncio-virtual", "trio-virtual")
async def test_each_variant_of_a_test_runs_where_it_says(request: pytest.FixtureRequest) -> None:
    """A variant that silently ran on another event loop would test nothing."""
    kind, _, clock = str(request.node.callspec.params["anyio_backend"]).partition("-")
    loop = anyio.lowlevel.current_token().native_token
    home = "rrf_stream" if (kind, clock) == ("asyncio", "virtual") else kind
    assert type(loop).__module__.partition(".")[0] == home
    assert (anyio.current_time() == 0) is (clock == "virtual")


# --- how often an arm is cancelled ------------------------------------------------------------------------


async def stubborn(deliveries: list[float]) -> AsyncIterator[str]:
    """Swallow cancellations for two seconds, or up to a hundred of them."""
    yield "x"
    until = anyio.current_time() + 2
    while anyio.current_time() < until and len(deliveries) < 100:
        try:
            await asyncio.sleep(until - anyio.current_time())
        except asyncio.CancelledError:
            deliveries.append(anyio.current_time())


@pytest.mark.anyio
@on("asyncio-virtual")
@pytest.mark.parametrize("way", ["deadline", "timeout", "stop", "leave", "cancelled read", "cancelled body"])
async def test_a_swallowed_cancellation_is_not_delivered_again(way: str) -> None:
    """An anyio scope would cancel a task that stays inside at every turn of the loop; an arm is in none."""
    deliveries: list[float] = []
    arms = [Arm("a", stubborn(deliveries), timeout=0.5 if way == "timeout" else None)]
    with anyio.CancelScope() as scope:
        async with open_fusion(arms, timeout=0.5 if way == "deadline" else None, grace=GRACE) as fusion:
            await anext(fusion)
            if way == "stop":
                fusion.stop()
            elif way == "cancelled read":
                scope.deadline = 0.5
                await anext(fusion)
            elif way == "cancelled body":
                scope.cancel()
                await anyio.sleep(1)
            elif way != "leave":
                await fusion.final()
    assert await drain() == []
    assert anyio.current_time() == 2
    assert len(deliveries) == 1


@pytest.mark.anyio
@on("asyncio-virtual")
async def test_a_search_in_a_cancelled_scope_cancels_its_arms_once() -> None:
    """The same for `fuse_arms`, whose caller is cancelled while it waits."""
    deliveries: list[float] = []
    with anyio.move_on_after(0.5) as scope:
        scope.deadline = anyio.current_time() + 9  # the fusion takes note of a deadline when it starts
        async with anyio.create_task_group() as group:
            group.start_soon(fuse_arms, {"a": stubborn(deliveries)})
            await anyio.sleep(0.5)
            group.cancel_scope.cancel()
    assert await drain() == []
    assert deliveries == [0.5]


@pytest.mark.anyio
@on("asyncio-virtual")
@pytest.mark.parametrize("then", ["deadline", "stop", "leave", "required", "quorum"])
async def test_what_happens_during_a_clean_up_does_not_cut_it_short(then: str) -> None:
    """An arm that was cancelled at its timeout is not cancelled again when the fusion ends half-way."""
    source = script("x", hang=True, cleanup=2.0)
    failing = Arm("must", script(1.0, fail=OSError("down")), required=True)
    arms = [
        Arm("a", source, timeout=0.5),
        Arm("b", script(hang=True)),
        *([failing] if then == "required" else []),
    ]
    limits: dict[str, Any] = {"deadline": {"timeout": 1}, "quorum": {"quorum": 0.5, "patience": 0.5}}
    options = limits.get(then, {})
    async with open_fusion(arms, grace=GRACE, **options) as fusion:
        if then == "required":
            with pytest.raises(ArmError):
                await fusion.final()
        elif options:
            await fusion.final()
        else:
            await anyio.sleep(1)
        if then == "stop":
            fusion.stop()
        assert anyio.current_time() == 1
    assert anyio.current_time() == 1 + GRACE
    assert await drain() == []
    assert anyio.current_time() == 0.5 + 2
    assert source.closed
    assert (await _told(fusion))["a"] == ("timed_out", 0.5)


async def _told(fusion: Fusion) -> dict[str, Any]:
    return ended(await fusion.final())


# --- whose cancellation it is -----------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
async def test_a_callers_timeout_in_the_body_is_the_callers() -> None:
    """`fail_after` that fires while the body does something else raises TimeoutError, and no more."""
    arms = hanging("x")

    async def reader() -> None:
        with anyio.fail_after(0.5):
            async with open_fusion(arms) as fusion:
                await anext(fusion)
                await anyio.sleep(8)

    with pytest.raises(TimeoutError) as caught:
        await reader()
    assert type(caught.value) is TimeoutError
    assert anyio.current_time() == 0.5
    assert arms["hangs"].closed


@pytest.mark.anyio
@on("asyncio-virtual")
async def test_an_asyncio_timeout_leaves_no_trace_in_the_readers_task() -> None:
    """`asyncio.timeout` around a stream fires as itself, and the task counts no cancellation afterwards."""
    arms = hanging("x")

    async def reader() -> None:
        async with asyncio.timeout(0.5), open_fusion(arms) as fusion:
            async for _ in fusion:
                pass

    with pytest.raises(TimeoutError):
        await reader()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert arms["hangs"].closed
    assert (await fuse_arms({"a": script(1.0, "y")})).ids == ["y"]
    assert anyio.current_time() == 0.5 + 1


@pytest.mark.anyio
@on("asyncio-virtual")
async def test_a_failing_sibling_cancels_the_reader_and_is_alone_in_the_group() -> None:
    """In an asyncio task group the group has the sibling's error, and nothing of the fusion beside it."""
    arms = hanging("x")

    async def reader() -> None:
        async with open_fusion(arms) as fusion:
            async for _ in fusion:
                pass

    async def sibling() -> None:
        await asyncio.sleep(0.5)
        raise LookupError

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(reader()), group.create_task(sibling())]
    assert [type(error) for error in caught.value.exceptions] == [LookupError]
    assert tasks[0].cancelled()
    assert arms["hangs"].closed


@pytest.mark.anyio
@on("asyncio-virtual")
async def test_the_deadline_of_whoever_made_an_asyncio_task_is_not_the_tasks() -> None:
    """A plain asyncio task is in no scope of its maker, so a search in it has its own time only."""
    with anyio.move_on_after(1):
        task = asyncio.create_task(fuse_arms(hanging("x"), timeout=2))
        await anyio.sleep(8)
    assert anyio.current_time() == 1
    final = await task
    assert (final.ids, final.elapsed) == (["x"], 2)


@pytest.mark.anyio
@on("asyncio-virtual")
async def test_an_arm_that_awaits_what_was_cancelled_has_failed() -> None:
    """A cancelled future that an arm meets is the failure of that arm, and the end of nobody else."""
    future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
    future.cancel()

    async def awaits() -> AsyncIterator[str]:
        yield "x"
        await future

    final = await fuse_arms({"a": awaits(), "b": future, "c": script(1.0, "y")})
    assert statuses(final) == {"a": ArmStatus.FAILED, "b": ArmStatus.FAILED, "c": ArmStatus.EXHAUSTED}
    assert received(final) == {"a": 1, "b": 0, "c": 1}
    assert final.outcome is Outcome.COMPLETE


class OddError(BaseException):
    """No `Exception`."""


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize(
    "error", [OddError("odd"), GeneratorExit("odd")], ids=lambda error: type(error).__name__
)
async def test_an_arm_that_raises_what_is_no_exception_has_failed(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """What is not an `Exception` neither passes the fusion nor ends the event loop, and is reported once."""
    final = await fuse_arms({"a": script("x", 0.5, fail=error), "b": script(1.0, "y")}, timeout=4)
    assert ended(final) == {"a": ("failed", 0.5), "b": ("exhausted", 1.0)}
    assert final.coverage["a"].error is error
    gc.collect()
    await turns()
    assert [record for record in caplog.records if record.name != "rrf_stream"] == []


# --- arms that hold up the event loop ----------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_arm_that_works_hard_for_each_result_and_never_suspends_is_stopped_in_time() -> None:
    """With 2 ms of work a result, counting results would come too late: the clock is looked at for each."""

    async def working() -> AsyncIterator[int]:
        for number in range(500):
            until = time.perf_counter() + 0.002
            while time.perf_counter() < until:
                pass
            yield number

    late = []
    for _ in range(5):  # as the machine may be busy
        final = await fuse_arms([Arm("a", working(), window=None)], timeout=0.05)
        assert statuses(final) == {"a": ArmStatus.DEADLINE}
        assert received(final)["a"] < 500 / 2
        late.append((final.elapsed or 0) - 0.05)
        if late[-1] <= 0.05:
            break
    assert late[-1] <= 0.05, late


# --- at one instant ---------------------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("last", ["delivers", "ends", "fails", "fills its window"])
@pytest.mark.parametrize("limit", ["fusion", "arm", "idle"])
async def test_what_an_arm_does_at_the_instant_of_its_limit_is_told_as_one_story(
    last: str, limit: str
) -> None:
    """Whichever of the two comes first: status, count, outcome and hits agree, and it is never later."""
    steps: list[Any] = ["x", 1.0, *([] if last == "ends" else ["y"])]
    source = script(*steps, hang=last == "delivers", fail=OSError("down") if last == "fails" else None)
    window = 2 if last == "fills its window" else 100
    limits: dict[str, Any] = {"arm": {"timeout": 1.0}, "idle": {"idle_timeout": 1.0}}.get(limit, {})
    arms = [Arm("a", source, window=window, **limits), Arm("b", ["y"])]
    async with open_fusion(arms, timeout=1 if limit == "fusion" else 2) as fusion:
        final = await fusion.final()
        assert_is_batch(final, fusion)
        count = len(fusion.rankings()["a"])
    by_itself = {"ends": "exhausted", "fails": "failed", "fills its window": "window_full"}.get(last)
    by_limit = {"fusion": "deadline", "arm": "timed_out", "idle": "idle"}[limit]
    status, when = ended(final)["a"]
    if (limit, last, status) == ("idle", "delivers", "deadline"):  # it delivered just in time, and hung again
        assert (when, count) == (2, 2)
        return
    assert status in {by_itself, by_limit}
    assert (when, final.elapsed) == (1, 1)
    assert received(final)["a"] == count <= 2
    if status == by_itself:
        assert count == (1 if last == "ends" else 2)
        assert final.outcome is Outcome.COMPLETE
    else:
        assert final.outcome is (Outcome.DEADLINE if limit == "fusion" else Outcome.COMPLETE)
