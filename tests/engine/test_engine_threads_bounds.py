"""Threads are bounded, sources are not read far ahead, and nothing is left of either."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import ended, on, received, statuses, turns, virtual_time
from threads_kit import Stuck, at_most, idle_threads, library_threads, until

from rrf_stream import (
    Arm,
    ArmStatus,
    Page,
    Pipeline,
    drain,
    fuse_arms,
    in_thread,
    open_fusion,
    set_thread_limit,
)
from rrf_stream.errors import RRFStreamError, ThreadLimitError
from rrf_stream.testing import assert_no_leaks, capture_events, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


async def in_list(query: str) -> list[str]:  # noqa: ARG001 - the interface of a retriever
    return ["d"]


# --- the bound --------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_arm_past_the_bound_is_rejected_at_once() -> None:
    """It does not wait for a place; its report has an error that names the bound, and the others go on."""
    with Stuck() as stuck, at_most(2):
        await fuse_arms({"a": stuck, "b": in_thread(stuck)}, timeout=0.01)
        retrievers: dict[str, Callable[[str], Any]] = {
            "a": lambda _: ["a"],
            "b": in_thread(stuck),
            "c": lambda _: script("c"),
            "d": in_list,
        }
        final = await Pipeline(retrievers).search("q", timeout=5.0)
        assert final.ids == ["d"]
        for report in final.coverage.arms[:3]:
            assert (report.status, report.received) == (ArmStatus.REJECTED, 0)
            assert (report.elapsed or 0) < 0.1
            assert isinstance(report.error, ThreadLimitError)
            assert (report.error.most, report.error.running) == (2, 2)
            assert "2 threads run blocking sources, and at most 2 may" in str(report.error)
        assert final.coverage.degraded


@pytest.mark.anyio
async def test_a_stuck_thread_holds_its_place_until_it_ends() -> None:
    """Closing its arm frees nothing; the end of the call does."""
    with at_most(1):
        with Stuck() as stuck:
            await fuse_arms({"a": stuck}, timeout=0.01)
            assert await drain(0) == ["rrf:thread:Stuck"]
            with pytest.raises(ThreadLimitError):
                await anext(aiter(in_thread(list)))
        assert await drain(5) == []
        assert (await fuse_arms({"a": lambda: ["x"]})).ids == ["x"]


@pytest.mark.anyio
async def test_no_more_threads_run_than_may() -> None:
    """However many fusions are left behind, stuck, there are no more threads than the bound."""
    with Stuck() as stuck, at_most(3):
        for _ in range(4):
            await fuse_arms({"a": stuck, "b": in_thread(stuck)}, timeout=0.01)
        assert stuck.calls == 3
        assert library_threads() == ["rrf:thread:Stuck"] * 3
    assert await drain(5) == []


@pytest.mark.anyio
async def test_the_bound_may_change_while_threads_run() -> None:
    """A lower one ends no thread, and holds as soon as enough have ended; a higher one holds at once."""
    with Stuck() as stuck, at_most(2):
        await fuse_arms({"a": stuck, "b": stuck}, timeout=0.01)
        assert set_thread_limit(1) == 2
        with pytest.raises(ThreadLimitError, match="2 threads run blocking sources, and at most 1 may"):
            await anext(aiter(in_thread(list)))
        assert set_thread_limit(3) == 1
        assert (await fuse_arms({"a": lambda: ["x"]})).ids == ["x"]
    assert await drain(5) == []


@pytest.mark.anyio
async def test_places_are_given_back_however_a_thread_ends() -> None:
    """One place is enough for any number of sources, one after the other."""

    def fails() -> list[str]:
        raise OSError

    def endless() -> Iterator[int]:
        yield from iter(int, 1)

    async def hangs() -> AsyncIterator[str]:
        yield "x"
        await anyio.sleep_forever()

    with at_most(1):
        for source in (
            list,
            fails,
            endless,
            in_thread(hangs),
            in_thread((5).__add__),
            lambda: script("x"),
            hangs,
        ):
            final = await fuse_arms([Arm("a", source, window=2)], timeout=0.2)
            assert final.coverage["a"].status is not ArmStatus.REJECTED
            assert not isinstance(final.coverage["a"].error, ThreadLimitError)
            await assert_no_leaks(within=5)


@pytest.mark.anyio
@on("asyncio")
async def test_a_system_without_threads_rejects_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of the system is a bound like our own, and takes no place of it."""

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    await until(lambda: not idle_threads())
    with at_most(1):
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", none_left)
            with pytest.raises(ThreadLimitError, match="can't start new thread, with 0 threads") as caught:
                await anext(aiter(in_thread(list)))
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert (await fuse_arms({"a": lambda: ["x"]})).ids == ["x"]


