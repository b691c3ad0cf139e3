"""Sources that block: what runs in a thread, and what comes of it."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections import deque
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import on, received, run_virtual, statuses, virtual_time
from hypothesis import given
from hypothesis import strategies as st
from threads_kit import Stuck, at_most

from rrf_stream import Arm, ArmStatus, Hit, Page, Pipeline, fuse, fuse_arms, in_thread, open_fusion, pages
from rrf_stream.testing import VIRTUAL_BACKENDS, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Seen:
    """Sources that take note of the thread in which each of their steps runs, and of its name."""

    def __init__(self) -> None:
        self.threads: dict[str, threading.Thread] = {}
        self.names: set[str] = set()

    def note(self, step: str) -> None:
        self.threads[step] = threading.current_thread()
        self.names.add(threading.current_thread().name)

    def listed(self) -> list[str]:
        self.note("call")
        return ["x", "y"]

    def generated(self) -> Iterator[str]:
        try:
            self.note("call")
            yield "x"
            self.note("read")
            yield "y"
        finally:
            self.note("close")

    def factory(self) -> AsyncIterator[str]:
        self.note("factory")
        return self.streamed()

    async def streamed(self) -> AsyncIterator[str]:
        try:
            self.note("call")
            yield "x"
            await anyio.lowlevel.checkpoint()
            self.note("read")
            yield "y"
        finally:
            self.note("close")

    async def awaited(self) -> list[str]:
        self.note("call")
        await anyio.lowlevel.checkpoint()
        return ["x", "y"]

    async def __call__(self) -> list[str]:
        return await self.awaited()


class Stream:
    """A class of asynchronous iterators."""

    def __init__(self, seen: Seen) -> None:
        seen.note("call")
        self._results = iter("xy")

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        for result in self._results:
            return result
        raise StopAsyncIteration


# --- the rule ---------------------------------------------------------------------------------------------

ON_THE_LOOP: dict[str, Callable[[Seen], Any]] = {
    "coroutine function": lambda seen: seen.awaited,
    "asynchronous generator function": lambda seen: seen.streamed,
    "partial of one": lambda seen: partial(partial(Seen.awaited, seen)),
    "partial of a method": lambda seen: partial(seen.streamed),
    "object with an asynchronous call": lambda seen: seen,
    "class of asynchronous iterators": lambda seen: partial(Stream, seen),
    "what a callable returns": lambda seen: seen.factory,
    "coroutine": lambda seen: seen.awaited(),
}
IN_A_THREAD: dict[str, Callable[[Seen], Any]] = {
    "function": lambda seen: seen.listed,
    "partial": lambda seen: partial(Seen.listed, seen),
    "lambda": lambda seen: lambda: [*seen.listed()],
    "callable that a callable returns": lambda seen: lambda: seen.listed,
    "generator": lambda seen: seen.generated(),
    "generator function": lambda seen: seen.generated,
    "generator that a coroutine returns": lambda seen: partial(_later, seen.generated()),
}


async def _later(value: Any) -> Any:
    await anyio.lowlevel.checkpoint()
    return value


@pytest.mark.anyio
@pytest.mark.parametrize("form", ON_THE_LOOP)
async def test_what_is_asynchronous_runs_on_the_event_loop(form: str) -> None:
    """It is called and read there, also if a plain callable returned it."""
    seen = Seen()
    final = await fuse_arms({"a": ON_THE_LOOP[form](seen)})
    assert final.ids == ["x", "y"]
    assert seen.threads.pop("factory", None) is not threading.current_thread()
    assert set(seen.threads.values()) == {threading.current_thread()}


@pytest.mark.anyio
@pytest.mark.parametrize("form", IN_A_THREAD)
async def test_what_is_not_runs_in_one_thread(form: str) -> None:
    """It is called, read and closed in the same daemon thread, which has the name of the source."""
    seen = Seen()
    final = await fuse_arms({"a": IN_A_THREAD[form](seen)})
    assert final.ids == ["x", "y"]
    (thread,) = set(seen.threads.values())
    assert thread is not threading.current_thread()
    assert thread.daemon
    (name,) = seen.names
    assert name in {"rrf:thread:listed", "rrf:thread:generated", "rrf:thread:<lambda>"}
    assert ("close" in seen.threads) is ("gener" in form)


@pytest.mark.anyio
@pytest.mark.parametrize("form", [list, tuple, deque, Page, dict.fromkeys("xy").keys], ids=repr)
async def test_a_collection_needs_no_thread(form: Callable[..., Any]) -> None:
    """A list or another sized collection is read at once, also when there is no thread to be had."""
    with Stuck() as stuck, at_most(1):
        await fuse_arms({"a": stuck}, timeout=0.01)
        final = await fuse_arms({"a": form("xy") if isinstance(form, type) else form()})
    assert final.ids == ["x", "y"]


@pytest.mark.anyio
async def test_a_list_from_a_callable_is_one_page() -> None:
    """No snapshot shows part of it."""
    async with open_fusion({"a": lambda: ["x", "y", "z"], "b": script(hang=True)}) as fusion:
        assert (await anext(fusion)).ids == ["x", "y", "z"]


# --- in_thread --------------------------------------------------------------------------------------------

BLOCKING: dict[str, Callable[[Seen], Any]] = (
    IN_A_THREAD
    | ON_THE_LOOP
    | {
        "list": lambda _: ["x", "y"],
        "script": lambda _: script("x", "y"),
        "nested": lambda s: in_thread(s.listed),
    }
)
del BLOCKING["coroutine"], BLOCKING["generator that a coroutine returns"]


@pytest.mark.anyio
@pytest.mark.parametrize("form", BLOCKING)
async def test_in_thread_takes_any_source(form: str) -> None:
    """Whatever it is, nothing of it runs in the thread of the fusion, but all in another one."""
    seen = Seen()
    final = await fuse_arms({"a": in_thread(BLOCKING[form](seen))})
    assert (final.ids, statuses(final)) == (["x", "y"], {"a": ArmStatus.EXHAUSTED})
    assert threading.current_thread() not in seen.threads.values()
    assert len(set(seen.threads.values())) == bool(seen.threads)


@pytest.mark.anyio
async def test_a_coroutine_may_be_given_unstarted() -> None:
    """One that was created on this event loop, but not begun, runs in the thread."""
    seen = Seen()
    final = await fuse_arms({"a": in_thread(seen.awaited()), "b": in_thread(_later(iter("y")))})
    assert final.ids == ["y", "x"]
    assert threading.current_thread() not in seen.threads.values()


@pytest.mark.anyio
async def test_an_asynchronous_source_runs_on_the_same_kind_of_event_loop(
    anyio_backend: tuple[str, dict[str, Any]],
) -> None:
    """On trio under trio, else on asyncio."""

    async def kind() -> AsyncIterator[Any]:
        token = anyio.lowlevel.current_token().native_token
        yield "asyncio" if isinstance(token, asyncio.AbstractEventLoop) else "trio"
        yield token

    kind_, token = (await fuse_arms({"a": in_thread(kind)})).ids
    assert kind_ == anyio_backend[0]
    assert token is not anyio.lowlevel.current_token().native_token


@pytest.mark.anyio
async def test_in_thread_makes_a_retriever() -> None:
    """Called with a query, it gives what calls the retriever in a thread, anew for every query."""
    seen = Seen()

    def retriever(query: str, *, suffix: str = "") -> list[str]:
        seen.note(query)
        return [query + suffix]

    hybrid = Pipeline({"a": in_thread(retriever), "b": in_thread(partial(retriever, suffix="!"))})
    for query in ("one", "two"):
        assert (await hybrid.search(query)).ids == [query, f"{query}!"]
    assert threading.current_thread() not in seen.threads.values()


@pytest.mark.anyio
async def test_it_can_be_read_again_and_without_a_fusion() -> None:
    """It is an asynchronous iterable of pages; each iteration is a new one, in a thread of its own."""
    seen = Seen()
    source = in_thread(seen.generated)
    for _ in range(2):
        found = [page async for page in source]
        assert all(type(page) is Page for page in found)
        assert [id_ for page in found for id_ in page] == ["x", "y"]
    stream = aiter(source)
    assert (await anext(stream))[0] == "x"
    await stream.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


@pytest.mark.anyio
async def test_elements_are_what_they_are_elsewhere() -> None:
    """Ids, hits and pages in one stream; a list is one result, and under `pages` it is a page."""

    def mixed() -> Iterator[Any]:
        page = Page(["p"])
        yield page
        page[:] = ["q", "r"]  # the same list again: what was given before stays what it was
        yield page
        yield Hit("h", item="H")
        yield ("s", "t")

    for source in (mixed, in_thread(mixed)):
        final = await fuse_arms({"a": source})
        assert final.ids == ["p", "q", "r", "h", ("s", "t")]
        assert final.hits[3].item == "H"
    for batches in (lambda: iter([["x"], ("y", "z")]), in_thread(lambda: [["x"], ["y", "z"]])):
        assert (await fuse_arms({"a": pages(batches)})).ids == ["x", "y", "z"]


@pytest.mark.anyio
async def test_context_variables_reach_the_thread() -> None:
    """The source sees the context of whoever opened the fusion, and changes only a copy."""

    async def asynchronous() -> list[str]:
        return [f"asynchronous: {WHO.get()}"]

    def plain() -> Iterator[str]:
        yield f"plain: {WHO.get()}"
        WHO.set("the source")
        yield f"then: {WHO.get()}"

    WHO.set("me")
    arms = {"a": plain, "b": in_thread(plain), "c": in_thread(asynchronous), "d": plain()}
    assert set((await fuse_arms(arms)).ids) == {"plain: me", "then: the source", "asynchronous: me"}
    assert WHO.get() == "me"


@pytest.mark.anyio
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_a_source_in_a_thread_may_run_an_event_loop_of_its_own(backend: str) -> None:
    """A library for synchronous programs often does; the loop outside is none of this thread."""

    async def found() -> list[str]:
        await anyio.lowlevel.checkpoint()
        return ["x"]

    def blocking() -> list[str]:
        return anyio.run(found, backend=backend)

    def generator() -> Iterator[str]:
        yield from blocking()

    final = await fuse_arms({"function": blocking, "generator": generator, "wrapped": in_thread(blocking)})
    assert [(arm.status, arm.error) for arm in final.coverage] == [("exhausted", None)] * 3


@pytest.mark.parametrize("source", ["text", b"", {"a": 1}, {"x"}, 5, None], ids=repr)
def test_what_is_no_source_is_refused_at_once(source: Any) -> None:
    """As everywhere, before anything runs."""
    with pytest.raises(TypeError, match="source must be"):
        in_thread(source)


@pytest.mark.parametrize(("buffer", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
def test_a_buffer_holds_at_least_one(buffer: Any, error: type[Exception]) -> None:
    """Anything else is refused, and the error names the parameter."""
    with pytest.raises(error, match="buffer must be a whole number of at least 1"):
        in_thread(list, buffer=buffer)


def test_only_a_callable_can_be_called() -> None:
    """Calling what reads a list, as a pipeline would, is a mistake that says so."""
    with pytest.raises(TypeError, match="what is called must be a callable, not"):
        in_thread(["x"])("query")
    assert repr(in_thread(["x"])) == "in_thread(['x'])"


@pytest.mark.anyio
@pytest.mark.parametrize("result", ["text", {"a": 1}, {"x"}, None, 5], ids=repr)
async def test_what_turns_out_to_be_no_source_fails_its_arm(result: Any) -> None:
    """In a thread as on the event loop."""
    final = await fuse_arms({"a": lambda: result, "b": in_thread(lambda: result)})
    for report in final.coverage:
        assert "what the source returned must be" in str(report.error)


@pytest.mark.anyio
async def test_callables_that_never_lead_to_a_source_fail_their_arm() -> None:
    """They are called a few times, and not for ever."""

    def itself() -> Any:
        return itself

    final = await fuse_arms({"a": itself, "b": in_thread(itself)})
    for report in final.coverage:
        assert "source must be one within 8 calls" in str(report.error)


# --- on time ----------------------------------------------------------------------------------------------


def sleeps() -> list[str]:
    time.sleep(0.4)
    return ["late"]


def sleeps_after_one() -> Iterator[str]:
    yield "in time"
    time.sleep(0.03)
    yield "just in time"
    time.sleep(0.4)
    yield "late"


async def blocks_its_event_loop() -> AsyncIterator[str]:
    yield "in time"
    await anyio.sleep(0.03)
    yield "just in time"
    time.sleep(0.4)  # noqa: ASYNC251 - that is what it is for
    yield "late"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("source", "arrived"),
    [
        (sleeps, []),
        (in_thread(sleeps), []),
        (sleeps_after_one, ["in time", "just in time"]),
        (in_thread(sleeps_after_one), ["in time", "just in time"]),
        (in_thread(blocks_its_event_loop), ["in time", "just in time"]),
    ],
    ids=["call", "call in_thread", "generator", "generator in_thread", "coroutine in_thread"],
)
async def test_the_answer_is_on_time_whatever_blocks(source: Any, arrived: list[str]) -> None:
    """The final snapshot comes at the deadline, with what had arrived, and leaving does not wait."""
    began = time.perf_counter()
    async with open_fusion({"blocks": source, "good": ["good"]}, timeout=0.15) as fusion:
        final = await fusion.final()
        assert 0.149 <= time.perf_counter() - began < 0.25
    assert time.perf_counter() - began < 0.3
    assert fusion.rankings()["blocks"] == arrived
    assert statuses(final) == {"blocks": ArmStatus.DEADLINE, "good": ArmStatus.EXHAUSTED}


@pytest.mark.anyio
async def test_blocking_arms_run_at_the_same_time_and_leave_the_loop_free() -> None:
    """Ten calls of 100 ms take little more than one, and a task on the loop goes on meanwhile."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.002)
            ticks += 1

    def hundred() -> list[str]:
        time.sleep(0.1)
        return ["x"]

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        final = await fuse_arms({f"arm {number}": hundred for number in range(10)})
        group.cancel_scope.cancel()
    assert (final.elapsed or 0) < 0.3
    assert len(final.hits[0].ranks) == 10
    assert ticks > 10


