"""Functions of the caller's that end the fusion in the middle of what it does for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from engine_kit import assert_is_batch, on, read, received, statuses, turns, virtual_time

from rrf_stream import Arm, ArmStatus, Hit, Outcome, Page, open_fusion
from rrf_stream.testing import capture_events, script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rrf_stream import Fusion, Snapshot

pytestmark = pytest.mark.anyio


class Stopper:
    """A `key` or `representative` that does something to the fusion when it is called the n-th time."""

    def __init__(self, at: int, *, error: Exception | None = None) -> None:
        self.fusion: Fusion | None = None
        self.calls = 0
        self.at = at
        self.error = error

    def key(self, result: Any) -> Any:
        self.calls += 1
        if self.calls == self.at:
            assert self.fusion is not None
            self.fusion.stop()
            if self.error is not None:
                raise self.error
        return result

    def representative(self, copies: Sequence[Any]) -> Any:
        self.key(None)
        return copies[0]


async def final_only(fusion: Fusion) -> list[Snapshot]:
    async with fusion:
        return [await fusion.final()]


def arms(of: Callable[[str], Any] = str) -> list[Arm]:
    """Arms that deliver pages and single results, at several times, of which one never ends."""
    return [
        Arm("pages", script(Page(map(of, "xy")), 1.0, Page(map(of, "zwv")), 1.0, of("u"))),
        Arm("one by one", script(of("y"), 0.5, of("z"), 2.0, of("t"))),
        Arm("hangs", script(0.75, Page(map(of, "wx")), hang=True)),
        Arm("is there", [*map(of, "zv")]),
    ]


def copy_of(id_: str) -> Hit:
    """Return a hit with a copy, which is what a representative is asked about."""
    return Hit(id_, item=object())


def assert_ended_once(snapshots: list[Snapshot], fusion: Fusion) -> None:
    """Assert that the last snapshot alone is final, and that all it says agrees."""
    final = snapshots[-1]
    assert [snapshot.final for snapshot in snapshots] == [False] * (len(snapshots) - 1) + [True]
    assert [snapshot.outcome for snapshot in snapshots[:-1]] == [None] * (len(snapshots) - 1)
    assert final.outcome is Outcome.STOPPED
    assert_is_batch(final, fusion)
    assert received(final) == {name: len(ids) for name, ids in fusion.rankings().items()}
    assert not any(status.is_open for status in statuses(final).values())
    assert ArmStatus.STOPPED in statuses(final).values()
    assert [snapshot.seq for snapshot in snapshots] == [*range(1, len(snapshots) + 1)]


@virtual_time
@pytest.mark.parametrize("reader", [read, final_only])
@pytest.mark.parametrize("at", range(1, 13))
async def test_a_key_may_stop_the_fusion(
    at: int, reader: Callable[[Fusion], Awaitable[list[Snapshot]]]
) -> None:
    """In whichever place of a page: there is one final snapshot, and it has what it says it has."""
    stopper = Stopper(at)
    fusion = stopper.fusion = open_fusion(arms(), key=stopper.key, timeout=8)
    with capture_events() as events:
        snapshots = await reader(fusion)
        assert_ended_once(snapshots, fusion)
        await turns()
    assert [event["outcome"] for event in events if event["event"] == "rrf_stream.fusion_closed"] == [
        "stopped"
    ]
    told = {event["arm"]: event["received"] for event in events if event["event"] == "rrf_stream.arm_closed"}
    assert told == received(snapshots[-1])


@virtual_time
@pytest.mark.parametrize("at", range(1, 10))
async def test_a_representative_may_stop_the_fusion(at: int) -> None:
    """While a snapshot is made, which is not final then; the next one is."""
    stopper = Stopper(at)
    given = arms(copy_of)
    fusion = stopper.fusion = open_fusion(given, representative=stopper.representative, timeout=8)
    assert_ended_once(await read(fusion), fusion)


@virtual_time
async def test_a_key_that_fills_the_window_may_stop_the_fusion() -> None:
    """The arm was full, the others were stopped."""
    stopper = Stopper(2)
    given = [Arm("full", script(Page(["x", "y", "z"])), window=2), Arm("hangs", script("y", hang=True))]
    fusion = stopper.fusion = open_fusion(given, key=stopper.key, timeout=8)
    snapshots = await read(fusion)
    assert_ended_once(snapshots, fusion)
    assert received(snapshots[-1])["full"] == 2
    assert statuses(snapshots[-1])["hangs"] is ArmStatus.STOPPED


@virtual_time
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_key_that_stops_the_fusion_and_raises_has_stopped_it(at: int) -> None:
    """Its arm has failed, and nobody waits for the others."""
    stopper = Stopper(at, error=OSError("no key"))
    given = [Arm("bad", script(1.0, Page(["x", "y", "z"]))), Arm("hangs", script(hang=True))]
    fusion = stopper.fusion = open_fusion(given, key=stopper.key, timeout=8)
    snapshots = await read(fusion)
    assert (snapshots[-1].elapsed, snapshots[-1].outcome) == (1, Outcome.STOPPED)
    assert statuses(snapshots[-1])["hangs"] is ArmStatus.STOPPED
    assert_is_batch(snapshots[-1], fusion)
    assert received(snapshots[-1]) == {"bad": 0, "hangs": 0}


@on("asyncio", "uvloop", "trio")
async def test_an_arm_whose_key_stops_the_fusion_is_closed() -> None:
    """Its source is read no further, whether it suspends or not."""
    sources = [script(*range(500)), script(Page([1, 2, 3]), hang=True), script(1, 0.001, hang=True)]
    for source in sources:
        stopper = Stopper(1)
        fusion = stopper.fusion = open_fusion({"a": source}, key=stopper.key, timeout=8)
        snapshots = await read(fusion)
        assert_ended_once(snapshots, fusion)
        assert source.closed
        assert stopper.calls <= 3
