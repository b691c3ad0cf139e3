"""How a fusion is read, and what its reader may rely on."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

import anyio
import pytest
from engine_kit import assert_is_batch, good, hanging, read, rows, statuses, turns, virtual_time

from rrf_stream import Arm, ArmStatus, Fusion, Outcome, Snapshot, fuse, fuse_arms, open_fusion
from rrf_stream.errors import FusionClosedError
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

pytestmark = pytest.mark.anyio
REQUEST: ContextVar[str] = ContextVar("REQUEST", default="none")


# --- snapshots --------------------------------------------------------------------------------------------


async def test_exactly_one_snapshot_is_final_and_it_is_the_last() -> None:
    """Snapshots are numbered from 1 without a gap; an outcome comes with the last one only."""
    snapshots = await read(open_fusion(good()))
    assert [snapshot.seq for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    assert [snapshot.final for snapshot in snapshots] == [False] * (len(snapshots) - 1) + [True]
    outcomes = [snapshot.outcome for snapshot in snapshots]
    assert outcomes == [None] * (len(snapshots) - 1) + [Outcome.COMPLETE]
    times = [snapshot.elapsed or 0.0 for snapshot in snapshots]
    assert times == sorted(times)


@virtual_time
async def test_every_snapshot_is_the_fusion_of_what_has_arrived() -> None:
    """`fuse(fusion.rankings())` gives the hits of the snapshot just taken, bit for bit."""
    count = 0
    async with open_fusion([Arm("a", script("x", 0.001, "y")), Arm("b", good()["b"], weight=0.3)]) as fusion:
        async for snapshot in fusion:
            count += 1
            assert rows(snapshot.hits) == rows(fuse(fusion.rankings(), weights={"b": 0.3}, top_k=10))
    assert count > 2


async def test_snapshots_are_the_readers_to_keep() -> None:
    """A snapshot that was handed out never changes."""
    snapshots = []
    copies = []
    async with open_fusion(good()) as fusion:
        async for snapshot in fusion:
            snapshots.append(snapshot)
            copies.append(snapshot.to_dict())
    assert [snapshot.to_dict() for snapshot in snapshots] == copies


async def test_certificates_can_be_off() -> None:
    """With `bounds="off"` nothing is said of the future."""
    for snapshot in await read(open_fusion(good(), bounds="off")):
        assert (snapshot.settled, snapshot.exact, snapshot.contenders) == (None, None, None)
        assert (snapshot.unseen_possible, snapshot.blocking_arms) == (None, None)
        assert {(hit.upper, hit.best_rank, hit.worst_rank) for hit in snapshot.hits} == {(None, None, None)}


async def test_statuses_open_before_they_close() -> None:
    """An arm waits, streams, and ends; the snapshots before the last say so."""
    gates = anyio.Event(), anyio.Event()

    async def gated() -> AsyncIterator[str]:
        await gates[0].wait()
        yield "y"
        await gates[1].wait()

    seen = []
    async with open_fusion({"a": ["x"], "b": gated()}) as fusion:
        async for snapshot in fusion:
            seen.append([*statuses(snapshot).values()])
            for gate in gates:
                if not gate.is_set():
                    gate.set()
                    break
    assert seen == [
        [ArmStatus.EXHAUSTED, ArmStatus.WAITING],
        [ArmStatus.EXHAUSTED, ArmStatus.STREAMING],
        [ArmStatus.EXHAUSTED, ArmStatus.EXHAUSTED],
    ]


# --- forms of reading -------------------------------------------------------------------------------------


async def test_final_alone_is_the_answer() -> None:
    """`final()` waits for the last snapshot and skips the others: it is number 1."""
    async with open_fusion(good()) as fusion:
        final = await fusion.final()
        assert_is_batch(final, fusion)
    assert (final.final, final.seq, final.ids) == (True, 1, ["y", "x", "z"])


async def test_final_needs_no_context() -> None:
    """`final()` starts a fusion that was not entered."""
    assert (await open_fusion(good()).final()).ids == ["y", "x", "z"]


async def test_final_after_reading_is_the_last_snapshot_again() -> None:
    """The same object, however often it is asked for, also after leaving."""
    async with open_fusion(good()) as fusion:
        snapshots = [snapshot async for snapshot in fusion]
        assert await fusion.final() is snapshots[-1]
    assert await fusion.final() is snapshots[-1]


async def test_final_in_the_middle_ends_the_stream() -> None:
    """After some snapshots `final()` gives the last one, and the stream has no other."""
    async with open_fusion(good()) as fusion:
        first = await anext(fusion)
        final = await fusion.final()
        assert (first.seq, final.seq, final.final) == (1, 2, True)
        assert [snapshot async for snapshot in fusion] == []


async def test_a_stream_that_has_ended_stays_ended() -> None:
    """Each further read ends at once."""
    async with open_fusion(good()) as fusion:
        assert (await fusion.final()).final
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(fusion)


async def test_an_iterator_is_the_fusion_itself() -> None:
    """There is one stream: two loops share it."""
    async with open_fusion(good()) as fusion:
        assert aiter(fusion) is fusion
        async for _ in fusion:
            break
        rest = [snapshot async for snapshot in fusion]
    assert rest[-1].final
    assert rest[0].seq == 2


async def test_a_fusion_may_be_read_without_a_context() -> None:
    """A bare loop over it starts it and reads to the end."""
    snapshots = [snapshot async for snapshot in open_fusion(good())]
    assert snapshots[-1].ids == ["y", "x", "z"]


async def test_fuse_arms_gives_the_same_answer() -> None:
    """`fuse_arms` is the final snapshot of `open_fusion`."""
    streamed = (await read(open_fusion(good())))[-1]
    assert rows((await fuse_arms(good())).hits) == rows(streamed.hits)


async def test_a_fusion_can_be_entered_once() -> None:
    """Entering it again, or after reading, is refused by name."""
    async with open_fusion(good()) as fusion:
        with pytest.raises(FusionClosedError, match="once"):
            await fusion.__aenter__()
    for used in (fusion, open_fusion(good())):
        await used.final()
        with pytest.raises(FusionClosedError, match="once"):
            await used.__aenter__()


async def test_two_readers_at_once_are_refused() -> None:
    """Each would get only some of the snapshots; the first is not disturbed."""
    async with open_fusion(hanging("x")) as fusion, anyio.create_task_group() as group:
        await anext(fusion)
        group.start_soon(anext, fusion)
        await turns()
        with pytest.raises(RuntimeError, match="another task is reading"):
            await anext(fusion)
        with pytest.raises(RuntimeError, match="another task is reading"):
            await fusion.final()
        fusion.stop()  # the first reader gets the final snapshot
    assert (await fusion.final()).outcome is Outcome.STOPPED


async def test_readers_may_take_turns() -> None:
    """Different tasks may read one after another, as long as they do not overlap."""
    got: list[Snapshot] = []

    async def step(fusion: Fusion) -> None:
        got.append(await anext(fusion))

    async with open_fusion({"a": script("x", 0.001, "y", 0.001)}) as fusion:
        while not got or not got[-1].final:
            async with anyio.create_task_group() as group:
                group.start_soon(step, fusion)
    assert [snapshot.seq for snapshot in got] == [1, 2, 3]


async def test_it_may_be_entered_and_left_in_different_tasks() -> None:
    """No cancel scope is held between two calls, so no task owns a fusion."""
    fusion = open_fusion(hanging("x"))
    for step in (fusion.__aenter__, fusion.__anext__, fusion.aclose):
        async with anyio.create_task_group() as group:
            group.start_soon(step)
    assert (await fusion.final()).ids == ["x"]


async def test_a_fusion_may_be_read_inside_a_generator() -> None:
    """A generator that yields snapshots can be closed between two of them."""

    arms = hanging("x")

    async def relay() -> AsyncGenerator[Snapshot, None]:
        async with open_fusion(arms) as fusion:
            async for snapshot in fusion:
                yield snapshot  # noqa: ASYNC119 - closed below, and safe as no scope is open here

    stream = relay()
    assert (await anext(stream)).ids == ["x"]
    await stream.aclose()
    assert arms["hangs"].closed


# --- around it --------------------------------------------------------------------------------------------


async def test_context_variables_reach_the_arms() -> None:
    """An arm sees what the task that started the fusion has set, and sets nothing there."""

    async def whose() -> list[str]:
        seen = REQUEST.get()
        REQUEST.set("changed")
        return [seen]

    token = REQUEST.set("r1")
    assert (await fuse_arms({"a": whose, "b": whose()})).ids == ["r1"]
    fusion = open_fusion({"a": whose})
    REQUEST.set("r2")
    assert [snapshot.ids async for snapshot in fusion][-1] == ["r2"]
    assert REQUEST.get() == "r2"
    REQUEST.reset(token)


async def test_many_fusions_run_side_by_side() -> None:
    """A hundred at once do not disturb each other."""
    finals: dict[int, Snapshot] = {}

    async def one(number: int) -> None:
        finals[number] = await fuse_arms({"a": script(number, 0.001, -number), "b": [number]})

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(one, number)
    assert all(finals[number].ids == list(dict.fromkeys([number, -number])) for number in range(100))


async def test_the_repr_states_the_live_counts() -> None:
    """What a debugger shows: state, ids, snapshots, arms, tasks."""
    fusion = open_fusion({"a": ["x", "y"], **hanging("y")})
    assert "not started" in repr(fusion)
    async with fusion:
        await turns()
        await anext(fusion)
        assert repr(fusion) == (
            "<Fusion running: 2 ids, 1 snapshots; a exhausted 2, hangs streaming 1, 1 tasks alive>"
        )
        fusion.stop()
    assert repr(fusion).startswith("<Fusion stopped: 2 ids")
    assert repr(fusion).endswith("0 tasks alive>")


async def test_rankings_are_a_copy() -> None:
    """Changing what `rankings()` returned changes nothing else."""
    async with open_fusion({"a": ["x", "y"]}) as fusion:
        await fusion.final()
        fusion.rankings()["a"].clear()
        assert fusion.rankings() == {"a": ["x", "y"]}


@virtual_time
async def test_reading_costs_nothing_when_nothing_happens() -> None:
    """A fusion of arms that wait an hour wakes its reader once: time jumps straight to the end."""
    start = anyio.current_time()
    assert len(await read(open_fusion({"a": script(3600.0)}))) == 1
    assert anyio.current_time() - start == 3600
