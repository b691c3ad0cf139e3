"""The module for users' tests: its scripts, clocks, events and leak check do what its page says."""

from __future__ import annotations

import asyncio
import math
import re
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import structlog
from engine_kit import on, run_virtual, turns, virtual_time

from rrf_stream import Hit, Page, drain, fuse_arms, open_fusion
from rrf_stream.testing import (
    VIRTUAL_BACKENDS,
    Script,
    VirtualEventLoop,
    assert_no_leaks,
    capture_events,
    script,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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


# --- events -----------------------------------------------------------------------------------------------


@pytest.mark.anyio
@on("asyncio")
async def test_captured_events_are_those_of_the_library() -> None:
    """The application's own events are dropped meanwhile; outside of the context nothing is captured."""
    with capture_events() as events:
        structlog.get_logger("app").warning("of the application")
        await fuse_arms({"a": ["x"]})
    await fuse_arms({"a": ["x"]})
    assert [event["event"] for event in events] == ["rrf_stream.arm_closed", "rrf_stream.fusion_closed"]


@pytest.mark.parametrize("configured", [True, False])
def test_capturing_leaves_structlog_as_it_was(configured: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Configured as before, also after an error, or not configured at all."""
    processors = [structlog.processors.JSONRenderer()]
    try:
        if configured:
            structlog.configure(processors=processors, cache_logger_on_first_use=True)
        before = structlog.get_config()
        with pytest.raises(ZeroDivisionError), capture_events():
            1 / 0  # noqa: B018 - any error will do
        assert structlog.is_configured() is configured
        assert structlog.get_config() == before
    finally:
        structlog.reset_defaults()


@pytest.mark.anyio
@on("asyncio")
async def test_captures_may_be_nested() -> None:
    """The inner one takes all, and gives back to the outer one."""
    with capture_events() as outer:
        with capture_events() as inner:
            await fuse_arms({"a": ["x"], "b": ["y"]})
        await fuse_arms({"a": ["x"]})
    assert (len(inner), len(outer)) == (3, 2)


# --- leaks ------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_arm_that_runs_is_a_leak() -> None:
    """It is named, until it has ended."""
    async with open_fusion({"a": script("x", hang=True), "b": ["y"]}) as fusion:
        await anext(fusion)
        with pytest.raises(AssertionError, match=r"still alive: rrf:a$"):
            await assert_no_leaks(within=0.01)
    await assert_no_leaks(within=0)


@pytest.mark.anyio
@virtual_time
async def test_arms_left_behind_have_time_to_end() -> None:
    """An abandoned arm is a leak if it takes longer than it is given."""
    await fuse_arms({"a": script(hang=True, cleanup=2.0, shield=True)}, timeout=0)
    with pytest.raises(AssertionError, match=r"still alive: rrf:a$"):
        await assert_no_leaks()
    assert anyio.current_time() == 1
    await assert_no_leaks(within=5)
    assert anyio.current_time() == 2


@pytest.mark.anyio
async def test_a_task_or_thread_by_the_librarys_name_is_a_leak() -> None:
    """Also one that no registry knows."""
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="rrf:thread", daemon=True)
    thread.start()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever, name="rrf:task")
            await turns()
            with pytest.raises(AssertionError, match=r"still alive: rrf:task, rrf:thread$"):
                await assert_no_leaks(within=0)
            group.cancel_scope.cancel()
    finally:
        release.set()
        thread.join()
    await assert_no_leaks(within=0)


@pytest.mark.anyio
async def test_a_dropped_fusion_is_no_leak() -> None:
    """Collecting garbage is part of the check."""

    async def generator() -> AsyncIterator[str]:
        yield "x"
        await anyio.sleep_forever()

    cycle: dict[str, Any] = {"fusion": open_fusion({"a": generator()})}
    cycle["self"] = cycle
    await anext(cycle["fusion"])
    del cycle
    await assert_no_leaks(within=0.5)
    assert await drain(0) == []


# --- the page ---------------------------------------------------------------------------------------------


def test_the_fixtures_of_the_page_work_under_pytest(tmp_path: Path) -> None:
    """Its snippets with tests and fixtures, run by pytest itself: the test passes on each virtual clock."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    marked = [block for block in blocks if "pytest" in block]
    fixtures = [block.split("\nasync with open_fusion")[0] for block in marked]
    assert "@pytest.mark.anyio" in "".join(fixtures)
    header = "from rrf_stream import fuse_arms\nfrom rrf_stream.testing import script\n"
    use = "\n@pytest.mark.anyio\nasync def test_with_leak_check(no_leaks):\n    pass\n"
    (tmp_path / "test_page.py").write_text(header + "\n".join(fixtures) + use, "utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout
