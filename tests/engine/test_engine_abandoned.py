"""Arms that are left behind because they take longer to close than anybody waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest
from engine_kit import virtual_time

from rrf_stream import Arm, drain, fuse_arms, open_fusion
from rrf_stream.testing import capture_events, script

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.anyio, virtual_time]
GRACE = 0.0625


@pytest.mark.parametrize("leave", ["search", "context"])
async def test_a_clean_up_under_way_is_left_to_end(leave: str) -> None:
    """An arm that ended by itself and is slow to close is abandoned after the grace, but not cut short."""
    sources = {
        "done": script("x", cleanup=1.0),
        "full": script("x", "y", cleanup=1.0, shield=True),
        "failed": script(fail=OSError("down"), cleanup=1.0),
    }
    arms = [Arm(name, source, window=1) for name, source in sources.items()]
    if leave == "search":
        await fuse_arms(arms, grace=GRACE)
    else:
        async with open_fusion(arms, grace=GRACE) as fusion:
            await fusion.final()
        assert anyio.current_time() == GRACE
    assert await drain() == []
    assert [source.closed for source in sources.values()] == [True, True, True]
    assert anyio.current_time() == 1


async def test_each_abandoned_arm_is_reported_once() -> None:
    """An arm still alive after the grace is named in one warning, whichever way the fusion was left."""
    for leave in ("search", "context"):
        arms = {"hangs": script(hang=True, cleanup=1.0, shield=True), "obeys": script(hang=True)}
        with capture_events() as events:
            if leave == "search":
                await fuse_arms(arms, timeout=0.5, grace=GRACE)
            else:
                async with open_fusion(arms, timeout=0.5, grace=GRACE) as fusion:
                    await fusion.final()
                await fusion.aclose()
            assert await drain() == []
        abandoned = [event for event in events if event["event"] == "rrf_stream.arm_abandoned"]
        assert [(event["arm"], event["log_level"]) for event in abandoned] == [("hangs", "warning")]


async def test_nobody_is_abandoned_who_ends_within_the_grace() -> None:
    """Obedient arms, and those that clean up in time, are no news."""
    arms = {"cleans": script(hang=True, cleanup=1 / 32, shield=True), "obeys": script(hang=True)}
    with capture_events() as events:
        await fuse_arms(arms, timeout=0.5, grace=GRACE)
        await anyio.sleep(1)
    assert [event["event"] for event in events if "abandoned" in event["event"]] == []


async def test_drain_waits_as_long_as_it_is_told() -> None:
    """It returns when all have ended, or at its timeout with the names of those that have not."""
    for cleanup, name in [(1.0, "short"), (4.0, "long")]:
        await fuse_arms({name: script(hang=True, cleanup=cleanup, shield=True)}, timeout=0)
    assert await drain(0) == ["rrf:long", "rrf:short"] or await drain(0) == ["rrf:short", "rrf:long"]
    assert anyio.current_time() == 0
    assert await drain(2) == ["rrf:long"]
    assert anyio.current_time() == 2
    assert await drain(8) == []
    assert anyio.current_time() == 4
    assert await drain() == []
    assert anyio.current_time() == 4


async def test_drain_heeds_a_cancellation() -> None:
    """Waiting for others is no clean-up of one's own: a deadline around `drain()` ends it."""
    await fuse_arms({"a": script(hang=True, cleanup=4.0, shield=True)}, timeout=0)
    with anyio.move_on_after(1) as scope:
        await drain()
    assert scope.cancelled_caught
    assert anyio.current_time() == 1
    assert await drain() == []


async def test_drain_does_not_wait_for_what_is_not_over() -> None:
    """The arms of a fusion that still runs are not waited for, and lose nothing by it."""
    async with open_fusion({"a": script("x", 1.0, "y")}) as fusion:
        assert await drain() == []
        assert anyio.current_time() == 0
        assert (await fusion.final()).ids == ["x", "y"]


@pytest.mark.parametrize("shown", [0, 1])
async def test_drain_waits_for_the_arms_of_a_handle_that_was_just_dropped(shown: int) -> None:
    """They are closed some turns of the event loop later, and it knows of them all the same."""
    source = script("x", hang=True, cleanup=1.0, shield=True)
    fusion = await open_fusion({"a": source}).__aenter__()
    for _ in range(shown):
        await anext(fusion)
    del fusion
    assert await drain() == []
    assert source.read_by is None or source.closed
    assert anyio.current_time() == (1 if source.read_by else 0)
