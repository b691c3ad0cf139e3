"""Deadlines on real clocks: 50 ms of budget, and at most 50 ms more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import pytest
from engine_kit import statuses

from rrf_stream import Arm, ArmStatus, Hit, Outcome, Page, Snapshot, drain, fuse_arms, open_fusion
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

pytestmark = pytest.mark.anyio
BUDGET = 0.05
EARLY = 0.0015
"""uvloop counts time in steps of a millisecond, and its timers may fire one early."""
LATE = 0.05
"""What a busy machine may add."""
TRIES = 5
T = TypeVar("T")


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


async def on_time(search: Callable[[], Awaitable[T]], budget: float = BUDGET) -> T:
    """Return what a search gives that takes as long as its budget.

    A busy machine gets a few tries: what arms do here is late by more than it allows, each time.
    """
    late = []
    for _ in range(TRIES):
        started = time.perf_counter()
        found = await search()
        late.append(time.perf_counter() - started - budget)
        if -EARLY <= late[-1] <= LATE:
            return found
    raise AssertionError(f"late by {late} s")


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

    async def search() -> Snapshot:
        arms = [Arm("bad", ARMS[kind](), window=None), Arm("good", [2, 3])]
        return await fuse_arms(arms, timeout=BUDGET, repeats="skip")

    final = await on_time(search)
    assert statuses(final) == {"bad": ArmStatus.DEADLINE, "good": ArmStatus.EXHAUSTED}
    assert final.outcome is Outcome.DEADLINE
    assert final.coverage["bad"].received >= 1
    assert {1, 2, 3} <= set(final.ids)


async def test_all_bad_arms_together_are_on_time() -> None:
    """One of each kind, read as a stream: the final snapshot is on time."""

    async def search() -> Snapshot:
        arms = [Arm(kind, make(), window=None) for kind, make in ARMS.items()]
        fusion = open_fusion(arms, timeout=BUDGET, repeats="skip", grace=0)
        async with fusion:
            return [snapshot async for snapshot in fusion][-1]

    final = await on_time(search)
    assert set(statuses(final).values()) == {ArmStatus.DEADLINE}
    assert await drain(5) == []


async def test_leaving_takes_its_grace_and_no_more() -> None:
    """Beside arms that clean up for longer the reader is out when the grace is over."""

    async def visit() -> None:
        async with open_fusion({kind: make() for kind, make in ARMS.items()}, grace=BUDGET) as fusion:
            fusion.stop()

    async def reading() -> None:
        async with open_fusion({"a": ARMS["shields its clean-up"]()}, grace=BUDGET) as fusion:
            await anext(fusion)

    await visit()
    await on_time(reading)


async def test_a_tireless_arm_does_not_starve_its_neighbour() -> None:
    """An arm that needs ten turns of the event loop gets them beside one that never waits."""
    arms = [Arm("tireless", tireless(), window=None), Arm("polite", script(*[0.0, "x"] * 10))]
    final = await fuse_arms(arms, timeout=15, repeats="skip", quorum=0.5)
    assert statuses(final) == {"tireless": ArmStatus.STOPPED, "polite": ArmStatus.EXHAUSTED}


async def test_a_tireless_arm_does_not_starve_the_reader() -> None:
    """The reader sees snapshots while the arm goes on."""
    async with open_fusion([Arm("a", tireless(), window=None)], timeout=15, repeats="skip") as fusion:
        assert not (await anext(fusion)).final


async def test_a_tireless_arm_meets_its_own_timeout() -> None:
    """Its own time is kept as the fusion's is."""

    async def search() -> Snapshot:
        return await fuse_arms([Arm("a", tireless(), window=None, timeout=BUDGET)], repeats="skip")

    assert statuses(await on_time(search)) == {"a": ArmStatus.TIMED_OUT}


async def test_the_deadline_holds_while_nobody_reads() -> None:
    """The arms are closed at the deadline, not when the reader comes back."""
    closed = anyio.Event()

    async def absent() -> None:
        async with open_fusion({"a": script("x", hang=True, on_close=closed.set)}, timeout=BUDGET):
            await closed.wait()

    await on_time(absent)


async def test_twenty_hung_arms_cost_one_timeout() -> None:
    """Not twenty."""

    async def search() -> Snapshot:
        return await fuse_arms({f"{n}": script(n, hang=True) for n in range(20)}, timeout=BUDGET)

    assert len((await on_time(search)).coverage.arms) == 20


async def test_a_hundred_searches_at_once_take_the_time_of_one() -> None:
    """Each of a hundred searches with a hung arm is over in a tenth of the time of all after each other."""
    taken: list[float] = []

    async def search() -> None:
        started = time.perf_counter()
        final = await fuse_arms({"hangs": script("x", hang=True), "good": ["x", "y"]}, timeout=0.1)
        taken.append(time.perf_counter() - started)
        assert final.ids == ["x", "y"]

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(search)
    assert len(taken) == 100
    assert 0.1 - EARLY <= min(taken) <= max(taken) <= 100 * 0.1 / 10


async def test_the_answer_is_out_before_an_enclosing_deadline() -> None:
    """The caller's own scope of 50 ms does not fire, unless the machine is busier than the margin allows."""
    for _ in range(TRIES * 2):
        with anyio.move_on_after(BUDGET):
            assert (await fuse_arms({"a": script(Hit("x"), hang=True)}, timeout=5)).ids == ["x"]
            break
    else:
        pytest.fail("the scope fired each time")
