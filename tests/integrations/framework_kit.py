"""What the tests of frameworks share that have a way to ask that waits, and one for an event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

import pytest

from rrf_stream.testing import VirtualEventLoop

T = TypeVar("T")
Test = TypeVar("Test", bound=Callable[..., object])

PATIENCE = 30
"""Seconds that a thread waits for what a test does, which is far more than that takes."""


def guarded(test: Test) -> Test:
    """Run an asynchronous test on every event loop, and fail it if it leaves anything behind, or hangs."""
    marked: Test = pytest.mark.anyio(pytest.mark.usefixtures("no_leaks", "no_hang")(test))
    return marked


def on_asyncio(test: Test) -> Test:
    """Do the same on the event loops that the frameworks know."""
    loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "uvloop"], indirect=True)
    marked: Test = loops(guarded(test))
    return marked


def nothing() -> None:
    """Do nothing."""


def fail() -> None:
    """Raise, as a retriever whose server is down."""
    raise ConnectionError("refused")


def forbidden() -> None:
    """Raise, as this must not be called."""
    raise AssertionError("it must not be asked in this way")


class Gate:
    """Holds up the threads that call it until it is open, which it is at the end of its context, too."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self.open = self._opened.set

    def __call__(self) -> None:
        if not self._opened.wait(PATIENCE):
            raise TimeoutError("nobody opened it")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()


async def opened_by_the_loop(gate: Gate, search: Coroutine[Any, Any, T]) -> T:
    """Return what a search gives for which the event loop, if it is free, opens a gate after the start."""
    searching = asyncio.create_task(search)
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.05, gate.open)
    return await searching


async def cancelled_once(waiting: asyncio.Event, search: Coroutine[Any, Any, T]) -> None:
    """Cancel a search when somebody waits in it."""
    searching = asyncio.create_task(search)
    await waiting.wait()
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching


def seconds_of(search: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, float]:
    """Return what a search gives, and how long it takes on a simulated clock."""

    async def timed() -> tuple[T, float]:
        clock = asyncio.get_running_loop().time
        before = clock()
        return await search(), clock() - before

    with asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
        return runner.run(timed())


def error_without(library: str, module: str) -> str:
    """Return the class and the words of the error with which a module is imported where a library lacks."""
    program = (
        f"import sys; sys.modules[{library!r}] = None\n"
        f"try: import {module}\n"
        "except ImportError as error: print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    return ran.stdout
