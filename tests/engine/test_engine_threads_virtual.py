"""Virtual time stands still while a source runs in its thread, but for one that is stuck."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import ended, on, run_virtual, virtual_time
from hypothesis import given, settings
from hypothesis import strategies as st

from rrf_stream import Page, drain, fuse_arms, in_thread, open_fusion
from rrf_stream.testing import VIRTUAL_BACKENDS, VirtualEventLoop, assert_no_leaks, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


def slow(*results: Any) -> Any:
    """Return a function that takes 10 ms of real time for each result."""

    def call() -> list[Any]:
        time.sleep(0.01 * len(results))
        return list(results)

    return call


def slowly(*results: Any) -> Any:
    """Return a generator function that takes 10 ms of real time for each result."""

    def generate() -> Iterator[Any]:
        for result in results:
            time.sleep(0.01)
            yield result

    return generate


def on_a_loop(*results: Any) -> Any:
    """Return an asynchronous generator function that waits and blocks, in real time."""

    async def generate() -> AsyncIterator[Any]:
        for result in results:
            await anyio.sleep(0.005)
            time.sleep(0.005)  # noqa: ASYNC251 - that is what it is for
            yield result

    return generate


SOURCES: dict[str, Callable[..., Any]] = {
    "call": slow,
    "call in_thread": lambda *results: in_thread(slow(*results)),
    "generator": slowly,
    "generator given": lambda *results: slowly(*results)(),
    "generator in_thread": lambda *results: in_thread(slowly(*results), buffer=2),
    "coroutine in_thread": lambda *results: in_thread(on_a_loop(*results)),
    "factory": lambda *results: lambda: script(*slow(*results)()),
}


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("form", SOURCES)
async def test_no_time_passes_while_a_source_works(form: str) -> None:
    """What takes real time takes no virtual time: nothing times out, and what has a time is exact."""
    final = await fuse_arms(
        {"blocks": SOURCES[form](*"abcde"), "scripted": script(0.25, "b"), "hangs": script(hang=True)},
        timeout=0.3,
    )
    assert anyio.current_time() == pytest.approx(0.3)
    assert ended(final) == {
        "blocks": ("exhausted", 0.0),
        "scripted": ("exhausted", 0.25),
        "hangs": ("deadline", 0.3),
    }


@pytest.mark.anyio
@virtual_time
async def test_a_script_in_a_factory_is_exact() -> None:
    """A callable that returns an asynchronous source takes no time, and its source what it is told."""
    async with open_fusion({"a": lambda: script(0.1, "x", 0.1, "y"), "b": slow("z")}) as fusion:
        seen = [(snapshot.elapsed, sorted(snapshot.ids)) async for snapshot in fusion]
    assert seen == [(0.0, ["z"]), (0.1, ["x", "z"]), (pytest.approx(0.2), ["x", "y", "z"])]


@pytest.mark.anyio
@virtual_time
async def test_time_passes_between_two_reads() -> None:
    """A thread that waits for its reader does not hold up the clock, so that a slow reader takes its time."""
    pages = []
    async for page in in_thread(slowly(*range(5)), buffer=1):
        pages.append((anyio.current_time(), page))
        await anyio.sleep(1)
    assert pages == [(float(second), Page([second])) for second in range(5)]


@pytest.mark.anyio
@virtual_time
async def test_a_stuck_source_does_not_hold_up_the_clock_for_ever() -> None:
    """After a second of real time the clock goes on without it, and the deadline is exact all the same."""
    release = threading.Event()
    began = time.monotonic()
    final = await fuse_arms({"stuck": release.wait, "later": script(7.0, "x", hang=True)}, timeout=30.0)
    assert ended(final) == {"stuck": ("deadline", 30.0), "later": ("deadline", 30.0)}
    assert final.ids == ["x"]
    assert 0.9 < time.monotonic() - began < 5
    release.set()
    assert await drain() == []


@pytest.mark.parametrize("patience", [0.0, 0.1])
def test_the_patience_is_real_time_and_may_be_chosen(patience: float) -> None:
    """With none at all, the clock waits for no thread."""
    release = threading.Event()

    async def main() -> None:
        final = await fuse_arms({"stuck": in_thread(release.wait)}, timeout=30.0)
        assert ended(final) == {"stuck": ("deadline", 30.0)}
        release.set()
        await drain()

    began = time.monotonic()
    with asyncio.Runner(loop_factory=lambda: VirtualEventLoop(thread_patience=patience)) as runner:
        runner.run(main())
    assert patience <= time.monotonic() - began < patience + 0.9


@pytest.mark.anyio
@virtual_time
async def test_closing_a_source_takes_no_time_either() -> None:
    """The clean-up in a thread is over before the clock goes on."""
    closed: list[float] = []

    def generate() -> Iterator[str]:
        try:
            yield "x"
            yield "y"
        finally:
            time.sleep(0.02)
            closed.append(1)

    async with open_fusion({"a": in_thread(generate, buffer=1), "b": script(hang=True)}) as fusion:
        await anext(fusion)
    await anyio.sleep(0.001)
    assert closed == [1]
    await assert_no_leaks(within=0)


@pytest.mark.anyio
@virtual_time
async def test_threads_of_another_event_loop_do_not_count() -> None:
    """A clock waits for those that answer to its own loop."""
    release = threading.Event()
    threads: list[threading.Thread] = []

    def stuck() -> None:
        threads.append(threading.current_thread())
        release.wait()

    def elsewhere() -> None:
        anyio.run(lambda: fuse_arms({"a": in_thread(stuck)}, timeout=0.05))

    other = threading.Thread(target=elsewhere)
    other.start()
    other.join()
    began = time.monotonic()
    await anyio.sleep(30)
    assert time.monotonic() - began < 0.5
    release.set()
    for thread in threads:
        thread.join()


@pytest.mark.anyio
@on(*(f"{name}-virtual" for name in VIRTUAL_BACKENDS))
async def test_a_clock_that_waits_for_a_thread_runs_other_tasks() -> None:
    """A source that waits for a task of the loop gets what it waits for: the loop goes on meanwhile."""
    go_on = threading.Event()

    async def helper() -> AsyncIterator[str]:
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        go_on.set()
        yield "helped"

    def waits() -> list[str]:
        return ["done"] if go_on.wait(10) else []

    began = time.monotonic()
    final = await fuse_arms({"waits": in_thread(waits), "helper": helper()})
    assert final.ids == ["done", "helped"]
    assert time.monotonic() - began < 0.9


@settings(max_examples=20)
@given(
    works=st.lists(st.tuples(st.sampled_from(sorted(SOURCES)), st.integers(0, 3)), min_size=1, max_size=4),
    steps=st.lists(st.integers(0, 400).map(lambda number: number / 1000), max_size=3),
)
@pytest.mark.parametrize("backend", VIRTUAL_BACKENDS)
def test_a_fusion_with_threads_repeats_itself(
    backend: str, works: list[tuple[str, int]], steps: list[float]
) -> None:
    """Whatever blocks and for how long, every arm ends as and when it would if nothing took any time."""

    async def main() -> None:
        arms: dict[str, Any] = {
            f"{number}": SOURCES[form](*range(size)) for number, (form, size) in enumerate(works)
        }
        final = await fuse_arms({**arms, "scripted": script(*steps, "x")}, timeout=0.5)
        expected = dict.fromkeys(arms, ("exhausted", 0.0))
        last = ("exhausted", sum(steps)) if sum(steps) < 0.5 else ("deadline", 0.5)
        assert ended(final)["scripted"] == pytest.approx(last)
        assert {name: ended(final)[name] for name in arms} == expected

    run_virtual(backend, main)
