"""`fuse` and time, in virtual time: its deadline holds below any operator, read or not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiostream import pipe, stream
from operators_kit import Scripts, in_virtual_time, items_of, nothing_left

from rrf_stream import ArmStatus, Outcome, Snapshot
from rrf_stream.operators import fuse, settled_hits

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_hang", "untouched"), in_virtual_time]


def now() -> float:
    return asyncio.get_running_loop().time()


async def itself_later(snapshot: Any, *_: Any) -> Any:
    await asyncio.sleep(0.01)
    return snapshot


def is_final(snapshot: Any) -> bool:
    return bool(snapshot.final)


LATER: Any = itself_later
BELOW: dict[str, tuple[Callable[[Any], Any], float]] = {
    "nothing": (lambda xs: xs, 0.2),
    "takelast": (lambda xs: xs | pipe.takelast(1), 0.2),
    "filter": (lambda xs: xs | pipe.filter(is_final), 0.2),
    "map": (lambda xs: xs | pipe.map(lambda snapshot, *_: snapshot), 0.2),
    "map, asynchronous": (lambda xs: xs | pipe.map(LATER), 0.21),
    "timeout": (lambda xs: xs | pipe.timeout(1), 0.2),
    "merge": (lambda xs: stream.merge(xs, xs), 0.2),
    "switchmap": (lambda xs: stream.just(0) | pipe.switchmap(lambda *_: xs), 0.2),
    "delay": (lambda xs: xs | pipe.delay(1), 1.2),
    "spaceout": (lambda xs: xs | pipe.spaceout(0.15), 0.3),
    "settled hits, and fused again": (
        lambda xs: fuse(xs | settled_hits.pipe() | pipe.map(lambda hit, *_: hit.id)),
        0.2,
    ),
}


@pytest.mark.parametrize("name", BELOW)
async def test_the_final_snapshot_is_on_time_below_any_operator(name: str) -> None:
    """The fusion ends at its timeout, in each iteration, however slowly it is read."""
    build, due = BELOW[name]
    arms = Scripts()
    xs = build(fuse(arms.arm("a", 0.05, "b", hang=True), ["b"], timeout=0.2))
    for _ in range(2):
        started = now()
        async with nothing_left():
            final = await xs
        assert isinstance(final, Snapshot)
        assert (final.final, final.ids) == (True, ["b", "a"])
        assert now() - started == pytest.approx(due, abs=1e-6)
        assert final.elapsed == pytest.approx(0.2, abs=1e-6)
    assert all(arms.closed)


async def test_the_arms_are_closed_on_time_while_nobody_reads() -> None:
    """A reader that sleeps in its loop holds up no deadline, and comes back to the final snapshot."""
    arms = Scripts()
    async with fuse(arms.arm("a", hang=True), timeout=0.2).stream() as snapshots:
        async for snapshot in snapshots:
            if not snapshot.final:
                await asyncio.sleep(0.201)
                assert arms.closed == [True]
    assert snapshot.outcome == Outcome.DEADLINE
    assert snapshot.elapsed == pytest.approx(0.2)


async def test_leaving_waits_for_the_clean_up_of_arms_as_long_as_the_grace() -> None:
    """An operator that ends a fusion waits for its arms to clean up, and no longer than `grace`."""
    arms = Scripts()
    for cleanup, waited in [(0.03, 0.03), (9.0, 0.05)]:
        xs = fuse(arms.arm("a", hang=True, cleanup=cleanup, shield=True))
        started = now()
        await items_of(xs | pipe.take(1))
        assert now() - started == pytest.approx(waited, abs=1e-6)
    await asyncio.sleep(10)  # what was left behind has ended as well
    async with nothing_left():
        assert arms.closed == [True, True]


async def test_switchmap_stops_the_search_for_what_was_typed_before() -> None:
    """A new query stops the arms of the old one at that moment; the old one gives no more snapshots."""
    arms = Scripts()
    statuses: list[ArmStatus] = []
    queries = stream.iterate(["t", "ta"]) | pipe.spaceout(0.1)

    def search(query: str, *_: Any) -> Any:
        return fuse({"text": arms.arm(0.06, query, 0.06, query + "!")}, timeout=1.0)

    async with nothing_left(), (queries | pipe.switchmap(search)).stream() as snapshots:
        shown = []
        async for snapshot in snapshots:
            shown.append((round(now(), 3), snapshot.ids))
            statuses.append(snapshot.coverage["text"].status)
    assert [row for row in shown if row[1] and "!" not in row[1][-1]] == [(0.06, ["t"]), (0.16, ["ta"])]
    assert shown[-1] == (0.22, ["ta", "ta!"])
    assert statuses[-1] == ArmStatus.EXHAUSTED


@pytest.mark.parametrize("unhurried", [True, False])
async def test_take_on_settled_hits_ends_when_enough_is_certain(*, unhurried: bool) -> None:
    """The first two positions are certain after 0.1 s; nobody waits for the arm that decides the others."""
    arms = Scripts()
    first = arms.arm("a", "b", 0.1, "c", 2.0, "d")
    xs: Any = fuse({"first": first, "second": arms.arm(0.1, "a", "b", 5.0, "c")})
    hits = xs | settled_hits.pipe()
    async with nothing_left():
        started = now()
        ids = [hit.id for hit in await items_of(hits if unhurried else hits | pipe.take(2))]
        assert ids == (["a", "b", "c", "d"] if unhurried else ["a", "b"])
        assert now() - started == pytest.approx(5.1 if unhurried else 0.1, abs=1e-6)
    assert arms.closed == [True, True]
