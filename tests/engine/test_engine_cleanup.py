"""How arms are closed, in virtual time: in their own task, once, and never at the cost of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import ended, received, statuses, turns, virtual_time

from rrf_stream import Arm, ArmStatus, Outcome, drain, fuse_arms, open_fusion
from rrf_stream.testing import Script, capture_events, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, virtual_time]
GRACE = 0.0625


# --- closed, in its own task ------------------------------------------------------------------------------


ENDINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "exhausted": (lambda: script("x"), {}),
    "window_full": (lambda: script("x", "y", "z"), {"window": 2}),
    "timed_out": (lambda: script("x", hang=True), {"timeout": 0.25}),
    "idle": (lambda: script("x", hang=True), {"idle_timeout": 0.25}),
    "failed": (lambda: script("x", fail=OSError("down")), {}),
    "deadline": (lambda: script("x", hang=True), {}),
}


@pytest.mark.parametrize("status", ENDINGS)
async def test_a_source_is_closed_in_the_task_that_read_it(status: str) -> None:
    """However an arm ends, its source is closed once, by the arm's own task, before the fusion is left."""
    make, options = ENDINGS[status]
    source: Script = make()
    async with open_fusion([Arm("a", source, **options)], timeout=1) as fusion:
        final = await fusion.final()
    assert statuses(final) == {"a": status}
    assert source.closed
    assert source.closed_by == source.read_by
    assert source.read_by is not None
    assert source.read_by.name == "rrf:a"


async def test_a_generators_finally_runs_in_the_task_that_ran_it() -> None:
    """An asynchronous generator is closed there too, before the fusion is left."""
    tasks = []

    async def generator() -> AsyncIterator[str]:
        tasks.append(anyio.get_current_task())
        try:
            yield "x"
            await anyio.sleep_forever()
        finally:
            tasks.append(anyio.get_current_task())

    async with open_fusion({"a": generator()}, timeout=1) as fusion:
        await fusion.final()
    assert len(tasks) == 2
    assert tasks[0] == tasks[1]


async def test_an_arm_that_ends_is_closed_while_the_others_go_on() -> None:
    """A full arm gives its connection back at once, not at the end of the fusion."""
    source = script("x", "y")
    async with open_fusion([Arm("full", source, window=1), Arm("b", script(1.0, "z"))]) as fusion:
        await anyio.sleep(0.5)
        assert source.closed
        assert (await fusion.final()).elapsed == 1


async def test_leaving_closes_every_source() -> None:
    """Three arms in different states are all closed when `async with` is left."""
    sources = {"waits": script(8.0), "streams": script("x", hang=True), "done": script("y")}
    async with open_fusion(sources) as fusion:
        await anext(fusion)
    assert all(source.closed for source in sources.values())


@pytest.mark.parametrize("way", ["stop", "leave", "required"])
async def test_an_arm_cancelled_before_its_first_step_is_closed(way: str) -> None:
    """asyncio never runs a task that is cancelled before its first step; its source is closed though."""
    source = script("x")

    async def coroutine() -> list[str]:
        return ["never"]

    async def generator() -> AsyncIterator[str]:
        yield "never"

    arms = [Arm("a", source), Arm("b", coroutine()), Arm("c", generator()), Arm("d", coroutine)]
    if way == "required":
        arms.insert(0, Arm("must", lambda: None, required=True))
    fusion = open_fusion(arms)
    await fusion.__aenter__()
    if way == "stop":
        fusion.stop()
    elif way == "required":
        with pytest.raises(Exception, match="required arm 'must'"):
            await fusion.final()
    await fusion.aclose()
    assert source.closed
    if way != "required":  # there the others may have had their turn
        assert fusion.rankings()["a"] == []


async def test_the_final_snapshot_does_not_wait_for_clean_up() -> None:
    """Arms that end by themselves are reported at once, however long they take to close."""
    arms = [
        Arm("done", script("x", cleanup=2.0)),
        Arm("full", script("x", "y", cleanup=2.0), window=1),
        Arm("failed", script(fail=OSError("down"), cleanup=2.0)),
    ]
    start = anyio.current_time()
    final = await fuse_arms(arms, grace=4)
    assert ended(final) == {"done": ("exhausted", 0), "full": ("window_full", 0), "failed": ("failed", 0)}
    assert anyio.current_time() == start
    assert await drain() == []
    assert anyio.current_time() == start + 2


# --- stubborn arms ----------------------------------------------------------------------------------------


def stubborn() -> dict[str, Script]:
    """Arms that go on for two seconds after they are cancelled at one second."""
    return {
        "swallows": script("x", 3.0, "late", swallow=1, cleanup=0.0),
        "shielded": script("y", hang=True, cleanup=2.0, shield=True),
        "slow": script("z", hang=True, cleanup=2.0),
    }


async def test_the_answer_is_on_time_whatever_arms_do() -> None:
    """Arms that swallow their cancellation or clean up for seconds do not delay `fuse_arms` at all."""
    arms = stubborn()
    final = await fuse_arms(arms, timeout=1)
    assert anyio.current_time() == 1
    assert set(ended(final).values()) == {("deadline", 1.0)}
    assert set(received(final).values()) == {1}
    assert final.ids == ["x", "y", "z"]
    assert await drain() == []
    assert arms["shielded"].closed


