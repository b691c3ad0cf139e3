"""The handle: how a fusion is read, left, stopped and dropped, and what its reader may rely on."""

from __future__ import annotations

import gc
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import assert_is_batch, forever, read, rows, statuses, turns, virtual_time

from rrf_stream import Arm, ArmStatus, Fusion, Outcome, Snapshot, fuse, fuse_arms, open_fusion
from rrf_stream.errors import FusionClosedError
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

pytestmark = pytest.mark.anyio
REQUEST: ContextVar[str] = ContextVar("REQUEST", default="none")


def hanging(*steps: Any) -> dict[str, Any]:
    return {"hangs": script(*steps, hang=True)}


def good() -> dict[str, Any]:
    return {"a": script("x", 0.001, "y"), "b": script("y", 0.002, "z")}


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


async def test_certificates_are_off() -> None:
    """With `bounds="off"`, which is the default, nothing is said of the future."""
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


# --- leaving ----------------------------------------------------------------------------------------------


class OwnError(Exception):
    """Raised by the reader's body."""


async def test_what_the_body_raises_passes_unwrapped() -> None:
    """The reader's exception leaves `async with` as itself, having stopped the arms."""
    arms = hanging("x")
    error = OwnError()

    async def reader() -> None:
        async with open_fusion(arms) as fusion:
            async for _ in fusion:
                raise error

    with pytest.raises(OwnError) as caught:
        await reader()
    assert caught.value is error
    assert error.__cause__ is error.__context__ is None
    assert arms["hangs"].closed


async def test_a_task_group_sees_the_bodys_exception_alone() -> None:
    """Inside a group the exception arrives in the group's own wrapper, with nothing of ours beside it."""

    async def reader() -> None:
        async with open_fusion(hanging("x")) as fusion:
            async for _ in fusion:
                raise OwnError

    with pytest.raises(BaseExceptionGroup) as caught:
        async with anyio.create_task_group() as group:
            group.start_soon(reader)
    (error,) = caught.value.exceptions
    assert type(error) is OwnError


async def test_a_cancelled_reader_is_cancelled() -> None:
    """Cancelling the reader ends it, and its arms with it; nothing is swallowed, nothing goes on."""
    arms = hanging("x")
    reached = []

    async def reader() -> None:
        async with open_fusion(arms) as fusion:
            await anext(fusion)
            reached.append("body")
            await anext(fusion)
        reached.append("after")

    async with anyio.create_task_group() as group:
        group.start_soon(reader)
        await turns(10)
        group.cancel_scope.cancel()
    assert reached == ["body"]
    assert arms["hangs"].closed


async def test_a_cancelled_search_is_cancelled() -> None:
    """The same for `fuse_arms`, whose arms clean up behind it."""
    arms = hanging("x")
    async with anyio.create_task_group() as group:
        group.start_soon(fuse_arms, arms)
        await turns(10)
        group.cancel_scope.cancel()
    await turns(10)
    assert arms["hangs"].closed


async def test_leaving_early_cancels_the_open_arms_only() -> None:
    """The arms still open are CANCELLED; what ended keeps its status; `final()` still tells."""
    async with open_fusion({"done": ["x"], **hanging("y")}) as fusion:
        async for _ in fusion:
            break
    final = await fusion.final()
    assert statuses(final) == {"done": ArmStatus.EXHAUSTED, "hangs": ArmStatus.CANCELLED}
    assert (final.final, final.outcome, final.ids) == (True, Outcome.STOPPED, ["x", "y"])
    assert final.coverage.degraded


async def test_leaving_after_the_end_changes_nothing() -> None:
    """A fusion that was read to its end is not degraded by leaving it."""
    async with open_fusion(good()) as fusion:
        final = await fusion.final()
    await fusion.aclose()
    assert await fusion.final() is final
    assert final.coverage.full


async def test_closing_twice_is_closing_once() -> None:
    """`aclose` may be called again, in the body or after it; the stream has ended."""
    async with open_fusion(hanging("x")) as fusion:
        await fusion.aclose()
        await fusion.aclose()
        assert [snapshot async for snapshot in fusion] == []
    await fusion.aclose()


async def test_closing_ends_a_read_that_waits() -> None:
    """A task that waits for a snapshot gets the final one when another task leaves the fusion."""
    got = []

    async def reader(fusion: Fusion) -> None:
        got.extend([snapshot async for snapshot in fusion])

    fusion = open_fusion(hanging())
    async with anyio.create_task_group() as group:
        group.start_soon(reader, fusion)
        await turns(5)
        await fusion.aclose()
    assert [(snapshot.final, snapshot.outcome) for snapshot in got] == [(True, Outcome.STOPPED)]


