"""Detached, tracked tasks and timers, on asyncio and on trio.

A task group cannot be left before its tasks have ended, so an arm that ignores
its cancellation would hold up the answer. Tasks here belong to nobody: they are
cancelled once, and a registry holds them until they end.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

import anyio
import anyio.lowlevel

__all__ = ["Backend", "Detached", "Spawn", "Timer", "Waiter", "current_backend", "left_on"]

Main = Callable[..., Coroutine[Any, Any, None]]
Done = Callable[[Any, BaseException | None], None]

_LIVE: set[Detached] = set()
"""Every task that has not ended; strong references, because asyncio's own are weak."""


class Detached:
    """A task that belongs to no task group. Once it has ended, it may be started again.

    Args:
        name: What it is called on the event loop; every name starts with `rrf:`.

    Attributes:
        name: The same.
        loop: The event loop it runs on, or trio's token; None before it is started.
        started: Whether it has taken its first step.
        closed: Whether nothing that it does counts any more, so that it has only to clean up.
        native: What cancels it; None when there is nothing to cancel.
        cancelled: Whether it was cancelled; an asyncio task that swallows that is not asked again.
    """

    __slots__ = ("_done", "_waiters", "cancelled", "closed", "loop", "name", "native", "started")

    def __init__(self, name: str) -> None:
        self.name = name
        self.loop: object = None
        self.started = False
        self.closed = False
        self.native: Any = None
        self.cancelled = False
        self._done: Done | None = None
        self._waiters: list[anyio.Event] | None = None

    @property
    def runs(self) -> bool:
        """Whether the task has been started and has not ended."""
        return self._done is not None

    def cancel(self) -> None:
        """Cancel the task, the first time."""
        if not self.cancelled:
            self.cancelled = True
            if self.native is not None:
                self.native.cancel()

    async def wait(self) -> None:
        """Wait until the task has ended, without touching it."""
        if self.runs:
            ended = anyio.Event()
            self._waiters = [*(self._waiters or ()), ended]
            await ended.wait()

    def begin(self, loop: object, done: Done) -> None:
        """Put the task on the registry; for its backend, before its first step."""
        self.loop = loop
        self._done = done
        _LIVE.add(self)

    def finish(self, error: BaseException | None) -> None:
        """Take the task off the registry and tell who wants to know; for its backend, after its last step."""
        done = self.forget()
        if done is not None:
            done(self, error)
        if self._waiters is not None:
            for ended in self._waiters:
                ended.set()

    def finish_unstarted(self, _: object) -> None:
        """Do the same for an asyncio task that was cancelled before its first step: none of its code runs."""
        self.finish(asyncio.CancelledError())

    def forget(self) -> Done | None:
        """Take the task off the registry, and return who wants to know of its end."""
        _LIVE.discard(self)
        done, self._done = self._done, None
        self.native = None
        return done


class Spawn(Protocol):
    """What starts a detached task; see `Backend.spawn`."""

    def __call__(self, task: Any, done: Done, main: Main, *args: Any) -> None:
        """Start the task."""


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> object:
        """Call off the call."""


class Waiter(Protocol):
    """What one task waits for until something sets it, once."""

    def wait(self) -> Awaitable[None]:
        """Return what waits until it is set."""

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

    def spawn(self, task: Detached, done: Done, main: Main, *args: Any) -> None:
        """Start a detached task: `main(task, *args)`, and then `done(task, error)`, which must not raise."""

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

    def wait(self) -> Awaitable[None]:
        return self._future

    def set(self) -> None:
        if not self._future.done():  # the task that waited may have been cancelled
            self._future.set_result(None)


async def _steps(task: Detached, main: Main, args: tuple[Any, ...]) -> None:
    """Run a task on asyncio. Its own last step ends it: a callback of asyncio's would come a cycle later."""
    task.started = True
    if task.native is not None:
        task.native.remove_done_callback(task.finish_unstarted)
    try:
        await main(task, *args)
    except BaseException as error:
        if isinstance(error, GeneratorExit) and not _is_running(task.loop):
            task.forget()  # the event loop was dropped with the task in it
            raise
        if isinstance(error, KeyboardInterrupt) and task.native is not None:
            task.native.add_done_callback(asyncio.Task.exception)  # or asyncio reports it once more
        task.finish(error)
        if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
            raise
    else:
        task.finish(None)


def _is_running(loop: object) -> bool:
    return isinstance(loop, asyncio.AbstractEventLoop) and loop.is_running()


class _Asyncio:
    __slots__ = ("_loop", "loop", "time")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: object = loop
        self._loop = loop
        self.time = loop.time

    def spawn(self, task: Detached, done: Done, main: Main, *args: Any) -> None:
        task.begin(self._loop, done)
        native = self._loop.create_task(_steps(task, main, args), name=task.name)
        if not task.started:
            task.native = native
            native.add_done_callback(task.finish_unstarted)
        elif task.runs:  # on an eager event loop
            task.native = native
            if task.cancelled:
                native.cancel()

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

    def spawn(self, task: Detached, done: Done, main: Main, *args: Any) -> None:
        trio = self._trio
        scope = trio.CancelScope()
        task.begin(self.loop, done)
        task.native = scope

        async def run() -> None:
            task.started = True
            try:
                with scope:
                    await main(task, *args)
                task.finish(asyncio.CancelledError() if scope.cancelled_caught else None)
            except trio.Cancelled:  # the whole run is shutting down
                task.finish(asyncio.CancelledError())
                raise
            except BaseException as error:  # noqa: BLE001 - what leaves a system task crashes trio
                task.finish(error)

        trio.lowlevel.spawn_system_task(run, name=task.name, context=contextvars.copy_context())

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        trio = self._trio
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await trio.sleep_until(when)
                callback()

        trio.lowlevel.spawn_system_task(run, name="rrf:timer", context=contextvars.copy_context())
        timer: Timer = scope
        return timer

    def waiter(self) -> Waiter:
        waiter: Waiter = self._trio.Event()
        return waiter

    def post(self, callback: Callable[[], object]) -> None:
        self._token.run_sync_soon(callback)


def current_backend() -> Backend:
    """Return the backend of the running event loop; `anyio.NoEventLoopError` if none runs."""
    # Another thread may be importing trio; and as a guest, trio runs inside of asyncio.
    in_trio_task = getattr(sys.modules.get("trio.lowlevel"), "in_trio_task", None)
    if in_trio_task is None or not in_trio_task():
        with suppress(RuntimeError):
            return _Asyncio(asyncio.get_running_loop())
    token = anyio.lowlevel.current_token().native_token
    return _Trio(token)


def left_on(loop: object) -> list[Detached]:
    """Return the tasks of an event loop that have nothing left to do but to clean up."""
    return [task for task in list(_LIVE) if task.loop is loop and task.closed]