@pytest.mark.parametrize(
    ("most", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (None, TypeError)]
)
def test_the_bound_is_a_whole_number_of_at_least_one(most: Any, error: type[Exception]) -> None:
    """Anything else is refused, and changes nothing."""
    with pytest.raises(error, match="most must be a whole number of at least 1"):
        set_thread_limit(most)
    assert set_thread_limit(128) == 128


def test_the_error_can_be_sent_to_another_process() -> None:
    """It is an error of the library, and keeps its numbers when it is pickled."""
    error = pickle.loads(pickle.dumps(ThreadLimitError("none left", most=2, running=3)))  # noqa: S301 - our own
    assert issubclass(ThreadLimitError, RRFStreamError)
    assert (str(error), error.most, error.running) == ("none left", 2, 3)


# --- reading ahead ----------------------------------------------------------------------------------------


class Counted:
    """A generator that counts how often it was asked, and knows the thread that closed it."""

    def __init__(self, elements: int = 1000, page: int = 0) -> None:
        self.asked = 0
        self.closed_in: threading.Thread | None = None
        self.started_in: threading.Thread | None = None
        self._elements = elements
        self._page = page

    def __call__(self) -> Iterator[Any]:
        self.started_in = threading.current_thread()
        try:
            for number in range(self._elements):
                self.asked += 1
                yield Page([number] * self._page) if self._page else number
        finally:
            self.closed_in = threading.current_thread()

    async def asynchronous(self) -> AsyncIterator[Any]:
        for element in self():
            yield element


@pytest.mark.anyio
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("page", "buffer", "ahead"), [(0, 1, 1), (0, 7, 7), (3, 7, 3), (7, 7, 1), (50, 7, 1)]
)
async def test_a_source_is_not_read_far_ahead(page: int, buffer: int, ahead: int, asynchronous: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """As soon as `buffer` results wait, it is asked for no more until they are taken, all at once."""
    counted = Counted(page=page)
    stream = aiter(in_thread(counted.asynchronous if asynchronous else counted, buffer=buffer))
    taken = len(await anext(stream)) // max(page, 1)
    await until(lambda: counted.asked == taken + ahead)
    await anyio.sleep(0.02)
    assert counted.asked == taken + ahead
    assert len(await anext(stream)) == ahead * max(page, 1)
    await until(lambda: counted.asked == taken + 2 * ahead)
    await stream.aclose()


@pytest.mark.anyio
async def test_a_full_window_closes_the_source_in_its_thread() -> None:
    """The arm ends at its window; the source is closed where it was read, not much further on."""
    counted = Counted()
    final = await fuse_arms([Arm("a", counted, window=10)])
    assert (statuses(final), received(final)) == ({"a": ArmStatus.WINDOW_FULL}, {"a": 10})
    await until(lambda: counted.closed_in is not None)
    assert counted.closed_in is counted.started_in is not threading.current_thread()
    assert counted.asked < 1000


@pytest.mark.anyio
async def test_a_source_of_nothing_but_empty_pages_is_held_back() -> None:
    """Each counts like a result, so that an endless number of them takes no endless memory."""
    counted = Counted()

    def empty() -> Iterator[Page[str]]:
        for _ in counted():
            yield Page()

    stream = aiter(in_thread(empty, buffer=5))
    assert await anext(stream) == []
    await anyio.sleep(0.02)
    assert counted.asked <= 11
    await stream.aclose()


# --- closing ----------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_closing_an_arm_closes_what_blocks_when_it_comes_back() -> None:
    """A generator that was stuck is closed in its own thread, after its next result, which counts no more."""
    counted = Counted()
    with Stuck() as stuck:

        def generator() -> Iterator[Any]:
            for number in counted():
                yield number
                stuck()

        async with open_fusion({"a": generator}) as fusion:
            await anext(fusion)
            await until(lambda: stuck.calls == 1)
        assert counted.closed_in is None
        assert await drain(0) == ["rrf:thread:generator"]
    await until(lambda: counted.closed_in is not None)
    assert counted.closed_in is counted.started_in
    assert fusion.rankings() == {"a": [0]}
    assert counted.asked == 2


@pytest.mark.anyio
async def test_an_event_loop_in_a_thread_cancels_its_source() -> None:
    """An asynchronous source is cancelled where it waits, and may take its time to clean up."""
    steps: list[Any] = []

    async def asynchronous() -> AsyncIterator[str]:
        try:
            yield "x"
            steps.append("waits")
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            steps.append("cancelled")
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)
            steps.append(threading.current_thread().name)

    async with open_fusion({"a": in_thread(asynchronous)}):
        await until(lambda: bool(steps))
    assert await drain(5) == []
    assert steps == ["waits", "cancelled", "rrf:thread:asynchronous"]


