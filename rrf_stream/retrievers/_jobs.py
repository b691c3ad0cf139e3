"""One blocking call in another thread: awaited in an event loop, interrupted when nobody waits any more."""

from __future__ import annotations

import contextlib
import enum
import threading
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import anyio
import anyio.lowlevel

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R", bound="Resource")
T = TypeVar("T")


class Resource(Protocol):
    """What a worker thread owns. Only `interrupt` is called from other threads."""

    def resume(self) -> None:
        """Forget an earlier `interrupt`; called before each call."""

    def interrupt(self) -> None:
        """Make the running call fail soon; it is never called between two calls."""

    def close(self) -> None:
        """Give everything back; called once, by the thread that opened it."""


class Signal:
    """An event of the loop it was made in, which any thread may set."""

    def __init__(self) -> None:
        token: Any = anyio.lowlevel.current_token().native_token
        self._post = getattr(token, "call_soon_threadsafe", None) or token.run_sync_soon
        self._event = anyio.Event()

    def set(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and the waiter with it
            self._post(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()


class _State(enum.Enum):
    WAITING = enum.auto()
    RUNNING = enum.auto()
    DONE = enum.auto()


class Job(Generic[R, T]):
    """One call: waiting, then running on a resource, then done.

    The lock makes "is it running?" and "interrupt it" one step, so that an interrupt never hits the
    next job on the same resource.
    """

    def __init__(self, call: Callable[[R], T]) -> None:
        self._call: Callable[[R], T] | None = call
        self._done = Signal()
        self._lock = threading.Lock()
        self._state = _State.WAITING
        self._resource: R | None = None
        self._reason: BaseException | None = None
        self._error: BaseException | None = None
        self._result: T

    def run(self, resource: R) -> None:
        """Make the call, unless it was cancelled before; in the worker thread."""
        with self._lock:
            call, self._call = self._call, None
            if self._state is not _State.WAITING or call is None:
                return
            resource.resume()
            self._state, self._resource = _State.RUNNING, resource
        try:
            self._result = call(resource)
        except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
            self._error = error
        with self._lock:
            self._state, self._resource = _State.DONE, None
            if self._error is not None and self._reason is not None:
                self._error = self._reason
        self._done.set()

    def cancel(self, reason: BaseException | None = None) -> None:
        """Let a waiting call never start, and interrupt a running one.

        Args:
            reason: What whoever waits for the call gets instead of the resource's own error.
        """
        with self._lock:
            if self._state is _State.RUNNING and self._resource is not None:
                self._reason = reason
                self._resource.interrupt()
            elif self._state is _State.WAITING:
                self._state, self._call, self._error = _State.DONE, None, reason
                self._done.set()

    async def wait(self, *, settle: bool) -> T:
        """Wait for the result; a cancelled wait cancels the call, and with `settle` sees it end."""
        try:
            await self._done.wait()
        except BaseException as error:
            self.cancel()
            if settle and not isinstance(error, GeneratorExit):  # a coroutine being closed may not await
                with anyio.CancelScope(shield=True):
                    await self._done.wait()
            raise
        if self._error is not None:
            raise self._error
        return self._result
