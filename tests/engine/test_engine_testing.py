"""The module for users' tests: its scripts, clocks, events and leak check do what its page says."""

from __future__ import annotations

import asyncio
import gc
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import structlog
from engine_kit import on, turns, virtual_time

from rrf_stream import drain, fuse_arms, open_fusion
from rrf_stream.testing import VirtualEventLoop, assert_no_leaks, capture_events, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


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


def test_nothing_is_collected_while_a_virtual_clock_lists_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finaliser that joins a thread would wait for ever: no thread can end while all are listed."""
    listed: list[bool] = []
    usual = threading.enumerate

    def watched() -> list[threading.Thread]:
        listed.append(gc.isenabled())
        return usual()

    monkeypatch.setattr(threading, "enumerate", watched)
    with asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
        runner.run(asyncio.sleep(1))
    assert set(listed) == {False}
    assert gc.isenabled()
