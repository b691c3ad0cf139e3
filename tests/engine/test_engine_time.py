"""Every time setting, to the exact moment, in virtual time: binary fractions of seconds add up exactly."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from engine_kit import assert_is_batch, ended, read, received, statuses, virtual_time

from rrf_stream import Arm, ArmStatus, Fusion, Outcome, Page, Snapshot, fuse_arms, open_fusion
from rrf_stream.errors import ArmError
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


# --- quorum -----------------------------------------------------------------------------------------------


def arms_at(*ends: float) -> list[Arm]:
    """Arms of weight 1 that end at these times, having delivered their number at once."""
    return [Arm(f"arm {number}", script(number, end)) for number, end in enumerate(ends)]


@pytest.mark.parametrize(
    ("quorum", "patience", "elapsed"),
    [(0.25, 0, 1), (0.5, 0, 2), (0.51, 0, 4), (0.75, 0, 4), (0.5, 0.25, 2.25), (0.25, 16, 8), (1, 0.5, 8)],
)
async def test_a_quorum_ends_the_fusion_after_its_patience(
    quorum: float, patience: float, elapsed: float
) -> None:
    """Four equal arms end at 1, 2, 4 and 8 s: the share that has ended decides when the patience starts."""
    final = await fuse_arms(arms_at(1.0, 2.0, 4.0, 8.0), quorum=quorum, patience=patience)
    assert final.elapsed == elapsed
    waited_for = elapsed < 8
    assert final.outcome is (Outcome.QUORUM if waited_for else Outcome.COMPLETE)
    assert set(statuses(final).values()) == {ArmStatus.EXHAUSTED} | (
        {ArmStatus.STOPPED} if waited_for else set()
    )
    assert set(received(final).values()) == {1}
    assert final.coverage.degraded is waited_for


async def test_a_quorum_is_a_share_of_the_weight() -> None:
    """Weights 3 and 1: the heavy arm alone is three quarters."""
    arms = [Arm("heavy", script("x", 1.0), weight=3), Arm("light", script("y", 2.0), weight=1)]
    final = await fuse_arms(arms, quorum=0.75)
    assert ended(final) == {"heavy": ("exhausted", 1), "light": ("stopped", 1)}
    arms = [Arm("heavy", script("x", 2.0), weight=3), Arm("light", script("y", 1.0), weight=1)]
    assert (await fuse_arms(arms, quorum=0.75)).outcome is Outcome.COMPLETE


async def test_arms_that_weigh_nothing_make_no_quorum() -> None:
    """The share of no weight is no share: arms of weight zero are waited for, and read."""
    final = await fuse_arms([Arm("a", script("x", 1.0), weight=0), Arm("b", [], weight=0)], quorum=0.25)
    assert ended(final) == {"a": ("exhausted", 1), "b": ("exhausted", 0)}
    assert final.outcome is Outcome.COMPLETE


async def test_arms_that_weigh_nothing_are_not_needed_for_a_quorum() -> None:
    """Beside arms that weigh something they are like any that is still to come."""
    arms = [Arm("heavy", script("x", 1.0)), Arm("weightless", script("y", 2.0), weight=0)]
    assert ended(await fuse_arms(arms, quorum=1)) == {"heavy": ("exhausted", 1), "weightless": ("stopped", 1)}


async def test_tenths_add_up_to_a_quorum() -> None:
    """Seven of ten arms of weight 0.1 are 0.7 of the weight, whatever floating-point sums say."""
    arms = [Arm(f"{number}", script(float(number)), weight=0.1) for number in range(10)]
    final = await fuse_arms(arms, quorum=0.7)
    assert (final.elapsed, final.outcome) == (6, Outcome.QUORUM)


async def test_an_arm_that_failed_or_timed_out_has_ended_too() -> None:
    """A quorum is about who is still to come, not about who answered."""
    arms = [
        Arm("fails", script(1.0, fail=OSError("down"))),
        Arm("late", script(hang=True), timeout=2),
        Arm("slow", script(8.0)),
    ]
    final = await fuse_arms(arms, quorum=0.6)
    assert ended(final) == {"fails": ("failed", 1), "late": ("timed_out", 2), "slow": ("stopped", 2)}


async def test_patience_is_counted_from_the_quorum_and_not_renewed() -> None:
    """An arm that ends during the patience counts in full, and does not extend it."""
    final = await fuse_arms(arms_at(1.0, 2.0, 2.5, 8.0), quorum=0.5, patience=1)
    assert list(ended(final).values()) == [
        ("exhausted", 1),
        ("exhausted", 2),
        ("exhausted", 2.5),
        ("stopped", 3),
    ]


async def test_the_deadline_does_not_wait_for_the_patience() -> None:
    """A budget that is spent during the patience ends the fusion as DEADLINE."""
    final = await fuse_arms(arms_at(1.0, 8.0), quorum=0.5, patience=2, timeout=2)
    assert (final.elapsed, final.outcome) == (2, Outcome.DEADLINE)
    assert list(statuses(final).values()) == [ArmStatus.EXHAUSTED, ArmStatus.DEADLINE]


async def test_a_deadline_is_not_a_quorum() -> None:
    """Arms that the deadline closes do not turn the ending into a quorum half-way."""
    for patience in (0, 1):
        final = await fuse_arms(arms_at(8.0, 8.0, 8.0, 8.0), quorum=0.5, patience=patience, timeout=1)
        assert final.outcome is Outcome.DEADLINE
        assert set(ended(final).values()) == {("deadline", 1)}


async def test_stopping_and_leaving_are_not_a_quorum() -> None:
    """Nor do arms that the reader's `stop()` or leaving closes."""
    async with open_fusion(arms_at(8.0, 8.0, 8.0, 8.0), quorum=0.5) as fusion:
        fusion.stop()
        final = await fusion.final()
    assert (final.outcome, set(statuses(final).values())) == (Outcome.STOPPED, {ArmStatus.STOPPED})
    async with open_fusion(arms_at(8.0, 8.0, 8.0, 8.0), quorum=0.5) as fusion:
        await anyio.sleep(1)
    final = await fusion.final()
    assert (final.outcome, set(statuses(final).values())) == (Outcome.STOPPED, {ArmStatus.CANCELLED})