# --- errors -----------------------------------------------------------------------------------------------


def raises_deep(error: BaseException) -> Iterator[str]:
    yield "x"
    raise error


async def raises_on_a_loop(error: BaseException) -> AsyncIterator[str]:
    yield "x"
    raise error


@pytest.mark.anyio
@pytest.mark.parametrize("error", [OSError("down"), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("blocks", [raises_deep, raises_on_a_loop])
async def test_an_error_is_the_arms_own(blocks: Any, error: BaseException) -> None:
    """The very exception of the source is in the report, with its traceback; what came before it counts."""
    final = await fuse_arms({"a": in_thread(blocks)(error), "b": ["y"]})
    report = final.coverage["a"]
    assert (report.status, report.received) == (ArmStatus.FAILED, 1)
    assert report.error is error
    assert blocks.__name__ in [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), GeneratorExit(), StopIteration(), StopAsyncIteration(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
async def test_what_would_mean_something_else_on_an_event_loop_is_a_failure(error: BaseException) -> None:
    """A Ctrl-C, a cancellation or an end that a thread raises concerns nothing but its arm."""

    def call() -> list[str]:
        raise error

    final = await fuse_arms({"a": call, "b": in_thread(call), "c": ["y"]})
    assert final.ids == ["y"]
    for name in "ab":
        assert final.coverage[name].status is ArmStatus.FAILED
        failure = final.coverage[name].error
        assert isinstance(failure, RuntimeError)
        assert failure.__cause__ is error
        assert type(error).__name__ in str(failure)


@pytest.mark.anyio
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_an_event_loop_in_a_thread_may_go_down(error: type[BaseException]) -> None:
    """Whatever an asynchronous source raises there, it is a failure of the arm."""
    final = await fuse_arms({"a": in_thread(raises_on_a_loop)(error()), "b": ["y"]})
    assert final.coverage["a"].status is ArmStatus.FAILED
    assert set(final.ids) >= {"y"}


# --- for all ----------------------------------------------------------------------------------------------


@given(data=st.data(), ids=st.lists(st.integers(0, 30), max_size=40), buffer=st.integers(1, 12))
@pytest.mark.parametrize("backend", VIRTUAL_BACKENDS)
def test_neither_pages_nor_buffers_change_a_ranking(
    backend: str, data: st.DataObject, ids: list[int], buffer: int
) -> None:
    """However a ranking is cut into pages and single results, and however few of them may wait."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=6)))
    parts = [ids[start:end] for start, end in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    elements: list[Any] = []
    for part in parts:
        elements += [Page(part)] if data.draw(st.booleans()) else part
    window = data.draw(st.none() | st.integers(1, 20))
    asynchronous = data.draw(st.booleans())

    async def streamed() -> AsyncIterator[Any]:
        for element in elements:
            yield element

    async def main() -> None:
        source = in_thread(streamed if asynchronous else lambda: iter(elements), buffer=buffer)
        async with open_fusion([Arm("a", source, window=window)], top_k=50) as fusion:
            final = await fusion.final()
        assert final.ids == [hit.id for hit in fuse([ids[:window]])]
        assert fusion.rankings()["a"] == ids[:window]

    run_virtual(backend, main)


@pytest.mark.anyio
@virtual_time
async def test_a_page_beyond_the_buffer_is_taken_whole() -> None:
    """Nothing waits for room that cannot come."""

    def huge() -> Iterator[Any]:
        for start in range(0, 1000, 100):
            yield Page(range(start, start + 100))
            yield Page()

    final = await fuse_arms([Arm("a", in_thread(huge, buffer=1), window=None)])
    assert received(final) == {"a": 1000}


@pytest.mark.anyio
@on("asyncio")
async def test_what_was_quick_took_no_turn_of_the_loop() -> None:
    """A plain callable that returns at once is waited for at once: no other task sees a pause."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    await anyio.sleep(0.2)  # past the time in which nobody waits so, because another test had a slow call
    async with anyio.create_task_group() as group:
        group.start_soon(count)
        final = await fuse_arms({"a": lambda: script("x", "y")})
        group.cancel_scope.cancel()
    assert final.ids == ["x", "y"]
    assert turns < 10