async def test_the_stream_ends_on_time_whatever_arms_do() -> None:
    """The same for a reader: the final snapshot at the deadline, and `grace` more for leaving."""
    async with open_fusion(stubborn(), timeout=1, grace=GRACE) as fusion:
        snapshots = [snapshot async for snapshot in fusion]
        assert anyio.current_time() == 1
    assert anyio.current_time() == 1 + GRACE
    assert snapshots[-1].elapsed == 1
    assert await drain() == []


async def test_leaving_waits_no_longer_than_the_slowest_clean_up() -> None:
    """Two clean-ups of 1/32 and 1/64 s run side by side, and leaving takes 1/32 s of its grace."""
    arms = {
        "slow": script(hang=True, cleanup=1 / 32, shield=True),
        "less": script(hang=True, cleanup=1 / 64, shield=True),
    }
    async with open_fusion(arms, grace=GRACE):
        await turns()
    assert anyio.current_time() == 1 / 32
    assert all(source.closed for source in arms.values())


async def test_no_grace_is_no_wait() -> None:
    """With `grace=0` leaving returns at once, and the clean-up goes on behind."""
    source = script("x", hang=True, cleanup=1.0, shield=True)
    async with open_fusion({"a": source}, grace=0) as fusion:
        await anext(fusion)
    assert anyio.current_time() == 0
    assert not source.closed
    assert await drain() == []
    assert source.closed


async def test_clean_up_survives_the_readers_cancellation() -> None:
    """Leaving under a scope that is already cancelled still waits for the clean-up, within the grace."""
    source = script("x", hang=True, cleanup=1 / 32, shield=True)
    with anyio.CancelScope() as scope:
        async with open_fusion({"a": source}, grace=GRACE) as fusion:
            await anext(fusion)
            scope.cancel()
            await anyio.sleep(8)
    assert scope.cancelled_caught
    assert anyio.current_time() == 1 / 32
    assert source.closed


async def test_the_bodys_exception_waits_for_the_grace_only() -> None:
    """What the body raises comes out at most `grace` later, as itself."""

    async def reader() -> None:
        async with open_fusion(stubborn(), grace=GRACE) as fusion:
            await anext(fusion)
            raise LookupError

    with pytest.raises(LookupError):
        await reader()
    assert anyio.current_time() == GRACE
    assert await drain() == []


async def test_a_clean_up_that_raises_changes_no_status() -> None:
    """The arm's report was made when it ended; its failing clean-up is an event of its own."""

    def fail() -> None:
        raise OSError("cannot close")

    arms = {"done": script("x", on_close=fail), "late": script("y", hang=True, on_close=fail)}
    with capture_events() as events:
        async with open_fusion(arms, timeout=1) as fusion:
            final = await fusion.final()
    assert statuses(final) == {"done": ArmStatus.EXHAUSTED, "late": ArmStatus.DEADLINE}
    failures = [event for event in events if event["event"] == "rrf_stream.arm_cleanup_failed"]
    assert [event["arm"] for event in failures] == ["done", "late"]
    assert {event["log_level"] for event in failures} == {"warning"}
    assert all("cannot close" in event["error"] for event in failures)


async def test_an_arm_that_answers_its_cancellation_with_an_error_is_late_all_the_same() -> None:
    """An exception raised on the way out does not turn DEADLINE into FAILED."""

    async def spiteful() -> AsyncIterator[str]:
        try:
            yield "x"
            await anyio.sleep_forever()
        finally:
            raise OSError("on the way out")

    final = await fuse_arms({"a": spiteful(), "b": script(0.5, "y")}, timeout=1)
    assert ended(final) == {"a": ("deadline", 1.0), "b": ("exhausted", 0.5)}
    assert final.coverage["a"].error is None


@pytest.mark.parametrize("way", ["deadline", "stop", "leave"])
@pytest.mark.parametrize("error", [OSError, SystemExit, KeyError])
async def test_a_cancellation_that_is_answered_with_an_error_is_reported(
    error: type[BaseException], way: str
) -> None:
    """The arm failed to clean up: whoever looks at the log hears of it, with what was raised."""

    async def spiteful() -> list[str]:
        try:
            await anyio.sleep_forever()
        finally:
            raise error("cannot close")
        return ["never"]

    async def streams() -> AsyncIterator[str]:
        try:
            yield "x"
            await anyio.sleep_forever()
        finally:
            raise error("cannot close")

    arms = {"spiteful": spiteful(), "streams": streams()}
    with capture_events() as events:
        async with open_fusion(arms, timeout=1 if way == "deadline" else None) as fusion:
            await anext(fusion)
            if way == "stop":
                fusion.stop()
            if way != "leave":
                await fusion.final()
    status = {"deadline": "deadline", "stop": "stopped", "leave": "cancelled"}[way]
    final = await fusion.final()
    assert [str(one) for one in statuses(final).values()] == [status] * 2
    assert [report.error for report in final.coverage.arms] == [None, None]
    failures = [event for event in events if event["event"] == "rrf_stream.arm_cleanup_failed"]
    assert sorted((event["arm"], event["log_level"]) for event in failures) == [
        ("spiteful", "warning"),
        ("streams", "warning"),
    ]
    assert all(error.__name__ in event["error"] and "cannot close" in event["error"] for event in failures)


async def test_stopping_does_not_wait_for_clean_up_either() -> None:
    """After `stop()` the final snapshot is there at once."""
    async with open_fusion(stubborn(), grace=GRACE) as fusion:
        await anext(fusion)
        fusion.stop()
        final = await fusion.final()
        assert anyio.current_time() == 0
    assert final.outcome is Outcome.STOPPED
    assert await drain() == []
