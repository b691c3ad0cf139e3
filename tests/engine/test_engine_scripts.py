"""The scripted arms and the virtual clocks of the module for users' tests."""

from __future__ import annotations

import asyncio
import math
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import run_virtual, turns, virtual_time

from rrf_stream import Hit, Page, fuse_arms
from rrf_stream.testing import (
    VIRTUAL_BACKENDS,
    Script,
    VirtualEventLoop,
    script,
)

if TYPE_CHECKING:
    pass

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


# --- scripts ----------------------------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
async def test_a_script_yields_and_sleeps() -> None:
    """Floats are slept, all else is yielded as it is: also whole numbers, and a float inside of a `Hit`."""
    page, hit = Page(["b"]), Hit(0.5)
    source = script("a", 0.5, page, 2, 1.5, hit, None)
    seen = [(anyio.current_time(), result) async for result in source]
    assert seen == [(0, "a"), (0.5, page), (0.5, 2), (2.0, hit), (2.0, None)]


@pytest.mark.anyio
async def test_a_script_fails_once_and_is_over() -> None:
    """After its error it is like a generator that raised: at its end."""
    error = OSError("down")
    source = script("a", fail=error)
    assert await anext(source) == "a"
    with pytest.raises(OSError, match="down") as caught:
        await anext(source)
    assert caught.value is error
    assert [result async for result in source] == []


@pytest.mark.anyio
@virtual_time
async def test_a_script_that_is_cancelled_is_over() -> None:
    """A read that is given up costs the rest, as with a generator."""
    source = script("a", 1.0, "b", fail=OSError("down"))
    assert await anext(source) == "a"
    with anyio.move_on_after(0.5):
        await anext(source)
    assert [result async for result in source] == []


@pytest.mark.anyio
@virtual_time
async def test_a_script_ignores_as_many_cancellations_as_it_is_told() -> None:
    """The one after that it obeys."""
    source = script(hang=True, swallow=2)
    with anyio.move_on_after(1) as scope:
        await anext(source)
    assert scope.cancelled_caught
    assert source.swallowed == 2


@pytest.mark.anyio
@virtual_time
async def test_a_script_says_who_read_and_closed_it() -> None:
    """It knows its tasks, and whether its clean-up came to its end."""
    calls: list[str] = []
    source = script("a", cleanup=1.0, on_close=partial(calls.append, "closed"))
    assert (source.read_by, source.closed_by, source.closed) == (None, None, False)
    await anext(source)
    with anyio.move_on_after(0.5):
        await source.aclose()
    assert (source.read_by, source.closed_by) == (anyio.get_current_task(), anyio.get_current_task())
    assert (source.closed, calls) == (False, [])

    whole = script("a", cleanup=1.0, shield=True, on_close=partial(calls.append, "closed"))
    with anyio.move_on_after(0.5):
        await whole.aclose()
    await whole.aclose()
    assert (whole.read_by, whole.closed, calls) == (None, True, ["closed"])
    assert anyio.current_time() == 0.5 + 1.0


@pytest.mark.anyio
async def test_a_script_cannot_be_closed_while_it_is_read() -> None:
    """Whoever does that to a generator gets an error too."""
    source = script(hang=True)
    async with anyio.create_task_group() as group:
        group.start_soon(anext, source)
        await turns()
        with pytest.raises(RuntimeError, match="being read"):
            await source.aclose()
        with pytest.raises(RuntimeError, match="being read"):
            await anext(source)
        group.cancel_scope.cancel()


def test_scripts_refuse_times_that_are_none() -> None:
    """Seconds and counts start at 0."""
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("a", -0.5), {}),
        ((math.nan,), {}),
        ((), {"cleanup": -1}),
        ((), {"swallow": -1}),
    ]
    for steps, options in wrong:
        with pytest.raises(ValueError, match="at least 0"):
            script(*steps, **options)
    assert isinstance(script(), Script)


# --- virtual time -----------------------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
async def test_virtual_time_is_exact_and_free() -> None:
    """Years pass in no time, and clocks start at zero."""
    started = time.perf_counter()
    assert anyio.current_time() == 0
    await anyio.sleep(10.0 * 365 * 24 * 60 * 60)
    assert anyio.current_time() == 10 * 365 * 24 * 60 * 60
    assert time.perf_counter() - started < 5


def test_the_virtual_event_loop_meets_its_timers_exactly() -> None:
    """Sums of tenths, which floating-point numbers miss, are the timers' own times."""

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        times: list[float] = []
        for when in (0.1 + 0.2, 0.3, 0.7 + 0.1, 100.1 + 0.2):
            loop.call_at(when, lambda: times.append(loop.time()))
        await asyncio.sleep(200)
        return times

    with asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
        assert runner.run(main()) == [0.3, 0.1 + 0.2, 0.7 + 0.1, 100.1 + 0.2]


@pytest.mark.parametrize("timer", [None, math.inf])
def test_a_test_that_can_never_end_raises(timer: float | None) -> None:
    """When all tasks wait and nothing is scheduled the virtual loop says so, and names the tasks."""

    async def stuck() -> None:
        if timer is not None:
            await asyncio.sleep(timer)
        await asyncio.Event().wait()

    with (
        pytest.raises(RuntimeError, match=r"nothing is scheduled .*: Task-\d+"),
        asyncio.Runner(loop_factory=partial(VirtualEventLoop, stuck_after=0.01)) as runner,
    ):
        runner.run(stuck())


def test_the_virtual_event_loop_waits_for_threads() -> None:
    """A task that waits for a thread, with no timer set, is not stuck."""
    with asyncio.Runner(loop_factory=partial(VirtualEventLoop, stuck_after=10)) as runner:
        assert runner.run(asyncio.to_thread(divmod, 7, 2)) == (3, 1)


def test_virtual_backends_give_a_new_clock_each_time() -> None:
    """Two runs both start at zero."""

    async def main() -> float:
        await anyio.sleep(1)
        return anyio.current_time()

    assert list(VIRTUAL_BACKENDS) == ["asyncio", "trio"]
    for name in VIRTUAL_BACKENDS:
        assert [run_virtual(name, main), run_virtual(name, main)] == [1, 1]


@pytest.mark.parametrize("name", VIRTUAL_BACKENDS)
def test_an_event_loop_may_end_before_its_arms(name: str) -> None:
    """A loop that ends with abandoned arms cancels them as it does its own tasks."""
    source = script(hang=True, cleanup=64.0)

    async def main() -> None:
        await fuse_arms({"a": source}, timeout=1)

    run_virtual(name, main)
    assert source.closed_by is not None
