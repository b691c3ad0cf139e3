"""Every time setting, to the exact moment, in virtual time: binary fractions of seconds add up exactly."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from engine_kit import assert_is_batch, ended, read, received, statuses, virtual_time

from rrf_stream import Arm, ArmStatus, Outcome, fuse_arms, open_fusion
from rrf_stream.testing import script

pytestmark = [pytest.mark.anyio, virtual_time]
MARGIN = 0.005
"""What the final snapshot is ahead of an enclosing deadline."""


# --- one deadline for all ---------------------------------------------------------------------------------


async def test_an_unhurried_fusion_takes_as_long_as_its_slowest_arm() -> None:
    """Without a time budget the final snapshot comes with the end of the last arm."""
    final = await fuse_arms({"a": script(0.25, "x"), "b": script("y", 2.5), "c": script(1.0)})
    assert final.elapsed == 2.5
    assert final.outcome is Outcome.COMPLETE
    assert ended(final) == {"a": ("exhausted", 0.25), "b": ("exhausted", 2.5), "c": ("exhausted", 1.0)}
    assert [report.first_hit_after for report in final.coverage.arms] == [0.25, 0.0, None]


async def test_a_slow_arm_contributes_what_arrived() -> None:
    """At the deadline the finished arm is whole, and the slow one counts with two of its three results."""
    arms = {"slow": script(0.25, "p", 0.25, "q", 0.25, "r"), "done": script(0.125, "r", "s")}
    async with open_fusion(arms, timeout=0.625) as fusion:
        final = await fusion.final()
        assert_is_batch(final, fusion)
    assert final.ids == ["p", "r", "q", "s"]
    assert (final.elapsed, final.outcome) == (0.625, Outcome.DEADLINE)
    assert ended(final) == {"slow": ("deadline", 0.625), "done": ("exhausted", 0.125)}
    assert received(final) == {"slow": 2, "done": 2}


@pytest.mark.parametrize("count", [1, 20])
async def test_hung_arms_cost_one_timeout_together(count: int) -> None:
    """Twenty arms that hang after one result each are as late as one."""
    final = await fuse_arms(
        {f"arm {number}": script(number, hang=True) for number in range(count)}, timeout=8
    )
    assert final.elapsed == 8
    assert set(ended(final).values()) == {("deadline", 8.0)}
    assert set(received(final).values()) == {1}


async def test_an_absolute_deadline_is_a_time_of_the_event_loop() -> None:
    """`deadline` is on anyio's clock; of it and `timeout` the earlier counts."""
    await anyio.sleep(16)
    now = anyio.current_time()
    budgets: list[tuple[dict[str, Any], float]] = [
        ({"deadline": now + 4}, 4),
        ({"deadline": now + 6, "timeout": 0.5}, 0.5),
        ({"deadline": now + 5, "timeout": 2}, 0.5),
    ]
    for options, elapsed in budgets:
        assert (await fuse_arms({"a": script(hang=True)}, **options)).elapsed == elapsed


@pytest.mark.parametrize("options", [{"timeout": 0}, {"deadline": -1.0}, {"deadline": 0.0}])
async def test_no_time_at_all_still_takes_what_is_there(options: Any) -> None:
    """With a budget of nothing, what arms deliver without waiting counts."""
    await anyio.sleep(1)
    final = await fuse_arms({"ready": ["x", "y"], "waits": script("z", 0.25, "never")}, **options)
    assert final.ids == ["x", "z", "y"]
    assert ended(final) == {"ready": ("exhausted", 0), "waits": ("deadline", 0)}
    assert (final.elapsed, final.outcome) == (0, Outcome.DEADLINE)


async def test_no_limit_is_no_limit() -> None:
    """An infinite timeout, like None, never fires, and days are not too long for a timer."""
    days = 10.0 * 24 * 60 * 60
    assert (await fuse_arms({"a": script(days, "x")}, timeout=float("inf"))).elapsed == days
    assert (await fuse_arms([Arm("a", script(hang=True), timeout=days)])).elapsed == days
    assert (await fuse_arms({"a": script(0.5, "x")}, timeout=None, deadline=None)).elapsed == 0.5


async def test_the_clock_starts_on_entering() -> None:
    """Time between building and entering is not the fusion's."""
    fusion = open_fusion({"a": script(hang=True)}, timeout=1)
    await anyio.sleep(4)
    async with fusion:
        assert (await fusion.final()).elapsed == 1
    bare = open_fusion({"a": script(hang=True)}, timeout=1)
    await anyio.sleep(4)
    assert [snapshot.elapsed async for snapshot in bare] == [1]


async def test_the_deadline_holds_while_nobody_reads() -> None:
    """A reader who comes back late finds the fusion closed at its deadline, with nothing from later."""
    source = script("x", 0.5, "y", 1.0, "too late")
    async with open_fusion({"a": source, "b": script(hang=True)}, timeout=1) as fusion:
        await anyio.sleep(4)
        assert source.closed
        snapshots = [snapshot async for snapshot in fusion]
    (final,) = snapshots
    assert final.final
    assert final.ids == ["x", "y"]
    assert ended(final) == {"a": ("deadline", 1.0), "b": ("deadline", 1.0)}


async def test_an_enclosing_deadline_gets_its_answer_before_it_fires() -> None:
    """The caller's own scope is part of the budget: the answer is there five milliseconds before."""
    for scope in (anyio.move_on_after, anyio.fail_after):
        with scope(0.5) as outer:
            final = await fuse_arms({"a": script("x", hang=True)}, timeout=4)
            assert statuses(final) == {"a": ArmStatus.DEADLINE}
            assert final.elapsed == pytest.approx(0.5 - MARGIN, abs=1e-9)
        assert not outer.cancelled_caught


async def test_the_nearest_of_several_enclosing_deadlines_counts() -> None:
    """Of an outer scope, an inner one and the fusion's own timeout the earliest decides."""
    for outer, inner, own, expected in [(1, 2, 4, 1 - MARGIN), (2, 1, 4, 1 - MARGIN), (2, 4, 1, 1)]:
        with anyio.fail_after(outer), anyio.fail_after(inner):
            final = await fuse_arms({"a": script(hang=True)}, timeout=own)
        assert final.elapsed == pytest.approx(expected, abs=1e-9)


async def test_a_stream_ends_before_the_deadline_around_it() -> None:
    """The reader's loop gets its final snapshot, and leaves the block, before an enclosing scope fires."""
    with anyio.fail_after(0.5):
        snapshots = await read(open_fusion({"a": script("x", hang=True)}))
    assert [snapshot.final for snapshot in snapshots] == [False, True]
    assert snapshots[-1].elapsed == pytest.approx(0.5 - MARGIN, abs=1e-9)


async def test_a_deadline_around_final_is_part_of_the_budget() -> None:
    """`final()` heeds a scope opened after the fusion was."""
    async with open_fusion({"a": script("x", hang=True)}, timeout=4) as fusion:
        with anyio.fail_after(0.5):
            final = await fusion.final()
    assert (final.ids, final.outcome) == (["x"], Outcome.DEADLINE)
    assert final.elapsed == pytest.approx(0.5 - MARGIN, abs=1e-9)


async def test_a_deadline_around_one_read_gives_up_that_read_only() -> None:
    """Giving up on one snapshot neither ends the fusion nor loses what arrives afterwards."""
    async with open_fusion({"a": script("x", 1.0, "y")}) as fusion:
        assert (await anext(fusion)).ids == ["x"]
        with anyio.move_on_after(0.5) as scope:
            await anext(fusion)
        assert scope.cancelled_caught
        snapshots = [snapshot async for snapshot in fusion]
    assert snapshots[0].ids == ["x", "y"]
    assert ended(snapshots[-1]) == {"a": ("exhausted", 1.0)}


async def test_an_exhausted_scope_cancels_as_usual() -> None:
    """Under a deadline that has passed there is no answer, only the caller's own cancellation."""
    source = script("x", hang=True)
    with anyio.move_on_after(-1) as scope:
        await fuse_arms({"a": source})
    assert scope.cancelled_caught


# --- the arm's own time -----------------------------------------------------------------------------------