@pytest.mark.anyio
async def test_a_source_that_is_closed_between_two_results_is_not_cancelled() -> None:
    """Where it does not wait there is nothing to cancel: its clean-up runs undisturbed, without a shield."""
    steps: list[str] = []

    async def asynchronous() -> AsyncIterator[int]:
        try:
            for number in range(1000):
                yield number
        finally:
            await anyio.sleep(0.02)
            steps.append("closed")

    stream = aiter(in_thread(asynchronous, buffer=1))
    await anext(stream)
    await anyio.sleep(0.02)
    await stream.aclose()
    assert await drain(5) == []
    assert steps == ["closed"]


@pytest.mark.anyio
async def test_a_second_cancellation_changes_nothing() -> None:
    """Closing waits for nothing, so that it is complete even in a scope that is cancelled again."""
    counted = Counted()
    with anyio.CancelScope() as scope:
        async with open_fusion({"a": counted, "b": in_thread(counted.asynchronous)}, grace=5.0) as fusion:
            await anext(fusion)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    with anyio.CancelScope() as again:
        again.cancel()
        await fusion.aclose()
    await assert_no_leaks(within=5)


@pytest.mark.anyio
async def test_closing_twice_or_unread_is_harmless() -> None:
    """A stream whose thread was never started has nothing to close, and is over."""
    for reads in (0, 1):
        stream = aiter(in_thread(Counted()))
        for _ in range(reads):
            await anext(stream)
        await stream.aclose()
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


@pytest.mark.anyio
async def test_a_stream_that_is_dropped_lets_its_thread_end() -> None:
    """Nobody has to close what is left with a bare `break`."""
    for source in (Counted(), Counted().asynchronous):
        async for _ in in_thread(source, buffer=1):
            break
        gc.collect()
        await until(lambda: not library_threads())


@pytest.mark.anyio
async def test_a_stream_is_read_by_one_task_at_a_time() -> None:
    """Two overlapping reads are refused, as by a generator."""
    with Stuck() as stuck:
        stream = aiter(in_thread(stuck))
        async with anyio.create_task_group() as group:
            group.start_soon(stream.__anext__)
            await turns()
            with pytest.raises(RuntimeError, match="being read already"):
                await anext(stream)
            stuck.release.set()


@pytest.mark.anyio
@pytest.mark.parametrize("limit", [1, 128])
async def test_an_arm_that_never_took_its_first_step_leaves_nothing(limit: int) -> None:
    """A fusion that is closed at once starts no thread, and no coroutine is left unawaited."""
    counted = Counted()

    async def awaited() -> list[str]:
        return ["x"]

    with at_most(limit):
        sources = [
            counted,
            in_thread(counted),
            in_thread(counted.asynchronous),
            in_thread(awaited()),
            counted(),
        ]
        await open_fusion({str(number): source for number, source in enumerate(sources)}).aclose()
    assert counted.asked == 0
    gc.collect()


