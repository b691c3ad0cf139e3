"""A thread that is done waits a little for the next source, and knows nothing of the one before."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import statuses, turns, virtual_time
from threads_kit import Stuck, at_most, idle_threads, library_threads, until

from rrf_stream import ArmStatus, _threads, drain, fuse_arms, in_thread
from rrf_stream.testing import VirtualEventLoop, assert_no_leaks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

WHO: ContextVar[Any] = ContextVar("WHO", default="nobody")
PATIENCE = _threads._PATIENCE


def call(step: Callable[[], Any]) -> Any:
    return lambda: [step()]


def generator(step: Callable[[], Any]) -> Any:
    def generate() -> Iterator[Any]:
        yield step()

    return generate


def called_in_thread(step: Callable[[], Any]) -> Any:
    return in_thread(call(step))


def on_a_loop(step: Callable[[], Any]) -> Any:
    async def generate() -> AsyncIterator[Any]:
        yield step()

    return in_thread(generate)


FORMS = [call, generator, called_in_thread, on_a_loop]
forms = pytest.mark.parametrize("form", FORMS)


async def run(form: Callable[..., Any], step: Callable[[], Any] = int) -> tuple[threading.Thread, Any]:
    """Return the thread that ran a source of some form, once it waits for the next, and what a step gave."""
    (hit,) = (await fuse_arms({"a": form(lambda: (threading.current_thread(), step()))})).hits
    await until(lambda: hit.id[0] in idle_threads())
    thread, result = hit.id
    return thread, result


async def thread_of(form: Callable[..., Any]) -> threading.Thread:
    """Return the thread that ran a source of some form, once it waits for the next."""
    return (await run(form))[0]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads wait longer, as this machine may be busy."""
    monkeypatch.setattr(_threads, "_PATIENCE", 2.0)


# --- who runs what ----------------------------------------------------------------------------------------


@pytest.mark.anyio
@forms
async def test_the_next_source_runs_in_the_same_thread(form: Any) -> None:
    """Whatever the one before was, and whatever the next is."""
    thread = await thread_of(form)
    for another in FORMS:
        assert await thread_of(another) is thread


@pytest.mark.anyio
async def test_two_at_once_run_in_two_threads() -> None:
    """A source that waits for another gets it: none waits for the thread of one that runs."""
    await thread_of(call)
    both = threading.Barrier(2)

    def meets() -> list[threading.Thread]:
        both.wait(5)
        return [threading.current_thread()]

    for _ in range(3):
        final = await fuse_arms({"a": meets, "b": in_thread(meets)})
        assert len(set(final.ids)) == 2


@pytest.mark.anyio
async def test_an_idle_thread_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon, and nothing is left of it; the next source gets another one."""
    monkeypatch.setattr(_threads, "_PATIENCE", PATIENCE)
    thread = await thread_of(call)
    assert thread.is_alive()
    await until(lambda: not thread.is_alive())
    assert thread not in idle_threads()
    assert await thread_of(call) is not thread


@pytest.mark.anyio
async def test_an_idle_thread_is_no_running_one() -> None:
    """It holds no place, has a name of no source, is no leak and nothing to wait for; and is a daemon."""
    with at_most(1):
        thread = await thread_of(call)
        assert (thread.name, thread.daemon) == ("idle thread of rrf_stream", True)
        assert library_threads() == []
        assert await drain(0) == []
        await assert_no_leaks(within=0)
        with Stuck() as stuck:
            await fuse_arms({"a": stuck}, timeout=0.01)
            await until(lambda: stuck.calls == 1)
            assert (stuck.thread, thread.name) == (thread, "rrf:thread:Stuck")
    assert await drain(5) == []
    await until(lambda: thread.name == "idle thread of rrf_stream")


@pytest.mark.anyio
async def test_a_stuck_thread_is_never_waited_for() -> None:
    """What comes next runs in other threads, until the call comes back: then its thread is like any other."""
    with Stuck() as stuck:
        await fuse_arms({"a": stuck}, timeout=0.01)
        await until(lambda: stuck.calls == 1)
        for form in FORMS:
            began = time.perf_counter()
            assert await thread_of(form) is not stuck.thread
            assert time.perf_counter() - began < 1
        assert stuck.thread.name == "rrf:thread:Stuck"
    await until(lambda: stuck.thread in idle_threads())
    assert await thread_of(call) is stuck.thread


@pytest.mark.anyio
async def test_a_thread_that_failed_is_used_again() -> None:
    """What a source raises is its reader's alone."""

    def fails() -> list[str]:
        threads.append(threading.current_thread())
        raise SystemExit

    threads: list[threading.Thread] = []
    assert statuses(await fuse_arms({"a": fails})) == {"a": ArmStatus.FAILED}
    await until(lambda: threads[0] in idle_threads())
    assert await thread_of(call) is threads[0]