async def test_an_arm_has_a_timeout_of_its_own() -> None:
    """It is counted from the start, whatever the arm delivers meanwhile."""
    final = await fuse_arms(
        [
            Arm("short", script("x", 0.25, "y", 0.25, "z", hang=True), timeout=0.375),
            Arm("long", script(1.0, "w")),
        ]
    )
    assert ended(final) == {"short": ("timed_out", 0.375), "long": ("exhausted", 1.0)}
    assert received(final) == {"short": 2, "long": 1}
    assert final.outcome is Outcome.COMPLETE
    assert final.coverage.reasons == (ArmStatus.TIMED_OUT,)


async def test_an_idle_arm_is_closed_after_its_last_result() -> None:
    """Each result starts the idle time anew; before the first it is counted from the start."""
    final = await fuse_arms(
        [
            Arm("silent", script(hang=True), idle_timeout=0.25),
            Arm("stalls", script(0.125, "x", 0.125, "y", hang=True), idle_timeout=0.5),
            Arm("steady", script(*[0.375, "x"] * 4, hang=True), idle_timeout=0.5),
        ]
    )
    assert ended(final) == {
        "silent": ("idle", 0.25),
        "stalls": ("idle", 0.25 + 0.5),
        "steady": ("idle", 4 * 0.375 + 0.5),
    }


async def test_an_idle_arm_times_out_when_that_is_earlier() -> None:
    """Of its timeout and its idle timeout the earlier closes an arm; at the same instant, the timeout."""
    final = await fuse_arms(
        [
            Arm("timeout", script("x", hang=True), timeout=0.5, idle_timeout=1),
            Arm("idle", script("x", hang=True), timeout=1, idle_timeout=0.5),
            Arm("both", script("x", hang=True), timeout=2, idle_timeout=2),
        ]
    )
    assert ended(final) == {"timeout": ("timed_out", 0.5), "idle": ("idle", 0.5), "both": ("timed_out", 2)}


async def test_an_arm_that_outlives_the_fusion_ends_at_the_deadline() -> None:
    """The deadline closes every arm whose own time is not up, also at the very same instant."""
    arms = [
        Arm("longer", script(hang=True), timeout=2),
        Arm("equal", script(hang=True), timeout=1),
        Arm("shorter", script(hang=True), timeout=0.5),
    ]
    final = await fuse_arms(arms, timeout=1)
    assert ended(final) == {
        "longer": ("deadline", 1),
        "equal": ("deadline", 1),
        "shorter": ("timed_out", 0.5),
    }


async def test_a_timeout_of_nothing_takes_what_is_there() -> None:
    """An arm without any time of its own still delivers what needs no waiting."""
    final = await fuse_arms(
        [
            Arm("ready", ["x"], timeout=0),
            Arm("waits", script("y", 1.0, "z"), timeout=0),
            Arm("idles", script("y", 1.0, "z"), idle_timeout=0),
        ]
    )
    assert ended(final) == {"ready": ("exhausted", 0), "waits": ("timed_out", 0), "idles": ("idle", 0)}
    assert received(final) == {"ready": 1, "waits": 1, "idles": 1}


async def test_a_closed_arm_is_closed_for_good() -> None:
    """What an arm delivers after its timeout never counts, although the fusion goes on."""
    late = script("x", 1.0, "too late", swallow=1)
    async with open_fusion([Arm("late", late, timeout=0.5), Arm("b", script(2.0, "y"))]) as fusion:
        final = await fusion.final()
        assert fusion.rankings() == {"late": ["x"], "b": ["y"]}
    assert ended(final) == {"late": ("timed_out", 0.5), "b": ("exhausted", 2.0)}
    assert late.closed


async def test_an_arm_that_times_out_is_told_at_once() -> None:
    """A change of status alone is a snapshot of its own."""
    snapshots = await read(open_fusion([Arm("a", script(hang=True), timeout=0.5), Arm("b", script(1.0))]))
    assert [(snapshot.elapsed, statuses(snapshot)["a"].value) for snapshot in snapshots] == [
        (0.5, "timed_out"),
        (1.0, "timed_out"),
    ]
