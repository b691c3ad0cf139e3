"""Ending when enough has ended, to the exact moment, in virtual time."""

from __future__ import annotations

import anyio
import pytest
from engine_kit import ended, received, statuses, virtual_time

from rrf_stream import Arm, ArmStatus, Fusion, Outcome, Snapshot, fuse_arms, open_fusion
from rrf_stream.errors import ArmError
from rrf_stream.testing import script

pytestmark = [pytest.mark.anyio, virtual_time]
MARGIN = 0.005
"""What the final snapshot is ahead of an enclosing deadline."""


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


@pytest.mark.parametrize(
    ("weight", "arms", "quorum", "elapsed"),
    [(0.1, 10, 0.7, 6), (0.3, 5, 0.2, 0), (0.3, 5, 0.2 + 1e-9, 1), (0.3, 10, 0.1, 0), (0.1, 6, 5 / 6, 4)],
)
async def test_tenths_add_up_to_a_quorum(weight: float, arms: int, quorum: float, elapsed: int) -> None:
    """Seven of ten arms of weight 0.1 are 0.7 of the weight, whatever floating-point sums say."""
    given_ = [Arm(f"{number}", script(float(number)), weight=weight) for number in range(arms)]
    final = await fuse_arms(given_, quorum=quorum)
    assert (final.elapsed, final.outcome) == (elapsed, Outcome.QUORUM)


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
