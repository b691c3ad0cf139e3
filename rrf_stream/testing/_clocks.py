"""Event loops on virtual time, which stands still while something can happen."""

from __future__ import annotations

import asyncio
import gc
import math
import selectors
import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from time import monotonic, sleep
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["VIRTUAL_BACKENDS", "VirtualEventLoop"]

_GLANCE = 0.0005  # seconds of real time between two looks at what threads do


class _Threads:
    """The threads of this library that work for one event loop.

    Args:
        patience: Seconds of real time after which a thread that works counts as stuck.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    def work_for(self, loop: object) -> bool:
        """Return whether one of them works and is not stuck. Before it stops, it calls the event loop."""
        now = monotonic()
        # Such a thread has these attributes, and no other has.
        jobs = [getattr(thread, "job", None) for thread in _threads_there_are()]
        mine = [job for job in jobs if getattr(job, "loop", None) is loop]
        working = {job: self._since.get(job, now) for job in mine if getattr(job, "working", False)}
        self._since = WeakKeyDictionary(working)  # a thread keeps nothing of a job, and neither does this
        return any(now - since < self._patience for since in self._since.values())


def _threads_there_are() -> list[threading.Thread]:
    """Return all threads. Nothing is collected meanwhile.

    A finaliser may join a thread, as that of an executor does, and a thread needs the lock to end that
    `threading` holds to list them: both would wait for ever.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return threading.enumerate()
    finally:
        if collects:
            gc.enable()


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose clock stands still while a task can run, and then jumps to the next timer.

    Its clock starts at 0.0. It also stands still while a thread of this library runs the code of a source,
    but for a thread that is stuck. Time does not pass for other threads: it jumps ahead while they work.

    A test that can never end raises RuntimeError, instead of hanging: when all tasks wait, no timer is
    set, and neither a thread nor a socket does anything for `stuck_after` seconds.

    Args:
        stuck_after: Seconds of real time, above 0.
        thread_patience: Seconds of real time, at least 0, that a source may run in its thread
            before it counts as stuck; time then goes on without it, and with it an arm's timeout.
    """

    def __init__(self, *, stuck_after: float = 1.0, thread_patience: float = 1.0) -> None:
        self._now = 0.0
        threads = _Threads(thread_patience)
        super().__init__(_VirtualSelector(lambda: threads.work_for(self), self._jump, stuck_after))

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
    def __init__(self, works: Callable[[], bool], jump: Callable[[], bool], stuck_after: float) -> None:
        super().__init__()
        self._works = works
        self._jump = jump
        self._stuck_after = stuck_after

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._works():
            return super().select(_GLANCE)
        if self._jump():
            return ready
        ready = super().select(self._stuck_after)
        if not ready:
            waiting = ", ".join(sorted(task.get_name() for task in asyncio.all_tasks()))
            raise RuntimeError(f"all tasks wait, and nothing is scheduled that could wake one: {waiting}")
        return ready


def _trio_backend() -> tuple[str, dict[str, Any]]:
    import trio.testing  # noqa: PLC0415 - the library works without trio

    threads = _Threads(patience=1.0)

    class StandStill(trio.abc.Instrument):
        """Keeps the clock from jumping while a thread works: it jumps only when nothing is to be done."""

        def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - the interface of trio
            token = trio.lowlevel.current_trio_token()
            if not trio.lowlevel.current_statistics().tasks_runnable and threads.work_for(token):
                sleep(_GLANCE)
                token.run_sync_soon(bool, idempotent=True)

    clock = trio.testing.MockClock(autojump_threshold=0)
    return "trio", {"clock": clock, "instruments": [StandStill()]}


def _asyncio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualEventLoop}


VIRTUAL_BACKENDS: Mapping[str, Callable[[], tuple[str, dict[str, Any]]]] = MappingProxyType(
    {"asyncio": _asyncio_backend} | ({"trio": _trio_backend} if find_spec("trio") else {})
)
"""By name, what gives anyio a backend in virtual time: call it once for each run, as a clock is not reused.

It returns the name and the options that `anyio.run` takes as `backend` and `backend_options`, and
that anyio's pytest fixture `anyio_backend` returns. "trio" is there where trio is installed.
"""
