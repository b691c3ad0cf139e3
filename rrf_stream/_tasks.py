"""Detached, tracked tasks and timers, on asyncio and on trio.

A task group cannot be left before its tasks have ended, so an arm that ignores
its cancellation would hold up the answer. Tasks here belong to nobody: they are
cancelled once, and a registry holds them until they end.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from rrf_stream._checks import check_seconds

__all__ = ["Backend", "Detached", "Timer", "Waiter", "current_backend", "drain", "wait_for"]

Main = Callable[..., Coroutine[Any, Any, None]]
Done = Callable[[BaseException | None], None]

_LIVE: set[Detached] = set()
"""Every task that has not ended; strong references, because asyncio's own are weak."""


class Detached:
    """A task that belongs to no task group.

    Args:
        loop: The event loop it runs on, or trio's token.
        name: What it is called there; every name starts with `rrf:`.
        done: Called once, when it has ended, with what it raised. It must not raise.

    Attributes:
        is_over: Whether it has nothing left to do but to clean up.
    """

    __slots__ = ("_done", "_waiters", "cancel_task", "is_over", "loop", "name")

    def __init__(self, loop: object, name: str, done: Done) -> None:
        self.loop = loop
        self.name = name
        self.is_over = False
        self.cancel_task: Callable[[], object] | None = None
        self._done = done
        self._waiters: list[anyio.Event] = []
        _LIVE.add(self)

    @property
    def ended(self) -> bool:
        """Whether the task has ended."""
        return self not in _LIVE

    def cancel(self) -> None:
        """Cancel the task the first time; an asyncio task that swallows it is not asked again."""
        cancel, self.cancel_task = self.cancel_task, None
        if cancel is not None:
            cancel()

    async def wait(self) -> None:
        """Wait until the task has ended, without touching it."""
        if not self.ended:
            ended = anyio.Event()
            self._waiters.append(ended)
            await ended.wait()

    def finish(self, error: BaseException | None) -> None:
        """Take the task off the registry; its backend calls this when it has ended."""
        _LIVE.discard(self)
        self.cancel_task = None
        for ended in self._waiters:
            ended.set()
        self._done(error)


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> object:
        """Call off the call."""


class Waiter(Protocol):
    """What one task waits for until something sets it, once."""

    async def wait(self) -> None:
        """Wait until it is set; return at once if it is."""

    def set(self) -> None:
        """End the wait."""


class Backend(Protocol):
    """What the engine needs of an event loop, beyond anyio.

    Attributes:
        loop: The event loop, or trio's token.
        time: The clock that every deadline is on, in seconds.
    """

    loop: object
    time: Callable[[], float]

    def spawn(self, main: Main, *args: Any, name: str, done: Done) -> Detached:
        """Start a detached task."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call something, which must not raise, when the clock shows `when`."""

    def waiter(self) -> Waiter:
        """Return something for one task to wait for."""

    def post(self, callback: Callable[[], object]) -> None:
        """Call something soon, from any thread; RuntimeError if the loop is gone."""


class _Future:
    """A bare future: an eighth of the cost of an event."""

    __slots__ = ("_future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._future: asyncio.Future[None] = loop.create_future()

    async def wait(self) -> None:
        await self._future

    def set(self) -> None:
        if not self._future.done():  # the task that waited may have been cancelled
            self._future.set_result(None)


class _Asyncio:
    __slots__ = ("_loop", "loop", "time")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: object = loop
        self._loop = loop
        self.time = loop.time

    def spawn(self, main: Main, *args: Any, name: str, done: Done) -> Detached:
        detached = Detached(self.loop, name, done)

        def finish(task: asyncio.Task[None]) -> None:
            # Reading the exception keeps asyncio from reporting it as never retrieved. A task that is
            # cancelled before its first step runs none of its own code, so this is the place for records.
            detached.finish(asyncio.CancelledError() if task.cancelled() else task.exception())

        task = self._loop.create_task(main(*args), name=name)
        detached.cancel_task = task.cancel
        task.add_done_callback(finish)
        return detached

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        return self._loop.call_at(when, callback)

    def waiter(self) -> Waiter:
        return _Future(self._loop)

    def post(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(callback)


class _Trio:
    __slots__ = ("_token", "_trio", "loop", "time")

    def __init__(self, token: Any) -> None:
        import trio  # noqa: PLC0415 - installed wherever a trio token comes from

        self.loop: object = token
        self._token = token
        self._trio = trio
        self.time = trio.current_time

    def spawn(self, main: Main, *args: Any, name: str, done: Done) -> Detached:
        trio = self._trio
        detached = Detached(self.loop, name, done)
        scope = trio.CancelScope()
        detached.cancel_task = scope.cancel

        async def run() -> None:
            error: BaseException | None = None
            try:
                with scope:
                    await main(*args)
                if scope.cancelled_caught:
                    error = asyncio.CancelledError()
            except trio.Cancelled:
                raise  # the whole run is shutting down
            except BaseException as raised:  # noqa: BLE001 - what leaves a system task crashes trio
                error = raised
            finally:
                detached.finish(error)

        trio.lowlevel.spawn_system_task(run, name=name, context=contextvars.copy_context())
        return detached

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        trio = self._trio
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await trio.sleep_until(when)
                callback()

        trio.lowlevel.spawn_system_task(run, name="rrf:timer")
        timer: Timer = scope
        return timer

    def waiter(self) -> Waiter:
        waiter: Waiter = self._trio.Event()
        return waiter

    def post(self, callback: Callable[[], object]) -> None:
        self._token.run_sync_soon(callback)


def current_backend() -> Backend:
    """Return the backend of the running event loop; `anyio.NoEventLoopError` if none runs."""
    loop = anyio.lowlevel.current_token().native_token
    return _Asyncio(loop) if isinstance(loop, asyncio.AbstractEventLoop) else _Trio(loop)


async def wait_for(tasks: list[Detached]) -> None:
    """Wait until all of some tasks of the running event loop have ended."""
    for task in tasks:
        await task.wait()


async def drain(timeout: float | None = None) -> list[str]:  # noqa: ASYNC109 - waiting is what it does
    """Wait for arms that are closed but have not ended: that clean up, or ignore their cancellation.

    Call it before the event loop ends, for arms whose clean-up must not be cut off. Arms of
    fusions that still go on are not waited for.

    Args:
        timeout: Seconds to wait at most; None for no limit.

    Returns:
        The names of the tasks that it waited for in vain.
    """
    check_seconds("timeout", timeout)
    loop = current_backend().loop
    with anyio.move_on_after(timeout):
        while here := _left_on(loop):  # the end of one may start another, which closes what it never read
            await wait_for(here)
    return [task.name for task in _left_on(loop)]


def _left_on(loop: object) -> list[Detached]:
    return [task for task in list(_LIVE) if task.loop is loop and task.is_over]