@pytest.mark.anyio
async def test_no_source_is_lost_to_a_thread_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is taken in the very moment in which it would have ended stays."""
    monkeypatch.setattr(_threads, "_PATIENCE", 0.0001)
    for number in range(300):
        with anyio.fail_after(5):
            assert (await fuse_arms({"a": lambda number=number: [number]})).ids == [number]
        time.sleep(number % 10 * 0.00003)  # noqa: ASYNC251 - the event loop does nothing else


def test_event_loops_share_threads() -> None:
    """Loops of both kinds in threads of the test, each with more sources than one thread can run."""

    async def ask(loop: str) -> None:
        for number in range(40):
            results = [f"{loop} {number} {arm}" for arm in range(len(FORMS))]
            arms = {result: form(partial(str, result)) for result, form in zip(results, FORMS, strict=True)}
            assert sorted((await fuse_arms(arms)).ids) == results
        done.add(loop)

    done: set[str] = set()
    loops = [
        threading.Thread(target=anyio.run, args=(ask, f"{number} {backend}"), kwargs={"backend": backend})
        for number, backend in enumerate(["asyncio", "trio", "asyncio"])
    ]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join()
    assert len(done) == len(loops)
    assert len(idle_threads()) <= len(loops) * len(FORMS)


# --- what is left of the one before -----------------------------------------------------------------------


@pytest.mark.anyio
@forms
async def test_context_variables_do_not_outlive_a_source(form: Any) -> None:
    """The next one sees the context of its own reader, whatever the one before set."""

    def set_who() -> Any:
        before = WHO.get()
        WHO.set("the source")
        return before

    thread = await thread_of(form)
    for who in ("me", "you"):
        WHO.set(who)
        assert await run(form, set_who) == (thread, who)


class Thing:
    """Something of which can be seen whether it is still there."""


class OwnError(Exception):
    """An exception, of which the same can be seen."""


@pytest.mark.anyio
@forms
@pytest.mark.parametrize("fails", [False, True])
async def test_an_idle_thread_refers_to_nothing(form: Any, fails: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """What a source held, gave, raised and set is collected while its thread waits for the next."""
    threads: list[threading.Thread] = []
    things: list[weakref.ref[Any]] = []

    def thing() -> Thing:
        new = Thing()
        things.append(weakref.ref(new))
        return new

    async def use() -> None:
        held = thing()
        WHO.set(thing())

        def step() -> Any:
            threads.append(threading.current_thread())
            WHO.set(thing())
            if fails:
                error = OwnError(held)
                things.append(weakref.ref(error))
                raise error
            return thing()

        final = await fuse_arms({"a": form(step)})
        assert statuses(final) == {"a": ArmStatus.FAILED if fails else ArmStatus.EXHAUSTED}

    await use()
    WHO.set(None)
    await until(lambda: threads[0] in idle_threads())
    await turns()
    gc.collect()
    assert threads[0].is_alive()
    assert len(things) == 4
    assert [each() for each in things if each() is not None] == []


@pytest.mark.anyio
async def test_an_idle_thread_has_no_results_that_nobody_took() -> None:
    """What waited when a stream was closed goes with the stream."""
    threads: list[threading.Thread] = []
    things: list[weakref.ref[Thing]] = []

    def generate() -> Iterator[Thing]:
        threads.append(threading.current_thread())
        for _ in range(9):
            thing = Thing()
            things.append(weakref.ref(thing))
            yield thing
            del thing

    stream = aiter(in_thread(generate, buffer=3))
    await anext(stream)
    await until(lambda: len(things) >= 4)
    await stream.aclose()
    del stream
    await until(lambda: threads[0] in idle_threads())
    await turns()
    gc.collect()
    assert [each() for each in things if each() is not None] == []


@pytest.mark.anyio
async def test_a_source_that_nobody_else_holds_is_collected_in_its_thread() -> None:
    """Before that is idle, as what collects it may take its time."""

    class Client:
        def __call__(self) -> list[threading.Thread]:
            return [threading.current_thread()]

        def __del__(self) -> None:
            collected.append((threading.current_thread(), threading.current_thread().name))

    collected: list[tuple[threading.Thread, str]] = []
    stream = aiter(in_thread(Client()))
    (thread,) = await anext(stream)
    await until(lambda: thread in idle_threads())
    assert collected == [(thread, "rrf:thread:Client")]
    await stream.aclose()


@pytest.mark.anyio
async def test_state_of_a_thread_may_be_met_again() -> None:
    """What a source keeps in `threading.local`, such as a connection, is there in the same thread."""
    local = threading.local()

    def connect() -> Any:
        return local.__dict__.setdefault("connection", threading.get_ident())

    thread, connection = await run(call, connect)
    assert await run(generator, connect) == (thread, connection)


# --- virtual clocks ---------------------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
async def test_an_idle_thread_does_not_hold_up_the_clock() -> None:
    """Time goes on at once when its source has ended."""
    await fuse_arms({"a": list})
    began = time.monotonic()
    await anyio.sleep(3600)
    assert time.monotonic() - began < 0.1


def test_a_thread_that_does_one_thing_after_the_other_is_not_stuck() -> None:
    """The patience of a clock is for each source, however long its thread has been working."""

    def slow() -> list[str]:
        time.sleep(0.05)
        return ["x"]

    async def main() -> None:
        for _ in range(30):  # longer together than the patience, each far less
            final = await fuse_arms({"a": slow}, timeout=30.0)
            assert statuses(final) == {"a": ArmStatus.EXHAUSTED}
        assert anyio.current_time() == 0

    with asyncio.Runner(loop_factory=lambda: VirtualEventLoop(thread_patience=1.2)) as runner:
        runner.run(main())
