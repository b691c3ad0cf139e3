"""The engine against a plain model: whatever arms and readers do, the answer is what arrived in time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import rows, run_virtual
from engine_model import PERIOD, TICK, Fate, FusionPlan, fusion_plans, name
from hypothesis import given, settings

from rrf_stream import Fusion, Snapshot, drain, fuse, open_fusion
from rrf_stream.errors import ArmError
from rrf_stream.testing import VIRTUAL_BACKENDS, assert_no_leaks

if TYPE_CHECKING:
    from collections.abc import Callable

    from rrf_stream.testing import Script


class Reading:
    """What a reader got out of a fusion."""

    def __init__(self, plan: FusionPlan) -> None:
        self.plan = plan
        self.sources: list[Script] = [arm.source(number) for number, arm in enumerate(plan.arms)]
        self.snapshots: list[Snapshot] = []
        self.rankings: list[dict[str, list[Any]]] = []
        self.failed = False

    async def read(self) -> None:
        """Run the fusion, and all that its plan says, to its end and that of its last arm."""
        plan = self.plan
        arms = [arm.arm(number, self.sources[number]) for number, arm in enumerate(plan.arms)]
        fusion = open_fusion(arms, **plan.options)
        async with anyio.create_task_group() as group:
            async with fusion:
                if plan.stop is not None:
                    group.start_soon(self._at, plan.stop, self._stopped, fusion)
                if plan.leave is not None:
                    group.start_soon(self._at, plan.leave, fusion.aclose)
                try:
                    await self._look(fusion)
                except ArmError:
                    self.failed = True
            group.cancel_scope.cancel()
        if not self.snapshots or not self.snapshots[-1].final:
            self._keep(await self._final(fusion), fusion)
        await drain()
        assert [source.closed for source in self.sources] == [True] * len(self.sources)
        await assert_no_leaks()

    async def _look(self, fusion: Fusion) -> None:
        if not self.plan.reads:
            self._keep(await fusion.final(), fusion)
            return
        async for snapshot in fusion:
            self._keep(snapshot, fusion)
            if self.plan.pause and not snapshot.final:
                await anyio.sleep(self.plan.pause * PERIOD * TICK)

    async def _final(self, fusion: Fusion) -> Snapshot:
        try:
            return await fusion.final()
        except ArmError:
            self.failed = True
            return await fusion.final()

    def _keep(self, snapshot: Snapshot, fusion: Fusion) -> None:
        self.snapshots.append(snapshot)
        self.rankings.append(fusion.rankings())

    @staticmethod
    async def _at(tick: int, call: Callable[..., Any], *args: Any) -> None:
        await anyio.sleep_until(tick * TICK)
        await call(*args)

    @staticmethod
    async def _stopped(fusion: Fusion) -> None:
        fusion.stop()


def check_the_answer(reading: Reading, expected: Fate) -> None:
    """Assert that the final snapshot is what the model says."""
    final = reading.snapshots[-1]
    assert (final.outcome, final.elapsed) == (expected.outcome, expected.ended_at * TICK)
    assert [
        (report.status, report.received, report.elapsed, report.first_hit_after)
        for report in final.coverage.arms
    ] == [(arm.status, arm.received, arm.closed_at * TICK, arm.first_hit_after) for arm in expected.arms]
    assert [isinstance(report.error, OSError) for report in final.coverage.arms] == [
        arm.status == "failed" for arm in expected.arms
    ]
    rankings = {name(number): arm.ids for number, arm in enumerate(expected.arms)}
    assert reading.rankings[-1] == rankings
    assert rows(final.hits) == fused(reading.plan, rankings)
    assert reading.failed is (expected.outcome == "failed")


def check_the_way_there(reading: Reading, expected: Fate) -> None:
    """Assert that each snapshot is the fusion of what had arrived, and that they came as promised."""
    plan, snapshots = reading.plan, reading.snapshots
    assert [snapshot.seq for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    assert [snapshot.final for snapshot in snapshots] == [False] * (len(snapshots) - 1) + [True]
    for snapshot, rankings in zip(snapshots, reading.rankings, strict=True):
        assert rows(snapshot.hits) == fused(plan, rankings)
        tick = (snapshot.elapsed or 0) / TICK
        for arm, ids in zip(expected.arms, rankings.values(), strict=True):
            assert ids == arm.ids[: len(ids)]
            assert arm.ranked_by(tick - 0.5) <= len(ids) <= arm.ranked_by(tick)
    times = [snapshot.elapsed or 0 for snapshot in snapshots[:-1]]
    gap = max(plan.min_interval, plan.pause) * PERIOD * TICK
    assert all(later - earlier >= gap for earlier, later in pairwise(times))


def fused(plan: FusionPlan, rankings: dict[str, list[Any]]) -> Any:
    weights = {name(number): arm.weight for number, arm in enumerate(plan.arms)}
    return rows(fuse(rankings, weights=weights, top_k=plan.top_k, repeats=plan.repeats))


@pytest.mark.parametrize("backend", VIRTUAL_BACKENDS)
@settings(max_examples=150, deadline=None)
@given(plan=fusion_plans())
def test_a_fusion_ends_as_its_model_does(backend: str, plan: FusionPlan) -> None:
    """Outcome, statuses, times, counts and hits are those of a plain loop over the events of the plan.

    And every snapshot on the way is the batch fusion of what had arrived by then; nothing later counts;
    every source is closed; nothing is left.
    """
    reading = Reading(plan)
    run_virtual(backend, reading.read)
    expected = Fate(plan)
    check_the_answer(reading, expected)
    check_the_way_there(reading, expected)
