"""Deadlines on real clocks: 50 ms of budget, and at most 50 ms more on a machine that is busy."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import statuses

from rrf_stream import Arm, ArmStatus, Hit, Outcome, Page, Snapshot, drain, fuse_arms, open_fusion
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio
BUDGET = 0.05
EARLY = 0.0015
"""uvloop counts time in steps of a millisecond, and its timers may fire one early."""
LATE = 0.05
"""What a busy machine may add."""


async def tireless() -> AsyncIterator[int]:
    """Never suspends, never ends."""
    number = 0
    while True:
        yield number % 50
        number += 1


async def tireless_pages() -> AsyncIterator[Page[int]]:
    while True:
        yield Page(range(50))


def tireless_iterable() -> Iterator[int]:
    while True:
        yield 1


def in_time(started: float) -> None:
    assert BUDGET - EARLY <= time.perf_counter() - started <= BUDGET + LATE


ARMS: dict[str, Any] = {
    "hangs": lambda: script(1, hang=True),
    "never suspends": tireless,
    "never suspends, in pages": tireless_pages,
    "never suspends, not asynchronous": tireless_iterable,
    "swallows its cancellation": lambda: script(1, 0.3, swallow=1),
    "cleans up for long": lambda: script(1, hang=True, cleanup=0.3),
    "shields its clean-up": lambda: script(1, hang=True, cleanup=0.3, shield=True),
    "fails in its clean-up": lambda: script(1, hang=True, on_close=[].pop),
    "delivers for ever": lambda: script(*[1, 0.002] * 100, hang=True),
    "delivers at the deadline": lambda: script(1, BUDGET, 2, hang=True),
}


@pytest.mark.parametrize("kind", ARMS)
async def test_the_answer_is_on_time(kind: str) -> None:
    """Whatever one arm does, the other arms and what this one delivered come back with the deadline."""
    arms = [Arm("bad", ARMS[kind](), window=None), Arm("good", [2, 3])]
    await fuse_arms({"warm": ["up"]})
    started = time.perf_counter()
    final = await fuse_arms(arms, timeout=BUDGET, repeats="skip")
    in_time(started)
    assert statuses(final) == {"bad": ArmStatus.DEADLINE, "good": ArmStatus.EXHAUSTED}
    assert final.outcome is Outcome.DEADLINE
    assert final.coverage["bad"].received >= 1
    assert {1, 2, 3} <= set(final.ids)
    assert final.elapsed == pytest.approx(BUDGET, abs=LATE)


async def test_all_bad_arms_together_are_on_time() -> None:
    """One of each kind, read as a stream: on time to the final snapshot, and out within `grace`."""
    arms = [Arm(kind, make(), window=None) for kind, make in ARMS.items()]
    started = time.perf_counter()
    async with open_fusion(arms, timeout=BUDGET, grace=0.02, repeats="skip") as fusion:
        snapshots = [snapshot async for snapshot in fusion]
        in_time(started)
        left = time.perf_counter()
    assert time.perf_counter() - left <= 0.02 + LATE
    assert set(statuses(snapshots[-1]).values()) == {ArmStatus.DEADLINE}
    assert await drain(5) == []


async def test_a_tireless_arm_does_not_starve_its_neighbour() -> None:
    """An arm that needs ten turns of the event loop gets them beside one that never waits."""
    arms = [Arm("tireless", tireless(), window=None), Arm("polite", script(*[0.0, "x"] * 10))]
    final = await fuse_arms(arms, timeout=BUDGET, repeats="skip")
    assert statuses(final)["polite"] is ArmStatus.EXHAUSTED


async def test_a_tireless_arm_does_not_starve_the_reader() -> None:
    """The reader sees snapshots while the arm goes on."""
    async with open_fusion([Arm("a", tireless(), window=None)], timeout=BUDGET, repeats="skip") as fusion:
        seen = [snapshot.final async for snapshot in fusion]
    assert seen[0] is False
    assert seen[-1] is True


async def test_a_tireless_arm_meets_its_own_timeout() -> None:
    """Its own time is kept as the fusion's is."""
    arms = [Arm("a", tireless(), window=None, timeout=BUDGET), Arm("b", script(BUDGET * 2, "x"))]
    final = await fuse_arms(arms, repeats="skip")
    elapsed = final.coverage["a"].elapsed
    assert statuses(final) == {"a": ArmStatus.TIMED_OUT, "b": ArmStatus.EXHAUSTED}
    assert elapsed is not None
    assert BUDGET - EARLY <= elapsed <= BUDGET + LATE


async def test_the_deadline_holds_while_nobody_reads() -> None:
    """The arms are closed at the deadline, not when the reader comes back."""
    async with open_fusion({"a": script("x", hang=True)}, timeout=BUDGET) as fusion:
        await anyio.sleep(BUDGET * 2)
        final = await fusion.final()
    elapsed = final.coverage["a"].elapsed
    assert elapsed is not None
    assert BUDGET - EARLY <= elapsed <= BUDGET * 2


async def test_twenty_hung_arms_cost_one_timeout() -> None:
    """Not twenty."""
    started = time.perf_counter()
    final = await fuse_arms({f"{n}": script(n, hang=True) for n in range(20)}, timeout=BUDGET)
    in_time(started)
    assert len(final.coverage.arms) == 20


async def test_a_hundred_searches_at_once_are_on_time() -> None:
    """Each of a hundred searches with a hung arm has its answer in time."""
    late: list[float] = []

    async def search() -> None:
        started = time.perf_counter()
        final = await fuse_arms({"hangs": script("x", hang=True), "good": ["x", "y"]}, timeout=0.1)
        late.append(time.perf_counter() - started - 0.1)
        assert final.ids == ["x", "y"]

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(search)
    assert len(late) == 100
    assert -EARLY <= min(late) <= sorted(late)[50] <= LATE


async def test_the_answer_is_out_before_an_enclosing_deadline() -> None:
    """The caller's own scope of 50 ms does not fire, unless the machine is busier than the margin allows."""
    outcomes: list[Snapshot] = []
    for _ in range(5):
        with anyio.move_on_after(BUDGET):
            outcomes.append(await fuse_arms({"a": script(Hit("x"), hang=True)}, timeout=5))
    assert len(outcomes) >= 2
    assert [snapshot.ids for snapshot in outcomes] == [["x"]] * len(outcomes)
