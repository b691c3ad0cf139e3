"""For tests of code that fuses arms: scripted arms, virtual time, captured events, a leak check.

Works with any test framework. A test that takes half a minute of virtual time takes none of
yours, and what it finds is exact: a timeout of 30 seconds fires after 30.0 seconds.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import selectors
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NoReturn, Self

import anyio
import anyio.lowlevel
import structlog

from rrf_stream import drain

__all__ = ["VIRTUAL_BACKENDS", "Script", "VirtualEventLoop", "assert_no_leaks", "capture_events", "script"]


class Script:
    """A source that does what it is told and says what was done to it; also called `script`.

    It is an asynchronous iterator, so it can be read once: write a new one for every fusion. In
    a `Pipeline` that is `lambda query: script(...)`.

    Args:
        steps: What it does, in order. A `float` is slept, in seconds on the clock of the event
            loop; anything else is yielded: ids, `Hit` objects, a `Page`. (To yield a float as an
            id, write `Hit(0.5)`.)
        fail: What it raises after the last step; None to end.
        hang: Whether it sleeps for ever after the last step, instead of ending.
        swallow: How many cancellations it ignores, at least 0, before it obeys one. asyncio
            delivers a cancellation once, so 1 makes an arm there that finishes its script; trio
            delivers it at every checkpoint until it is obeyed.
        cleanup: Seconds that closing it takes, at least 0.
        shield: Whether its clean-up is shielded from cancellation.
        on_close: Called when its clean-up is over; may raise.

    Attributes:
        read_by: The task that read it first; None before that.
        closed_by: The task that closed it; None before that.
        closed: Whether its clean-up ran to the end.
        swallowed: How many cancellations it ignored so far.

    Raises:
        ValueError: A number is out of its range.
    """

    def __init__(
        self,
        *steps: Any,
        fail: BaseException | None = None,
        hang: bool = False,
        swallow: int = 0,
        cleanup: float = 0.0,
        shield: bool = False,
        on_close: Callable[[], object] | None = None,
    ) -> None:
        if swallow < 0:
            raise ValueError(f"swallow must be at least 0, not {swallow!r}")
        for seconds in (cleanup, *(step for step in steps if type(step) is float)):
            if not seconds >= 0:
                raise ValueError(f"steps and cleanup must be at least 0 seconds, not {seconds!r}")
        self.read_by: anyio.TaskInfo | None = None
        self.closed_by: anyio.TaskInfo | None = None
        self.closed = False
        self.swallowed = 0
        self._busy = False
        self._steps = _play(steps, fail, hang=hang)
        self._swallow = swallow
        self._cleanup = cleanup
        self._shield = shield
        self._on_close = on_close

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Any:
        """Go on to the next step that yields; like a generator, it is over once this raised."""
        self._claim()
        self.read_by = self.read_by or anyio.get_current_task()
        self._busy = True
        try:
            return await self._next()
        except BaseException:
            self._steps.close()
            raise
        finally:
            self._busy = False

    async def aclose(self) -> None:
        """Clean up; the second time there is nothing to do.

        Raises:
            RuntimeError: It is being read, as with a generator.
        """
        self._claim()
        if self.closed_by is not None:
            return
        self.closed_by = anyio.get_current_task()
        self._steps.close()
        with anyio.CancelScope(shield=self._shield):
            if self._cleanup:
                await self._sleep(self._cleanup)
        self.closed = True
        if self._on_close is not None:
            self._on_close()

    async def _next(self) -> Any:
        for step in self._steps:
            if type(step) is not float:
                return step
            await self._sleep(step)
        raise StopAsyncIteration

    def _claim(self) -> None:
        if self._busy:
            raise RuntimeError("this script is being read")

    async def _sleep(self, seconds: float) -> None:
        until = anyio.current_time() + seconds
        while True:
            try:
                return await anyio.sleep_until(until)
            except anyio.get_cancelled_exc_class():
                if self.swallowed == self._swallow:
                    raise
                self.swallowed += 1


def _play(steps: tuple[Any, ...], fail: BaseException | None, *, hang: bool) -> Generator[Any, None, None]:
    yield from steps
    if hang:
        yield math.inf
    if fail is not None:
        raise fail


script = Script
"""Writes a `Script`."""


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose clock stands still while a task can run, and then jumps to the next timer.

    Its clock starts at 0.0. A test that can never end raises RuntimeError, instead of hanging:
    when all tasks wait, no timer is set, and neither a thread nor a socket does anything for
    `stuck_after` seconds. Time does not pass for threads: it jumps ahead while they work.

    Args:
        stuck_after: Seconds of real time, above 0.
    """

    def __init__(self, *, stuck_after: float = 1.0) -> None:
        self._now = 0.0
        super().__init__(_VirtualSelector(self._jump, stuck_after))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        """Wait for the threads of the default executor: for as long as it takes, as their time is real."""
        await super().shutdown_default_executor()

    def _jump(self) -> bool:
        """Set the clock to the next timer; return whether there is one."""
        # The queue of the base class, private but the same since Python 3.4: the sum of the clock and
        # the timeout that the selector is given may miss the timer by a rounding error.
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # not in the stubs
        when = timers[0].when() if timers else math.inf
        if when < math.inf:
            self._now = max(self._now, when)
            # The loop runs what is due within the resolution of its clock: let that be now, not later.
            self._clock_resolution = math.ulp(self._now)
        return when < math.inf