@pytest.mark.anyio
@pytest.mark.parametrize("form", ["coroutine", "stream", "generator"])
async def test_what_a_call_returns_too_late_is_closed(form: str) -> None:
    """A coroutine without a warning, a stream on the event loop, a generator in its thread."""
    stream = script("x")
    counted = Counted()

    async def awaited() -> list[str]:
        return ["x"]

    results: dict[str, Callable[[], Any]] = {
        "coroutine": awaited,
        "stream": lambda: stream,
        "generator": lambda: map(str, counted()),
    }
    with Stuck() as stuck:

        def late() -> Any:
            stuck()
            return results[form]()

        await fuse_arms({"a": late}, timeout=0.01)
    await until(lambda: not library_threads())
    await turns()
    assert await drain(5) == []
    assert stream.closed is (form == "stream")
    assert counted.asked <= 1
    gc.collect()


@pytest.mark.anyio
async def test_an_error_after_the_end_is_an_event() -> None:
    """What a source raises when its arm is closed already is reported, once, and harms nothing."""

    def fails() -> list[str]:
        stuck()
        raise OSError("gone")

    with capture_events() as events:
        with Stuck() as stuck:
            final = await fuse_arms({"a": fails}, timeout=0.01)
        assert await drain(5) == []
        await turns()
    assert final.coverage["a"].error is None
    late = [event for event in events if event["event"] == "rrf_stream.late_error"]
    assert late == [
        {
            "event": "rrf_stream.late_error",
            "log_level": "info",
            "thread": "rrf:thread:fails",
            "error": "OSError('gone')",
        }
    ]


@pytest.mark.anyio
async def test_an_error_that_nobody_has_read_is_an_event() -> None:
    """So is one that the source raised before its stream was closed, if its reader had not come to it."""

    def fails() -> Iterator[str]:
        yield "x"
        may_fail.wait()
        raise OSError("gone")

    may_fail = threading.Event()
    with capture_events() as events:
        stream = aiter(in_thread(fails))
        assert await anext(stream) == ["x"]
        may_fail.set()
        await until(lambda: not library_threads())
        await turns()
        assert events == []
        await stream.aclose()
    assert [(event["event"], event["error"]) for event in events] == [
        ("rrf_stream.late_error", "OSError('gone')")
    ]


@pytest.mark.anyio
@virtual_time
async def test_a_leak_check_gives_threads_time_to_end() -> None:
    """A thread that is stuck is a leak by its name; one that ends is none, however the clock jumps."""
    with Stuck() as stuck:
        await fuse_arms({"a": stuck}, timeout=0.01)
        with pytest.raises(AssertionError, match="still alive: rrf:thread:Stuck"):
            await assert_no_leaks(within=0.01)
    stuck.thread.join()
    await assert_no_leaks(within=0)


@pytest.mark.anyio
async def test_the_source_is_let_go_of() -> None:
    """When an arm is over nothing holds its source or its results any more."""

    class Big:
        pass

    def results() -> Iterator[Any]:
        yield Page([big])

    big = Big()
    gc.collect()
    before = sys.getrefcount(big)
    await fuse_arms({"a": results, "b": in_thread(results)}, top_k=1)
    await drain(5)
    await until(lambda: not library_threads())
    await turns()
    gc.collect()
    assert sys.getrefcount(big) == before


@pytest.mark.anyio
@virtual_time
async def test_statuses_of_threads_are_exact_in_virtual_time() -> None:
    """Time stands still while a source runs in its thread, so that nothing is late by accident."""
    final = await fuse_arms(
        {"a": lambda: ["x"], "b": in_thread(Counted(3)), "c": Counted(3), "d": script(0.5, "y")}, timeout=1.0
    )
    assert ended(final) == {
        "a": ("exhausted", 0.0),
        "b": ("exhausted", 0.0),
        "c": ("exhausted", 0.0),
        "d": ("exhausted", 0.5),
    }