async def test_closing_before_the_start_closes_the_sources() -> None:
    """What was never read is closed all the same, and says CANCELLED."""
    source = script("x")

    async def coroutine() -> list[str]:
        return ["never"]

    fusion = open_fusion({"a": source, "b": coroutine(), "c": ["x"], "d": forever})
    await fusion.aclose()
    assert source.closed
    with pytest.raises(StopAsyncIteration):
        await anext(fusion)
    with pytest.raises(FusionClosedError):
        await fusion.__aenter__()
    final = await fusion.final()
    assert set(statuses(final).values()) == {ArmStatus.CANCELLED}


# --- stop -------------------------------------------------------------------------------------------------


async def test_stop_ends_with_what_has_arrived() -> None:
    """The reader that has enough gets a final snapshot next, with the open arms STOPPED."""
    arms = {"done": ["x"], **hanging("y")}
    async with open_fusion(arms) as fusion:
        await anext(fusion)
        fusion.stop()
        fusion.stop()
        (final,) = [snapshot async for snapshot in fusion]
    assert (final.final, final.outcome, final.ids) == (True, Outcome.STOPPED, ["x", "y"])
    assert statuses(final) == {"done": ArmStatus.EXHAUSTED, "hangs": ArmStatus.STOPPED}
    assert arms["hangs"].closed


async def test_stop_after_the_end_changes_nothing() -> None:
    """A complete fusion stays complete, also before its final snapshot was taken."""
    async with open_fusion({"a": ["x"]}) as fusion:
        await turns()
        fusion.stop()
        final = await fusion.final()
    assert final.outcome is Outcome.COMPLETE


async def test_stop_from_another_task_wakes_the_reader() -> None:
    """Whoever has the handle may stop it while another task waits for a snapshot."""
    async with open_fusion(hanging()) as fusion, anyio.create_task_group() as group:

        async def stopper() -> None:
            await turns(5)
            fusion.stop()

        group.start_soon(stopper)
        assert (await anext(fusion)).outcome is Outcome.STOPPED


async def test_stop_before_the_start_stops_everything() -> None:
    """A fusion stopped before it is read ends at once, with nothing in it, its arms STOPPED and closed."""
    source = script("x")
    fusion = open_fusion({"a": source, "b": forever})
    fusion.stop()
    final = await fusion.final()
    assert (final.ids, final.outcome) == ([], Outcome.STOPPED)
    assert set(statuses(final).values()) == {ArmStatus.STOPPED}
    await fusion.aclose()
    assert source.closed


# --- dropping ---------------------------------------------------------------------------------------------


async def test_a_loop_left_without_a_context_leaves_nothing() -> None:
    """After a bare `break` the dropped handle stops its arms; their sources are closed."""
    arms = hanging("x")
    async for snapshot in open_fusion(arms):
        assert snapshot.ids == ["x"]
        break
    gc.collect()
    await turns(10)
    assert arms["hangs"].closed


async def test_a_dropped_cycle_leaves_nothing() -> None:
    """A handle that is part of a reference cycle stops its arms when that is collected."""
    arms = hanging("x")
    cycle: dict[str, Any] = {"fusion": open_fusion(arms)}
    cycle["self"] = cycle
    await anext(cycle["fusion"])
    del cycle
    gc.collect()
    await turns(10)
    assert arms["hangs"].closed


async def test_a_handle_collected_in_another_thread_stops_its_arms() -> None:
    """The garbage collector may run anywhere; the arms are stopped on their own event loop."""
    arms = hanging("x")
    held = [open_fusion(arms)]
    await anext(held[0])
    await anyio.to_thread.run_sync(held.clear)
    await turns(10)
    assert arms["hangs"].closed


async def test_a_fusion_that_is_dropped_unread_leaves_nothing() -> None:
    """Nothing was started, so nothing is to be stopped, nor does a coroutine complain."""

    async def coroutine() -> list[str]:
        return ["never"]

    open_fusion({"a": script("x"), "b": ["y"], "c": forever, "d": coroutine()})
    gc.collect()
    await turns()


async def test_an_anonymous_search_is_not_dropped_while_it_runs() -> None:
    """`final()` on a handle that nobody else holds gets its answer."""

    async def collector() -> None:
        for _ in range(5):
            gc.collect()
            await anyio.sleep(0.001)

    async with anyio.create_task_group() as group:
        group.start_soon(collector)
        assert (await open_fusion({"a": script(0.01, "x")}).final()).ids == ["x"]


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