async def test_a_required_failure_is_not_a_quorum() -> None:
    """The failure of a required arm ends the fusion as FAILED, also where it completes a quorum."""
    for patience in (0, 1):
        snapshots: list[Snapshot] = []
        must = Arm("must", script(1.0, fail=OSError("down")), required=True)
        async with open_fusion([must, *arms_at(8.0, 8.0)], quorum=0.25, patience=patience) as fusion:
            with pytest.raises(ArmError):
                await _keep(fusion, snapshots)
        assert snapshots[-1].outcome is Outcome.FAILED
        assert list(ended(snapshots[-1]).values()) == [("failed", 1), ("stopped", 1), ("stopped", 1)]


async def _keep(fusion: Fusion, kept: list[Snapshot]) -> None:
    async for snapshot in fusion:
        kept.append(snapshot)  # noqa: PERF401 - a comprehension would lose them all to the error


async def test_arms_that_time_out_together_all_timed_out() -> None:
    """Four arms with one timeout: none is called STOPPED because the others made a quorum first."""
    arms = [Arm(f"{number}", script(hang=True), timeout=1) for number in range(4)]
    final = await fuse_arms([*arms, Arm("slow", script(8.0))], quorum=0.5)
    assert ended(final) == {
        **{f"{number}": ("timed_out", 1.0) for number in range(4)},
        "slow": ("stopped", 1.0),
    }
    assert final.outcome is Outcome.QUORUM


# --- how often ----------------------------------------------------------------------------------------------


async def test_a_prompt_reader_sees_every_change() -> None:
    """One snapshot for each arrival, at its time, and one for each arm that closes."""
    snapshots = await read(open_fusion({"a": script(1.0, "x", 1.0, "y", 0.5), "b": script(1.5, "y", 1.0)}))
    assert [(snapshot.elapsed, snapshot.ids) for snapshot in snapshots] == [
        (1.0, ["x"]),
        (1.5, ["x", "y"]),
        (2.0, ["y", "x"]),
        (2.5, ["y", "x"]),
    ]


async def test_nothing_visible_changed_is_no_snapshot() -> None:
    """Results below the top, repeats and empty pages are not worth a snapshot."""
    source = script("x", 1.0, "below", 1.0, "x", 1.0, Page(), 1.0, "y", 1.0)
    snapshots = await read(open_fusion({"a": source, "b": script("y", 2.5)}, top_k=1))
    assert [(snapshot.elapsed, snapshot.ids) for snapshot in snapshots] == [
        (0.0, ["x"]),
        (2.5, ["x"]),  # b has ended
        (4.0, ["y"]),
        (5.0, ["y"]),
    ]


async def test_a_slow_reader_skips_to_the_newest() -> None:
    """Arrivals every quarter second, a reader who takes a second: four arrivals at a time, none twice."""
    source = script(*(step for number in range(12) for step in (number, 0.25)), hang=True)
    seen = []
    async with open_fusion({"a": source}, top_k=50, timeout=4) as fusion:
        async for snapshot in fusion:
            seen.append((snapshot.seq, len(snapshot.hits), snapshot.final))
            await anyio.sleep(0.96875)
    assert seen == [(1, 1, False), (2, 4, False), (3, 8, False), (4, 12, False), (5, 12, True)]


async def test_min_interval_holds_back_all_but_the_final_snapshot() -> None:
    """Two snapshots are a second apart; what arrives between shows in the next; the end does not wait."""
    source = script("p", 0.25, "q", 0.25, "r", 1.0, "s", 0.125)
    snapshots = await read(open_fusion({"a": source}, min_interval=1))
    assert [(snapshot.elapsed, len(snapshot.hits), snapshot.final) for snapshot in snapshots] == [
        (0.0, 1, False),
        (1.0, 3, False),
        (1.625, 4, True),
    ]


async def test_min_interval_does_not_delay_what_comes_after_a_pause() -> None:
    """An arrival long after the last snapshot is shown at once."""
    snapshots = await read(open_fusion({"a": script("p", 4.0, "q", 4.0)}, min_interval=1))
    assert [snapshot.elapsed for snapshot in snapshots] == [0, 4, 8]


async def test_min_interval_beyond_the_deadline_leaves_the_final_snapshot() -> None:
    """However long the interval, the deadline is kept."""
    source = script("p", 0.25, "q", hang=True)
    snapshots = await read(open_fusion({"a": source}, min_interval=60, timeout=2))
    assert [(snapshot.elapsed, len(snapshot.hits)) for snapshot in snapshots] == [(0, 1), (2, 2)]


async def test_a_fusion_without_changes_wakes_nobody() -> None:
    """An hour of waiting gives one snapshot, the final one."""
    (final,) = await read(open_fusion({"a": script(hang=True)}, timeout=3600, min_interval=0.25))
    assert (final.seq, final.final, final.elapsed) == (1, True, 3600)