class _VirtualSelector(selectors.DefaultSelector):
    def __init__(self, jump: Callable[[], bool], stuck_after: float) -> None:
        super().__init__()
        self._jump = jump
        self._stuck_after = stuck_after

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0) or self._jump():
            return ready
        ready = super().select(self._stuck_after)
        if not ready:
            waiting = ", ".join(sorted(task.get_name() for task in asyncio.all_tasks()))
            raise RuntimeError(f"all tasks wait, and nothing is scheduled that could wake one: {waiting}")
        return ready


def _trio_backend() -> tuple[str, dict[str, Any]]:
    import trio.testing  # noqa: PLC0415 - the library works without trio

    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def _asyncio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualEventLoop}


VIRTUAL_BACKENDS: Mapping[str, Callable[[], tuple[str, dict[str, Any]]]] = MappingProxyType(
    {"asyncio": _asyncio_backend} | ({"trio": _trio_backend} if find_spec("trio") else {})
)
"""By name, what gives anyio a backend in virtual time: call it once for each run, as a clock is not reused.

It returns the name and the options that `anyio.run` takes as `backend` and `backend_options`, and
that anyio's pytest fixture `anyio_backend` returns. "trio" is there where trio is installed.
"""


@contextmanager
def capture_events() -> Iterator[list[dict[str, Any]]]:
    """Collect the events that this library reports, as dictionaries, while the context is open.

    Each has the keys `event`, `log_level` and the fields of the event. structlog is configured
    anew for that time, so the application's own events are dropped; afterwards it is as it was
    before, unconfigured if it was.
    """
    events: list[dict[str, Any]] = []

    def keep(_: Any, method: str, event: Any) -> NoReturn:
        if str(event["event"]).startswith("rrf_stream."):
            events.append({**event, "log_level": method})
        raise structlog.DropEvent

    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(
        processors=[keep],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        context_class=dict,
        logger_factory=structlog.testing.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )
    try:
        yield events
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)


async def assert_no_leaks(*, within: float = 1.0) -> None:
    """Collect garbage, and assert that nothing of this library is alive on the running event loop.

    Args:
        within: Seconds, on the clock of the event loop, that arms get to end which were left
            behind while they cleaned up; at least 0.

    Raises:
        AssertionError: A task, thread or registered arm is left; the message names them all.
    """
    gc.collect()
    await _turns()  # a dropped fusion stops its arms
    left = set(await drain(within))
    await _turns()  # the timers of a fusion end after its arms
    names = [task.name for task in anyio.get_running_tasks()]
    names += [thread.name for thread in threading.enumerate()]
    left.update(name for name in names if name is not None and name.startswith("rrf:"))
    if left:
        raise AssertionError(f"still alive: {', '.join(sorted(left))}")


async def _turns() -> None:
    for _ in range(3):
        await anyio.lowlevel.checkpoint()
